// Package repository tells a command of this module where the repository is that it
// was started in.
package repository

import (
	"errors"
	"os"
	"path/filepath"
)

// Root walks up from the working folder to the one that has go.work.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work here or above: run it inside the repository")
		}
		dir = parent
	}
}
