package outbox

import (
	"bytes"
	"encoding/json"
	"html/template"
	"time"
)

// ScriptConfig is what a page tells the browser's half. The zero value is a page
// of somebody who is not signed in. Zero durations and sizes leave the scripts'
// own defaults, which stand in engine.js.
type ScriptConfig struct {
	// Owner is [Tag] of whoever is signed in, the first secret's. Empty means
	// nobody: then nothing is announced and nothing is sent.
	Owner string

	// Prefix is where [Handler] is mounted. Empty means "/outbox/".
	Prefix string
	// Worker is the path of the service worker: an application's own, if it has
	// one that imports ours. Empty means Prefix + "sw.js"; "-" means none, and
	// the page does the work while it is open.
	Worker string
	// Login is where the strip's "log in" leads. Empty means that the strip only
	// says so.
	Login string

	// Retention is the guard's, as in [EdgeConfig].
	Retention time.Duration
	// MaxAge is when an entry that was never sent is no longer sent by itself: the
	// person is asked instead.
	MaxAge time.Duration
	// SoftLimit is when a tap is answered with "waiting" while its request goes
	// on; HardLimit is when the request is given up and tried again.
	SoftLimit, HardLimit time.Duration
	// MaxBody is the largest body that is kept, in bytes, of one entry.
	MaxBody int64

	// Nonce is put on the tags, for pages whose policy wants one. The scripts are
	// files of the same origin, so a policy of 'self' needs none.
	Nonce string
	// NoKit leaves out kit.js and kit.css: the strip, the captions on rows and the
	// list of waiting changes. The page then shows the state by itself.
	NoKit bool
	// Texts replace the kit's words, by their names in texts.js, for a language
	// other than Russian and English or for other words.
	Texts map[string]string
}

var scriptTemplate = template.Must(template.New("script").Parse(
	`<meta name="outbox-owner" content="{{.Owner}}">
<meta name="outbox-config" content="{{.JSON}}">
{{if not .NoKit}}<link rel="stylesheet" href="{{.Prefix}}kit.css"{{template "nonce" .Nonce}}>
{{end}}<script type="module" src="{{.Prefix}}page.js"{{template "nonce" .Nonce}}></script>
{{if not .NoKit}}<script type="module" src="{{.Prefix}}kit.js"{{template "nonce" .Nonce}}></script>
{{end}}{{define "nonce"}}{{if .}} nonce="{{.}}"{{end}}{{end}}`))

// Script is what a page's head needs: the owner's tag, the configuration and the
// tags that load the scripts and the kit. Print it into every page of the
// application, those for people who are not signed in too: a page without an
// owner is how the worker learns of a log-out.
//
// It panics if Prefix does not begin and end with a slash.
func Script(cfg ScriptConfig) template.HTML {
	prefix := cleanPrefix(cfg.Prefix)
	worker := cfg.Worker
	switch worker {
	case "":
		worker = prefix + "sw.js"
	case "-":
		worker = ""
	}
	config, err := json.Marshal(struct {
		Prefix    string            `json:"prefix"`
		Worker    string            `json:"worker"`
		Login     string            `json:"login,omitempty"`
		Retention int64             `json:"retention,omitempty"`
		MaxAge    int64             `json:"maxAge,omitempty"`
		SoftLimit int64             `json:"softLimit,omitempty"`
		HardLimit int64             `json:"hardLimit,omitempty"`
		MaxBody   int64             `json:"maxBody,omitempty"`
		Texts     map[string]string `json:"texts,omitempty"`
	}{
		prefix, worker, cfg.Login,
		cfg.Retention.Milliseconds(), cfg.MaxAge.Milliseconds(),
		cfg.SoftLimit.Milliseconds(), cfg.HardLimit.Milliseconds(),
		cfg.MaxBody, cfg.Texts,
	})
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
