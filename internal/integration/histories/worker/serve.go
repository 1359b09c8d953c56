package main

import (
	"context"
	"errors"
)

func serve(context.Context, string, string) error { return errors.New("todo") }
