package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/onceward/onceward/fault"
)

// runFault is `onceward fault`.
func runFault(ctx context.Context, args, _ []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("fault", flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	to := fs.String("to", "", "the server behind, as http://`host:port`")
	plan := fs.String("plan", "", "what happens to requests: `rules`, see below; by default everything passes")
	match := fs.String("match", "", "`requests` that rules without a match of their own are for,\nsuch as \"POST /tasks*\"; by default every POST, PUT, PATCH and DELETE")
	script := fs.String("script", "", "`faults` for the next requests, one each, before the plan")
	mode := fs.String("mode", "plan", "one `fault` for every request until it is changed: offline, pass, …")
	seed := fs.String("seed", "", "`number` that makes a run replayable; by default a random one, which is printed")
	login := fs.String("login", "/login", "`path` that login-302 sends to")
	logFile := fs.String("log", "", "`file` that each request is appended to, a line of JSON; - is stdout")
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), "usage: onceward fault --to http://127.0.0.1:8000 [flags]\n\n")
		fs.PrintDefaults()
		fmt.Fprintf(fs.Output(), faultHelp, modesHelp())
	}
	if over, code := parse(fs, args, stdout, stderr); over {
		return code
	}

	if *to == "" {
		return refuse(stderr, "fault", "which server is behind? Write --to http://127.0.0.1:8000")
	}
	cfg := fault.Config{Login: *login, Seed: rand.Uint64N(1_000_000)}
	if *seed != "" {
		n, err := strconv.ParseUint(*seed, 10, 64)
		if err != nil {
			return refuse(stderr, "fault", "--seed %q is no whole number from 0", *seed)
		}
		cfg.Seed = n
	}
	var err error
	if cfg.Plan, err = fault.ParsePlan(*plan); err != nil {
		return refuse(stderr, "fault", "--plan: %s", plain(err))
	}
	if *match != "" {
		m, err := fault.ParseMatch(*match)
		if err != nil {
			return refuse(stderr, "fault", "--match: %s", plain(err))
		}
		cfg.Plan = cfg.Plan.For(m)
	}
	lines, err := openLog(*logFile, stdout)
	if err != nil {
		return failed(stderr, err)
	}
	if lines != nil {
		defer lines.Close()
		cfg.LogTo = lines
	}
	p, err := fault.New(*to, cfg)
	if err != nil {
		return refuse(stderr, "fault", "--to or --login: %s", plain(err))
	}
	if err := p.Set(fault.Change{Mode: mode, Script: script}); err != nil {
		return refuse(stderr, "fault", "--mode or --script: %s", plain(err))
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return failed(stderr, fmt.Errorf("%w; --listen 127.0.0.1:0 takes a free port", err))
	}
	return serveFault(ctx, p, l, stdout, stderr)
}

// serveFault runs the proxy until ctx ends.
func serveFault(ctx context.Context, p *fault.Proxy, l net.Listener, stdout, stderr io.Writer) int {
	// The first line is for programs that asked for port 0.
	url := "http://" + reachable(l.Addr())
	s := p.State()
	fmt.Fprintf(stdout, "listening on %s\n", url)
	fmt.Fprintf(stdout, "to %s, seed %d, mode %s, plan %q\nsteer it at %s/.fault\n", s.Target, s.Seed, s.Mode, s.Plan, url)
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		fmt.Fprintf(stderr, "onceward fault: %s is open to the network, and whoever reaches it can steer the proxy and read the keys in its log\n", l.Addr())
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	var err error
	select {
	case <-ctx.Done():
		err = p.Close()
		<-served
	case err = <-served:
		err = errors.Join(err, p.Close())
	}
	if err != nil {
		return failed(stderr, err)
	}
	return exitOK
}

// reachable is the address as a client on this machine would write it.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}

func failed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "onceward fault: %s\n", plain(err))
	return exitFailed
}

// plain is the error's text without the package's name, which the command's
// name says already.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "fault: ") }

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// openLog opens the file for appending; nil if there is to be none. It is for
// its owner alone: idempotency keys stand in it.
func openLog(name string, stdout io.Writer) (io.WriteCloser, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return nopCloser{stdout}, nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--log: %w", err)
	}
	return f, nil
}

// modeHelp has a word for each of [fault.Modes].
var modeHelp = map[string]string{
	"pass":                      "request and answer pass untouched",
	"refuse":                    "reset at once, nothing is forwarded; also called offline",
	"blackhole[:DURATION]":      "read and never answered, nothing is forwarded",
	"half-request":              "half of the request arrives, then both sides are reset",
	"cut-after-forward":         "the work is done, the answer is lost",
	"cut-mid-body":              "the work is done, half of the answer arrives",
	"STATUS[:ra=SECONDS]":       "a proxy's error, nothing is forwarded; ra is Retry-After",
	"STATUS-after[:ra=SECONDS]": "a proxy's error after the work is done",
	"slow:DURATION":             "the request is held back first; goes with any other",
	"slow-after:DURATION":       "the answer is held back; goes with any other",
	"duplicate":                 "forwarded twice, one after the other",
	"duplicate-concurrent":      "forwarded twice at the same moment",
	"captive-200":               "a captive portal's page, nothing is forwarded",
	"login-302[:/PATH]":         "sent to a login page, nothing is forwarded",
	"login-200":                 "a login form in place of the answer, nothing is forwarded",
	"waf-403":                   "a firewall's page, nothing is forwarded",
	"reset-once":                "on a kept connection: done, and closed without an answer",
}

func modesHelp() string {
	var b strings.Builder
	for _, mode := range fault.Modes() {
		fmt.Fprintf(&b, "  %-26s %s\n", mode, modeHelp[mode])
	}
	return b.String()
}

const faultHelp = `
A plan is a list of terms, MODE=PROBABILITY:ARGUMENT, of which the probability
(1 if left out) and the argument may be missing; rules for certain requests are
written METHODS PATH -> TERMS, and parted by semicolons:

  --plan "cut-after-forward=0.3,502=0.1,slow=2s"
  --plan "POST /tasks* -> 504-after=0.2,slow=0.5:2s; * /ping -> 503:ra=3"

A script is a list of modes, each with its argument, for the next requests:

  --script "POST /tasks -> cut-after-forward, 502*3, slow:2s+duplicate"

Modes (STATUS is a number from 400 to 599, such as 502 or 504-after):
%s
While it runs it is steered over HTTP at /.fault:

  curl 127.0.0.1:8080/.fault                            the state
  curl 127.0.0.1:8080/.fault -d '{"mode":"offline"}'    also plan, seed, script, cut
  curl 127.0.0.1:8080/.fault/log                        every request and its fate
`
