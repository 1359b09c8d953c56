package onceward_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// Where one guard stands before several hosts, a key names a request to one of
// them. With every way of comparing bodies.
func TestAHostCountsWhereItIsAskedFor(t *testing.T) {
	host := func(r *http.Request) string { return r.Host }
	own := func(r *http.Request) ([]byte, error) { return io.ReadAll(r.Body) }
	for _, cfg := range []onceward.Config{
		{Host: host}, {Host: host, CanonicalJSON: true}, {Host: host, Fingerprint: own},
	} {
		store := memstore.New(memstore.Config{})
		r := newRig(t, store, cfg, created)
		to := func(host string) *http.Request {
			req := request("k", `{"a":1}`)
			req.Host = host
			req.Header.Set("Content-Type", "application/json")
			return req
		}
		want(t, r.do(to("a.test")), 201, "executed")
		want(t, r.do(to("a.test")), 201, "replayed")
		want(t, r.do(to("b.test")), 422, "key-reused")
		r.wantRuns(1)
		// A guard to which hosts do not count, as before a rolling deploy, cannot tell:
		// it neither runs nor calls it another request.
		cfg.Host = nil
		before := newRig(t, store, cfg, created)
		want(t, before.do(to("a.test")), 503, "unavailable")
		before.wantRuns(0)
	}
	// By default hosts do not count.
	r := newRig(t, nil, onceward.Config{}, created)
	for _, c := range []struct{ host, outcome string }{{"a.test", "executed"}, {"b.test", "replayed"}} {
		req := request("k", "x")
		req.Host = c.host
		want(t, r.do(req), 201, c.outcome)
	}
}

// late is a body whose connection runs into its deadline.
type late struct{ io.Reader }

func (l late) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if err == io.EOF {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// A body that was given up waiting for is no body that the client cut short: 408, which
// says that the same request may come again.
func TestABodyThatDidNotComeInTimeIs408(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, created)
	for _, size := range []int64{-1, 100, 1 << 20} {
		req := request("k", "")
		req.Body, req.ContentLength = io.NopCloser(late{strings.NewReader("half")}), size
		want(t, r.do(req), http.StatusRequestTimeout, "")
	}
	r.wantRuns(0)
	want(t, r.post("k", "half"), 201, "executed")
}
