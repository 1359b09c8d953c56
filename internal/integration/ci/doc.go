// Package ci runs the workflow of docs/ci.md, step by step as GitHub would, against an
// app that is right and against apps that are wrong.
package ci
