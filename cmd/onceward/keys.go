package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/onceward/onceward"
)

const keysHelp = `usage: onceward keys ACTION [flags] [KEY|ID]

actions:
  show      one record: its state, whose it is, the answer's head
  list      records; --stuck lists those whose outcome nobody knows
  release   frees a key in progress, so that its request runs again
  complete  gives a key in progress its answer, so that its request never runs again
  sweep     deletes what is out of date
  hash      a key's id in the logs, and its scope's; needs no store
  schema    the SQL that the store's table is made with: schema sqlite|postgres

KEY is the key as the client sent it, ID the record's name in the log or its
beginning. release and complete are written down with --reason and who did it; show
tells of it, also when the record is gone. A claim whose lease still runs has a
worker: to end it in spite of that, and risk a second run, takes --force.

`

// keysFlags are the flags of every action; each takes what it needs.
type keysFlags struct {
	store, scope, state, reason, who, body string
	header                                 headerFlag
	status, limit                          int
	retain                                 time.Duration
	stuck, asKey, showBody, force          bool
}

// runKeys is `onceward keys`.
func runKeys(ctx context.Context, args, env []string, _ io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return refuse(stderr, "keys", "which action? show, list, release, complete, sweep, hash or schema")
	}
	var f keysFlags
	fs := flag.NewFlagSet("keys", flag.ContinueOnError)
	fs.StringVar(&f.store, "store", "", "where the records are, `one` of "+storeNames)
	fs.StringVar(&f.scope, "scope", "", "whose keys: the `account` as the application names it, or the scope's name in the log")
	fs.StringVar(&f.state, "state", "", "list: in-progress or completed")
	fs.BoolVar(&f.stuck, "stuck", false, "list: in progress with the lease over, or held")
	fs.IntVar(&f.limit, "limit", 100, "list: at most so many")
	fs.BoolVar(&f.asKey, "key", false, "the argument is a key, even if it looks like an id")
	fs.BoolVar(&f.showBody, "body", false, "show: print the kept answer whole; it may be private")
	fs.StringVar(&f.reason, "reason", "", "release, complete: why; required")
	fs.BoolVar(&f.force, "force", false, "release, complete: although its worker may be alive")
	fs.StringVar(&f.who, "who", "", "release, complete: who; by default the user of this process")
	fs.IntVar(&f.status, "status", 0, "complete: the answer's HTTP status")
	fs.Var(&f.header, "header", "complete: a `line` of the answer, as \"Location: /orders/1\"; may be repeated")
	fs.StringVar(&f.body, "answer", "", "complete: the `file` with the answer's body")
	fs.DurationVar(&f.retain, "retain", 24*time.Hour, "complete: how long the answer is replayed")
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), keysHelp)
		fs.PrintDefaults()
	}
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		fs.SetOutput(stdout)
		fs.Usage()
		return exitOK
	}
	action, names := args[0], []string{}
	for rest := args[1:]; len(rest) > 0; { // flags may stand on either side of the key
		if !strings.HasPrefix(rest[0], "-") {
			names, rest = append(names, rest[0]), rest[1:]
			continue
		}
		fs.Init("keys", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		if err := fs.Parse(rest); err != nil {
			return refuse(stderr, "keys", "%s", err)
		}
		rest = fs.Args()
	}
	name := ""
	switch {
	case len(names) > 1:
		return refuse(stderr, "keys", "one at a time: what is %q for?", names[1])
	case len(names) == 1:
		name = names[0]
	case slices.Contains([]string{"show", "release", "complete", "hash"}, action):
		return refuse(stderr, "keys", "%s needs a key or an id", action)
	}
	return keysAction(ctx, action, name, f, env, stdout, stderr)
}

func keysAction(ctx context.Context, action, name string, f keysFlags, env []string, stdout, stderr io.Writer) int {
	switch action {
	case "hash":
		key := onceward.NewKey(f.scope, name)
		fmt.Fprintf(stdout, "id     %s\n", key.RecordID())
		if f.scope != "" {
			fmt.Fprintf(stdout, "scope  %s\n", key.ScopeID())
		}
		return exitOK
	case "schema":
		text, ok := schemas[name]
		if !ok {
			return refuse(stderr, "keys", "schema of what? %s", strings.Join(slices.Sorted(maps.Keys(schemas)), " or "))
		}
		fmt.Fprintln(stdout, strings.TrimSpace(text()))
		return exitOK
	case "show", "list", "release", "complete", "sweep":
	default:
		return refuse(stderr, "keys", "there is no action %q", action)
	}
	if f.store = storeName(f.store, env); f.store == "" {
		return refuse(stderr, "keys", "which store? Write --store sqlite:FILE, or set ONCEWARD_STORE")
	}
	change := action == "release" || action == "complete"
	if change && strings.TrimSpace(f.reason) == "" {
		return refuse(stderr, "keys", "%s is written down: say why with --reason", action)
	}
	if action == "complete" && (f.status < 200 || f.status > 599) {
		return refuse(stderr, "keys", "which answer? Write --status 201, and --header and --answer where the client needs them")
	}
	if !slices.Contains([]string{"", onceward.InProgress.String(), onceward.Completed.String()}, f.state) {
		return refuse(stderr, "keys", "--state %q is neither in-progress nor completed", f.state)
	}
	if action == "complete" && f.retain <= 0 {
		return refuse(stderr, "keys", "--retain %v would free the key at once: say how long the answer is replayed", f.retain)
	}
	store, closeStore, err := openStore(ctx, f.store, storeUse{})
	if err != nil {
		fmt.Fprintf(stderr, "onceward keys: %s\n", plain(err))
		return exitFailed
	}
	defer closeStore()
	k := keys{store: store, f: f, out: stdout}
	switch action {
	case "list":
		err = k.list(ctx)
	case "sweep":
		err = k.sweep(ctx)
	case "show":
		err = k.show(ctx, name)
	default:
		err = k.change(ctx, action, name)
	}
	if err != nil {
		fmt.Fprintf(stderr, "onceward keys: %s\n", plain(err))
		return exitFailed
	}
	return exitOK
}

// keys is one call on an open store.
type keys struct {
	store onceward.Store
	f     keysFlags
	out   io.Writer
}

var looksLikeID = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// query is what name stands for: a key, or the beginning of an id.
func (k keys) query(name string) onceward.Query {
	q := onceward.Query{Limit: k.f.limit}
	if k.f.scope != "" {
		scope := onceward.NewKey(k.f.scope, "").Scope
		q.Scope = &scope
	}
	switch {
	case name == "":
	case !k.f.asKey && looksLikeID.MatchString(name):
		q.Prefix, _ = hex.DecodeString(name[:len(name)&^1])
	default:
		sum := sha256.Sum256([]byte(name))
		q.Prefix = sum[:]
	}
	return q
}

func (k keys) find(ctx context.Context, q onceward.Query) ([]onceward.Record, error) {
	lister, ok := k.store.(onceward.Lister)
	if !ok {
		return nil, fmt.Errorf("%T cannot be listed", k.store)
	}
	found, err := lister.List(ctx, q)
	if err != nil || len(found) > 0 || q.Scope == nil || !looksLikeID.MatchString(k.f.scope) {
		return found, err
	}
	// No account is called so: it is a scope's name in the log, or its beginning.
	limit := q.Limit
	for q.Scope, q.Limit = nil, 500; ; {
		page, err := lister.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, rec := range page {
			if strings.HasPrefix(hex.EncodeToString(rec.Key.Scope[:]), k.f.scope) && len(found) < limit {
				found = append(found, rec)
			}
		}
		if len(page) < q.Limit || len(found) == limit {
			return found, nil
		}
		q.After = page[len(page)-1].Key
	}
}

var errNoRecord = errors.New("there is no such record: it never was, was released, or its retention is over")

// one finds the record that name means, and no other.
func (k keys) one(ctx context.Context, name string) (onceward.Record, error) {
	q := k.query(name)
	q.Limit = 2
	byID := !k.f.asKey && looksLikeID.MatchString(name)
	if byID {
		q.Limit = 64 // those that differ in the last of an odd number of digits are sorted out
	}
	found, err := k.find(ctx, q)
	if byID {
		found = slices.DeleteFunc(found, func(rec onceward.Record) bool {
			return !strings.HasPrefix(hex.EncodeToString(rec.Key.ID[:]), name)
		})
	}
	if err == nil && len(found) == 0 && !k.f.asKey && looksLikeID.MatchString(name) {
		k.f.asKey = true
		return k.one(ctx, name)
	}
	switch {
	case err != nil:
		return onceward.Record{}, err
	case len(found) == 0:
		return onceward.Record{}, errNoRecord
	case len(found) > 1:
		return onceward.Record{}, errors.New("several records have this name: say whose with --scope, or give more of the id")
	}
	looker, ok := k.store.(onceward.Looker)
	if !ok {
		return found[0], nil
	}
	rec, ok, err := looker.Look(ctx, found[0].Key)
	if err == nil && !ok {
		err = errors.New("the record has just gone")
	}
	return rec, err
}

func (k keys) list(ctx context.Context) error {
	q := k.query("")
	q.Stuck = k.f.stuck
	switch k.f.state {
	case onceward.InProgress.String():
		q.State = onceward.InProgress
	case onceward.Completed.String():
		q.State = onceward.Completed
	}
	found, err := k.find(ctx, q)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(k.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSCOPE\tSTATE\tAGE\tLEASE\tATTEMPT\tSTATUS\tREQUEST")
	for _, rec := range found {
		status, lease := "", ""
		if rec.Response != nil {
			status = fmt.Sprint(rec.Response.Status)
		}
		if rec.State == onceward.InProgress {
			lease = rec.LeaseLeft.Round(time.Second).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s %s\n", rec.Key.RecordID(), rec.Key.ScopeID(), stateOf(rec),
			rec.Age.Round(time.Second), lease, rec.Attempt, status, legible(rec.Method), legible(rec.Path))
	}
	return t.Flush()
}

// legible quotes a text that would do something to a terminal: a path is whatever a
// stranger has asked for.
func legible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}

// stateOf is a record's state in words, with what is no state of its own.
func stateOf(rec onceward.Record) string {
	switch {
	case rec.State == onceward.InProgress && rec.Held:
		return "held"
	case rec.State == onceward.InProgress && rec.LeaseLeft <= 0:
		return "unknown"
	}
	return rec.State.String()
}

func (k keys) show(ctx context.Context, name string) error {
	rec, err := k.one(ctx, name)
	if errors.Is(err, errNoRecord) {
		return errors.Join(err, k.history(ctx, name))
	}
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(k.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "id\t%x\nscope\t%x\nstate\t%s\nrequest\t%s %s\nattempt\t%d\nage\t%s\n", rec.Key.ID, rec.Key.Scope, stateOf(rec), legible(rec.Method), legible(rec.Path), rec.Attempt, rec.Age.Round(time.Second))
	if rec.State == onceward.InProgress {
		fmt.Fprintf(t, "lease\t%s\n", rec.LeaseLeft.Round(time.Second))
	}
	if r := rec.Response; r != nil {
		fmt.Fprintf(t, "answer\t%d, %d bytes\n", r.Status, len(r.Body))
		for _, h := range slices.Sorted(maps.Keys(r.Header)) {
			fmt.Fprintf(t, "\t%s: %s\n", legible(h), legible(strings.Join(r.Header[h], ", ")))
		}
	}
	if auditor, ok := k.store.(onceward.Auditor); ok {
		audits, err := auditor.Audits(ctx, rec.Key, 10)
		if err != nil {
			return err
		}
		for _, a := range audits {
			fmt.Fprintf(t, "changed\t%s\n", changed(a))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if k.f.showBody && rec.Response != nil {
		_, err = fmt.Fprintf(k.out, "\n%s\n", rec.Response.Body)
	}
	return err
}

func changed(a onceward.Audit) string {
	return fmt.Sprintf("%s %s by %s: %s", a.At.UTC().Format(time.RFC3339), legible(a.Action), legible(a.Who), legible(a.Reason))
}

// history prints what was done by hand to a record that is gone. Without the record
// its scope is not known, so that it is looked for among the store's last changes.
func (k keys) history(ctx context.Context, name string) error {
	auditor, ok := k.store.(onceward.Auditor)
	if !ok {
		return nil
	}
	const last = 10_000
	audits, err := auditor.Audits(ctx, onceward.Key{}, last)
	if err != nil {
		return err
	}
	byKey := sha256.Sum256([]byte(name))
	for _, a := range audits {
		id := hex.EncodeToString(a.Key.ID[:])
		if a.Key.ID == byKey || !k.f.asKey && looksLikeID.MatchString(name) && strings.HasPrefix(id, name) {
			fmt.Fprintf(k.out, "%s  changed  %s\n", a.Key.RecordID(), changed(a))
		}
	}
	return nil
}

// change ends a claim by hand, under its own token: an owner who ends it at the
// same moment, or a new claim, is not overwritten.
func (k keys) change(ctx context.Context, action, name string) error {
	auditor, ok := k.store.(onceward.Auditor)
	if !ok {
		return fmt.Errorf("%T cannot write down who changed it, so nothing is changed by hand there", k.store)
	}
	rec, err := k.one(ctx, name)
	if err != nil {
		return err
	}
	if rec.State != onceward.InProgress {
		return fmt.Errorf("the record is %s: only a claim in progress can be ended by hand", stateOf(rec))
	}
	if rec.LeaseLeft > 0 && !rec.Held && !k.f.force {
		return fmt.Errorf("its lease runs for another %v, so its worker may be alive: wait, or end it with --force and risk that the work is done twice", rec.LeaseLeft.Round(time.Second))
	}
	who := k.f.who
	if who == "" {
		if u, err := user.Current(); err == nil {
			who = u.Username
		}
	}
	resp := &onceward.Response{Status: k.f.status, Header: http.Header(k.f.header)}
	if action == "complete" && k.f.body != "" {
		if resp.Body, err = os.ReadFile(k.f.body); err != nil {
			return err
		}
	}
	err = auditor.Audit(ctx, onceward.Audit{Who: who, Action: action, Reason: k.f.reason, Key: rec.Key, Token: rec.Token})
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if action == "release" {
		err = k.release(ctx, rec)
	} else {
		err = k.store.Complete(ctx, rec.Key, rec.Token, resp, k.f.retain)
	}
	if errors.Is(err, onceward.ErrClaimLost) {
		return errors.New("nothing was changed: the claim has just ended by itself, or another has it")
	}
	if err == nil {
		fmt.Fprintf(k.out, "%s: %sd\n", rec.Key.RecordID(), action)
	}
	return err
}

// release ends rec's claim, and looks whether it was this that ended it: a store
// says nothing of a claim that was no longer there.
func (k keys) release(ctx context.Context, rec onceward.Record) error {
	if err := k.store.Release(ctx, rec.Key, rec.Token); err != nil {
		return err
	}
	looker, ok := k.store.(onceward.Looker)
	if !ok {
		return nil
	}
	now, there, err := looker.Look(ctx, rec.Key)
	// A first attempt under another token is a request that came after the release.
	if err == nil && there && (now.Token == rec.Token || now.Attempt > rec.Attempt) {
		return onceward.ErrClaimLost
	}
	return err
}

func (k keys) sweep(ctx context.Context) error {
	sweeper, ok := k.store.(onceward.Sweeper)
	if !ok {
		fmt.Fprintln(k.out, "this store deletes by itself; there is nothing to do")
		return nil
	}
	const step = 500
	for all := 0; ; {
		n, err := sweeper.Sweep(ctx, step)
		all += n
		if err != nil {
			return err
		}
		if n < step {
			fmt.Fprintf(k.out, "deleted %d\n", all)
			return nil
		}
	}
}

// headerFlag gathers header lines.
type headerFlag http.Header

func (h *headerFlag) String() string { return "" }

func (h *headerFlag) Set(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%q is no header line", line)
	}
	if *h == nil {
		*h = headerFlag{}
	}
	http.Header(*h).Add(strings.TrimSpace(name), strings.TrimSpace(value))
	return nil
}
