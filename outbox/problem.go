package outbox

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// writeProblem answers with an RFC 9457 problem. Nobody sees it: the outbox
// reads the Outbox-Status, and tells the person in words of its own.
func writeProblem(w http.ResponseWriter, status int, kind, detail string) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{kind, http.StatusText(status), status, detail})
	if err != nil {
		panic(err) // strings and a number
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// htmxLocation reads an HX-Location, which is a path or a JSON object with one.
func htmxLocation(value string) string {
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return value
	}
	var v struct {
		Path string `json:"path"`
	}
	if json.Unmarshal([]byte(value), &v) != nil {
		return ""
	}
	return v.Path
}
