package outbox

import (
	"bytes"
	"encoding/json"
	"html/template"
	"time"
)

// ScriptConfig is what a page tells the browser's half. The zero value is a page
// of somebody who is not signed in. Zero durations and numbers leave the scripts'
// own defaults, which line.js lists; durations are told in whole milliseconds.
type ScriptConfig struct {
	// Owner is [Tag] of whoever is signed in, the first secret's. Empty means
	// nobody: then nothing is announced, and the worker sends nothing until a page
	// has an owner again. It is a log-out.
	Owner string
	// Former are the same account's tags under the former secrets that [Owned] still
	// takes: what was made under them goes out under Owner.
	Former []string
	// Unknown is for a page that is printed without looking who is signed in: one
	// that a worker keeps and shows, to whoever it may be, when there is no
	// network, or an error page of what stands before authentication. It has no
	// owner, not even an empty one, so it is no log-out; it announces nothing and
	// registers nothing; the kit shows what waits of whoever the worker sends for.
	// Owner and Headers are not printed.
	Unknown bool

	// Prefix is where [Handler] is mounted. Empty means "/outbox/".
	Prefix string
	// Worker is the path of the service worker: an application's own, if it has
	// one that imports ours. Empty means Prefix + "sw.js"; "-" means none, and
	// the page does the work while it is open.
	Worker string
	// ClassicWorker says that Worker is no module and takes in classic.js.
	ClassicWorker bool
	// Scope is the part of the site that the worker is registered for. Empty means
	// "/".
	Scope string
	// Login is where the strip's "log in" leads. Empty means that the strip only
	// says so.
	Login string
	// KeyField is the guard's FormField. Empty means "_key".
	KeyField string
	// Status is where onceward's Guard.Status is mounted, up to the key
	// ("/idempotency/"): there the kit asks what became of a request that it may
	// not send again. Empty means that only the person can look.
	Status string
	// Headers are put on every request that is sent, whenever it was made: a token
	// against forged requests, which would be out of date in an entry.
	Headers map[string]string

	// Deny is a regular expression, JavaScript's, of paths that are never taken:
	// "^/(pay|quiz)(/|$)". It is added to SignIn, /api/billing and /miniapp/auth,
	// with what lies below them.
	Deny string
	// SignIn is one of the paths at which a POST may change who is signed in: it is
	// never taken, and from then on nothing is sent until a page says who that is.
	// It is added to /auth, /login, /logout, /signin, /signout and /register, with
	// what lies below them.
	SignIn string
	// Acknowledge is the proof of delivery of a server that is not guarded by
	// onceward. Without a Header, Idempotency-Status alone is one.
	Acknowledge Acknowledge

	// Retention is the guard's, as in [EdgeConfig]; negative: it never forgets.
	Retention time.Duration
	// MaxAge is when an entry that was never sent is no longer sent by itself: the
	// person is asked instead. Zero means never.
	MaxAge time.Duration
	// SoftLimit is when a tap is answered with "it waits" while its request goes on
	// (8 s); HardLimit is when the request is given up and tried again (25 s,
	// doubling with each time-out up to HardLimitMax, 2 min, and what a large body
	// takes at 4 KiB a second).
	SoftLimit, HardLimit, HardLimitMax time.Duration
	// Backoff is the mean of the first pause (1 s); it doubles up to BackoffVisible
	// (1 min) while a page is seen, else up to BackoffHidden (15 min). KickEvery is
	// how often a page that is seen wakes the worker while anything waits (5 s).
	Backoff, BackoffVisible, BackoffHidden, KickEvery time.Duration
	// MaxBody is the largest body that is kept (1 MiB), MaxBytes how much all bodies
	// may have (20 MiB), MaxEntries how many there may be (200). What is over is
	// sent unprotected, and the person is told.
	MaxBody, MaxBytes int64
	MaxEntries        int

	// Nonce is put on the tags, for pages whose policy wants one. The scripts are
	// files of the same origin, so a policy of 'self' needs none.
	Nonce string
	// NoKit leaves out kit.js and kit.css: the strip, the captions on rows and the
	// list of waiting changes. The page then shows the state by itself.
	NoKit bool
	// NoBadge leaves the number on the app's icon alone, for an application that has
	// one of its own. Otherwise the kit shows there how many changes are not saved,
	// in browsers that can.
	NoBadge bool
	// Texts replace the kit's words, by their names in words.en.js, for a language
	// other than Russian and English or for other words. texts.js says how things
	// are counted: a name with a number has a line for each plural category of the
	// page's language.
	Texts map[string]string
}

// Acknowledge names a header that only the application itself sets, on the answer
// to what it has done or refused for good; nothing on the way, no proxy and no
// login page, may set it. An answer with it and a status below 400 is "done", one
// with 400 or above "refused".
type Acknowledge struct {
	Header string `json:"header"`
	// Values are those that acknowledge, up to a semicolon; none: any does.
	Values []string `json:"values,omitempty"`
}

// scriptJSON is ScriptConfig under the names that the scripts read.
type scriptJSON struct {
	Prefix         string            `json:"prefix"`
	Worker         string            `json:"worker"`
	WorkerType     string            `json:"workerType,omitempty"`
	Scope          string            `json:"scope,omitempty"`
	Login          string            `json:"login,omitempty"`
	KeyField       string            `json:"keyField,omitempty"`
	Status         string            `json:"status,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	Former         []string          `json:"former,omitempty"`
	Deny           string            `json:"deny,omitempty"`
	SignIn         string            `json:"auth,omitempty"`
	Acknowledge    *Acknowledge      `json:"ack,omitempty"`
	Retention      int64             `json:"retention,omitempty"`
	MaxAge         int64             `json:"maxAge,omitempty"`
	SoftLimit      int64             `json:"softLimit,omitempty"`
	HardLimit      int64             `json:"hardLimit,omitempty"`
	HardLimitMax   int64             `json:"hardLimitMax,omitempty"`
	Backoff        int64             `json:"backoff,omitempty"`
	BackoffVisible int64             `json:"backoffVisible,omitempty"`
	BackoffHidden  int64             `json:"backoffHidden,omitempty"`
	KickEvery      int64             `json:"kickEvery,omitempty"`
	MaxBody        int64             `json:"maxBody,omitempty"`
	MaxBytes       int64             `json:"maxBytes,omitempty"`
	MaxEntries     int               `json:"maxEntries,omitempty"`
	NoBadge        bool              `json:"noBadge,omitempty"`
	Texts          map[string]string `json:"texts,omitempty"`
}

func (c ScriptConfig) forScripts(prefix string) scriptJSON {
	ms := time.Duration.Milliseconds
	j := scriptJSON{
		Prefix: prefix, Worker: c.Worker, Scope: c.Scope, Login: c.Login, KeyField: c.KeyField, Status: c.Status, Headers: c.Headers,
		SignIn:    c.SignIn,
		Retention: ms(c.Retention), MaxAge: ms(c.MaxAge),
		SoftLimit: ms(c.SoftLimit), HardLimit: ms(c.HardLimit), HardLimitMax: ms(c.HardLimitMax),
		Backoff: ms(c.Backoff), BackoffVisible: ms(c.BackoffVisible), BackoffHidden: ms(c.BackoffHidden), KickEvery: ms(c.KickEvery),
		MaxBody: c.MaxBody, MaxBytes: c.MaxBytes, MaxEntries: c.MaxEntries, NoBadge: c.NoBadge, Texts: c.Texts,
	}
	if c.Deny != "" && c.SignIn != "" {
		j.Deny = "(?:" + c.Deny + ")|(?:" + c.SignIn + ")"
	} else {
		j.Deny = c.Deny + c.SignIn
	}
	if c.Acknowledge.Header != "" {
		j.Acknowledge = &c.Acknowledge
	}
	switch c.Worker {
	case "":
		j.Worker = prefix + "sw.js"
	case "-":
		j.Worker = ""
	}
	if c.ClassicWorker {
		j.WorkerType = "classic"
	}
	if c.Unknown {
		j.Worker, j.WorkerType, j.Headers = "", "", nil
	} else if c.Owner != "" {
		j.Former = c.Former
	}
	if c.Retention < 0 {
		j.Retention = -1
	}
	return j
}

var scriptTemplate = template.Must(template.New("script").Parse(
	`{{if not .Unknown}}<meta name="outbox-owner" content="{{.Owner}}">
{{end}}<meta name="outbox-config" content="{{.JSON}}">
{{if not .NoKit}}<link rel="stylesheet" href="{{.Prefix}}kit.css"{{template "nonce" .Nonce}}>
{{end}}<script type="module" src="{{.Prefix}}page.js"{{template "nonce" .Nonce}}></script>
{{if not .NoKit}}<script type="module" src="{{.Prefix}}kit.js"{{template "nonce" .Nonce}}></script>
{{end}}{{define "nonce"}}{{if .}} nonce="{{.}}"{{end}}{{end}}`))

// Script is what a page's head needs: the owner's tag, the configuration and the
// tags that load the scripts and the kit. Print it into every page of the
// application that knows who is signed in, those for people who are not signed in
// too: an empty owner is how the worker learns of a log-out. A page that does not
// know (ScriptConfig.Unknown) must say nothing of it, or leave Script out.
//
// It panics if Prefix does not begin and end with a slash.
func Script(cfg ScriptConfig) template.HTML {
	prefix := cleanPrefix(cfg.Prefix)
	config, err := json.Marshal(cfg.forScripts(prefix))
	if err != nil {
		panic(err) // strings and numbers
	}
	var buf bytes.Buffer
	err = scriptTemplate.Execute(&buf, struct {
		ScriptConfig
		JSON   string
		Prefix string
	}{cfg, string(config), prefix})
	if err != nil {
		panic(err) // a template of our own with strings
	}
	return template.HTML(buf.String())
}
