// Command worker is one of the processes that a test of internal/integration/histories
// lets work on one store, and kills. It is a program of its own so that it can be
// built without the race detector when the test is not.
//
//	worker history -store sqlite:FILE -plan JSON -out FILE
//	worker serve -store sqlite:FILE -effects FILE [-atomic]
//
// It says "ready" when its store is open and begins with the first line of
// standard input; when that ends, because the test is gone, so does the worker.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/onceward/onceward/internal/integration/histories"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("history or serve?")
	}
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	address := flags.String("store", "", "the store's address")
	planned := flags.String("plan", "", "a histories.Plan")
	out := flags.String("out", "", "where the history goes")
	var s setting
	flags.StringVar(&s.effects, "effects", "", "the file that gets a line for each run of the handler")
	flags.BoolVar(&s.atomic, "atomic", false, "claim, effect and answer in one transaction: Guard.Atomic")
	flags.DurationVar(&s.lease, "lease", 0, "onceward.Config.Lease")
	flags.DurationVar(&s.retention, "retention", 0, "onceward.Config.Retention")
	flags.Float64Var(&s.lose, "lose", 0, "the share of the store's answers that get lost")
	flags.Uint64Var(&s.seed, "seed", 0, "what decides which")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if args[0] == "serve" {
		s.address = *address
		return serve(ctx, s)
	}

	var plan histories.Plan
	if err := json.Unmarshal([]byte(*planned), &plan); err != nil {
		return err
	}
	store, err := histories.Open(ctx, *address)
	if err != nil {
		return err
	}
	record, err := histories.NewRecorder(*out)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return errors.New("nobody said go")
	}
	go func() {
		for in.Scan() {
		}
		os.Exit(1)
	}()
	if err := plan.Run(ctx, store, record); err != nil {
		return err
	}
	return errors.Join(store.Close(ctx), record.Close())
}
