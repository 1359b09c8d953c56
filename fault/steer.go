package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// controlPath is where the proxy answers for itself. Nothing below it reaches
// the upstream, and no fault touches it.
const controlPath = "/.fault"

func isControl(path string) bool {
	return path == controlPath || strings.HasPrefix(path, controlPath+"/")
}

// maxChange bounds the body of a change.
const maxChange = 1 << 20

// steer serves one request to the control API.
func (c *client) steer(r *request) ending {
	body, err := r.readBody(c.br, maxChange)
	if err != nil {
		if status := refusal(err); status != 0 {
			c.writeRefusal(status, err)
		}
		return closeIt
	}
	status, h, out := c.control(r, body)
	keep := persists(r.header, r.minor)
	if !keep {
		h.Set("Connection", "close")
	} else if r.minor == 0 {
		h.Set("Connection", "keep-alive")
	}
	h.Set("Cache-Control", "no-store")
	if c.write(message(status, h, out, r.method == http.MethodHead)) != nil || !keep {
		return closeIt
	}
	return keepOpen
}

// control decides what the control API answers.
func (c *client) control(r *request, body []byte) (status int, h http.Header, out string) {
	h = http.Header{}
	reply := func(status int, v any) (int, http.Header, string) {
		// Nothing here can fail to encode.
		b, _ := json.Marshal(v)
		h.Set("Content-Type", "application/json")
		return status, h, string(b) + "\n"
	}
	fail := func(status int, format string, args ...any) (int, http.Header, string) {
		return reply(status, map[string]string{"error": fmt.Sprintf(format, args...)})
	}
	method := r.method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	// The log holds keys, and a change changes what a tester sees: no page of
	// another site may reach either through a browser on this machine.
	if r.header.Get("Sec-Fetch-Site") == "cross-site" {
		return fail(http.StatusForbidden, "the control API answers pages of its own origin and programs, not pages of other sites")
	}
	switch strings.TrimSuffix(r.path, "/") {
	case controlPath:
		switch method {
		case http.MethodGet:
			return reply(http.StatusOK, c.p.State())
		case http.MethodPut, http.MethodPost:
			ch, err := readChange(body)
			if err == nil {
				err = c.p.set(ch, c.conn)
			}
			if err != nil {
				return fail(http.StatusBadRequest, "%v", err)
			}
			return reply(http.StatusOK, c.p.State())
		}
		h.Set("Allow", "GET, HEAD, POST, PUT")
	case controlPath + "/log":
		switch method {
		case http.MethodGet:
			after, err := afterParam(r.query)
			if err != nil {
				return fail(http.StatusBadRequest, "%v", err)
			}
			return reply(http.StatusOK, c.p.LogAfter(after))
		case http.MethodDelete:
			c.p.ClearLog()
			return http.StatusNoContent, h, ""
		}
		h.Set("Allow", "DELETE, GET, HEAD")
	default:
		return fail(http.StatusNotFound, "there is %s (GET the state, PUT or POST a change) and %s/log (GET, DELETE)", controlPath, controlPath)
	}
	return fail(http.StatusMethodNotAllowed, "%s is not for %s; allowed: %s", r.path, r.method, h.Get("Allow"))
}

func afterParam(query string) (uint64, error) {
	q, err := url.ParseQuery(query)
	if err != nil || len(q) == 0 {
		return 0, err
	}
	n, err := strconv.ParseUint(q.Get("after"), 10, 64)
	if err != nil || len(q) > 1 {
		return 0, fmt.Errorf("the log takes one parameter, after=N, the number of an entry; not %q", query)
	}
	return n, nil
}

const changeHint = `send JSON with one or more of plan, mode, seed, script, cut; for example {"mode":"offline"} or {"plan":"POST /tasks* -> 502=0.1,slow=2s","seed":42}`

// readChange reads a change and refuses what it does not know, so that a
// misspelt field is no silent nothing.
func readChange(body []byte) (Change, error) {
	var ch Change
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&ch); err != nil {
		return ch, fmt.Errorf("%w: %s", err, changeHint)
	}
	if _, err := dec.Token(); err != io.EOF {
		return ch, errors.New("more than one JSON value: " + changeHint)
	}
	if ch == (Change{}) {
		return ch, errors.New("nothing to change: " + changeHint)
	}
	return ch, nil
}
