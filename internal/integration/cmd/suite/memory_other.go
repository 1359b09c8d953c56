//go:build !linux

package main

// inMemory is for Linux.
func inMemory() string { return "" }
