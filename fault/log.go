package fault

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Fate says what became of one request, as its client saw it.
type Fate string

const (
	Open        Fate = "open"        // not ended yet
	Answered    Fate = "answered"    // the upstream's whole answer was given
	StandIn     Fate = "stand-in"    // a whole answer was given that the proxy made up
	Reset       Fate = "reset"       // the connection was reset without a byte of an answer
	Closed      Fate = "closed"      // the connection was closed without a byte of an answer
	Cut         Fate = "cut"         // the connection was reset within the answer
	Left        Fate = "left"        // the client left before the end
	Unreachable Fate = "unreachable" // the upstream took no connection; the client was reset
	Broken      Fate = "broken"      // the upstream broke off; the client saw the same
	Tunnelled   Fate = "tunnelled"   // the upstream switched protocols, and both sides have ended
	Malformed   Fate = "malformed"   // not a request that could be carried; refused with a status
)

// Entry is one request in the log.
type Entry struct {
	N      uint64    `json:"n"` // from 1, in the order of arrival
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"` // as it stood on the wire, without the query
	Query  string    `json:"query,omitempty"`
	// Key is the header Idempotency-Key as it came; FormKey is the field _key
	// of a urlencoded body.
	Key     string `json:"key,omitempty"`
	FormKey string `json:"_key,omitempty"`
	Bytes   int    `json:"bytes"` // of the body, as framed on the wire
	// Conn numbers the client's connections, OnConn the requests on it, both
	// from 1. A Transport, which sees no connections, leaves them zero.
	Conn   uint64 `json:"conn,omitempty"`
	OnConn int    `json:"on_conn,omitempty"`

	// Mode is the fault in its text form; By is what chose it: "plan",
	// "script", "mode", or nothing if no rule matched. Rule and Index are the
	// plan's rule and the request's number under it, from 0.
	Mode  string `json:"mode"`
	By    string `json:"by,omitempty"`
	Rule  string `json:"rule,omitempty"`
	Index uint64 `json:"index"`

	Fate Fate `json:"fate"`
	// Forwarded counts how often the whole request was written to the upstream,
	// Upstream lists the final statuses that came back.
	Forwarded int   `json:"forwarded"`
	Upstream  []int `json:"upstream,omitempty"`
	// Status is what the client was given; 0 means no answer.
	Status int    `json:"status,omitempty"`
	Millis int64  `json:"ms"`
	Err    string `json:"error,omitempty"`
}

// changes says whether the request's method is one that changes things.
func (e Entry) changes() bool { return Match{}.takes(e.Method, "") }

// journal keeps the newest entries. Its owner's lock guards it.
type journal struct {
	max     int
	entries []*Entry
	n       uint64 // entries ever begun
	dropped uint64
	open    int
	counts  map[string]int
	changed map[string]int
	out     io.Writer // JSON lines; nil: none
	outErr  error     // the first error of out
}

// begin adds the entry and counts the modes that it met. The journal has a copy
// of its own, replaced whole, so that a reader never sees one half written.
func (j *journal) begin(e *Entry, met []string) (slot *Entry) {
	j.n++
	e.N, e.Time, e.Fate = j.n, time.Now(), Open
	slot = new(Entry)
	*slot = *e
	j.open++
	for _, name := range met {
		j.counts[name]++
		if e.changes() {
			j.changed[name]++
		}
	}
	if len(j.entries) >= j.max {
		over := len(j.entries) - j.max + 1
		j.entries = j.entries[over:]
		j.dropped += uint64(over)
	}
	j.entries = append(j.entries, slot)
	return slot
}

// end writes the entry out.
func (j *journal) end(e Entry) {
	if j.out == nil || j.outErr != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.out.Write(append(line, '\n'))
	}
	j.outErr = err
}

// clear forgets the entries and the counts; those still open end unseen.
func (j *journal) clear() {
	j.entries, j.dropped = nil, 0
	j.counts, j.changed = map[string]int{}, map[string]int{}
}

func (j *journal) after(n uint64) []Entry {
	out := []Entry{}
	for _, e := range j.entries {
		if e.N > n {
			c := *e
			c.Upstream = append([]int(nil), e.Upstream...)
			out = append(out, c)
		}
	}
	return out
}

// maxFormKey bounds how large a urlencoded body is searched for its key.
const maxFormKey = 1 << 20

// formKey finds the field _key in a urlencoded body.
func formKey(contentType string, body []byte) string {
	kind, _, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") || len(body) > maxFormKey {
		return ""
	}
	for pair := range strings.SplitSeq(string(body), "&") {
		name, value, _ := strings.Cut(pair, "=")
		if n, err := url.QueryUnescape(name); err != nil || n != "_key" {
			continue
		}
		if v, err := url.QueryUnescape(value); err == nil {
			return v
		}
	}
	return ""
}

const keyHeader = "Idempotency-Key"

// describe fills in what an entry tells of its request.
func (e *Entry) describe(method, path, query string, h http.Header) {
	e.Method, e.Path, e.Query = method, path, query
	e.Key = strings.Join(h.Values(keyHeader), ", ")
}
