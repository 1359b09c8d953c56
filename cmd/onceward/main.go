// Command onceward is the project's tools in one binary: one subcommand each.
//
//	onceward fault --listen 127.0.0.1:8080 --to http://127.0.0.1:8000 \
//		--plan "cut-after-forward=0.3,502=0.1,slow=2s" --seed 42
//	onceward gateway --listen 127.0.0.1:8080 --to http://127.0.0.1:8000 \
//		--store sqlite:keys.db --scope cookie:sessionid
//	onceward keys list --store sqlite:keys.db --stuck
//
// Rules that hold for every subcommand: what a program reads goes to stdout,
// what a person must know goes to stderr; a refusal says what to do instead;
// the exit status is 0 after a clean end (SIGINT and SIGTERM are one), 1 after a
// failure, 2 after a call that could not be understood.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// command is a subcommand. Its run gets the arguments after the name.
type command struct {
	name, does string
	run        func(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int
}

var commands = []command{
	{"gateway", "a reverse proxy that makes a tap count once, for an app in any language", runGateway},
	{"fault", "a bad network in front of an HTTP server, seeded and steerable", runFault},
	{"keys", "look into the records of a store, and end what nobody else will end", runKeys},
}

// run is the whole program: main without the process. args are those after the
// program's name, env is os.Environ's form.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintf(stderr, "onceward: which command?\n\n%s", usage())
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage())
		return exitOK
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, args[1:], env, stdin, stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "onceward: there is no command %q\n\n%s", args[0], usage())
	return exitUsage
}

func usage() string {
	var b strings.Builder
	b.WriteString("usage: onceward COMMAND [flags]\n\ncommands:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.does)
	}
	b.WriteString("\nonceward COMMAND -h tells a command's flags.\n")
	return b.String()
}

// parse reads a command's flags. If the command is over with that (help was
// asked for, or the flags are wrong), over is true and code is its exit status.
func parse(fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (over bool, code int) {
	var said bytes.Buffer
	fs.SetOutput(&said)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		io.Copy(stdout, &said)
		return true, exitOK
	case err != nil:
		// The flag package has said why, and then all of its usage; the first
		// line is enough.
		why, _, _ := strings.Cut(said.String(), "\n")
		return true, refuse(stderr, fs.Name(), "%s", why)
	case fs.NArg() > 0:
		return true, refuse(stderr, fs.Name(), "what is %q for? The command takes flags only", fs.Arg(0))
	}
	return false, exitOK
}

// refuse tells why a call was not understood, and where to read on.
func refuse(stderr io.Writer, name, format string, args ...any) int {
	fmt.Fprintf(stderr, "onceward %s: %s\nonceward %s -h tells the flags.\n", name, fmt.Sprintf(format, args...), name)
	return exitUsage
}
