package storetest

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward"
)

// replay stores resp under a key and returns what a second claim gets.
func (e *env) replay(key string, resp *onceward.Response) *onceward.Response {
	e.Helper()
	c := claimOf(token(1))
	c.Key = onceward.NewKey("user-1", key)
	e.mustClaim(c, "the first claim")
	e.mustComplete(c, resp)
	c.Token = token(2)
	rec := e.mustReport(c, "the second claim")
	if rec.Response == nil {
		e.Fatalf("the record is %v and has no Response", rec.State)
	}
	return rec.Response
}

var answerCases = []Case{
	{
		Name:    "StatusIsKept",
		Explain: "a refusal that is replayed as 200 tells the person that it worked (B041)",
		run: func(e *env) {
			for _, status := range []int{201, 202, 204, 303, 404, 406, 409, 422} {
				resp := answer("")
				resp.Status = status
				if got := e.replay(strconv.Itoa(status), resp); got.Status != status {
					e.Errorf("status %d came back as %d", status, got.Status)
				}
			}
		},
	},
	{
		Name:    "BodyBytesAreKept",
		Explain: "a body is bytes: images and archives come back as they were, and so does text in any encoding (B046)",
		run: func(e *env) {
			binary := make([]byte, 0, 1024)
			for i := range 1024 {
				binary = append(binary, byte(i^i>>3))
			}
			for name, body := range map[string][]byte{
				"binary": binary, "json": []byte("{\"a\":[1,2.50,null]}\n"), "null": []byte("null"),
				"zero bytes": {0, 0, 0}, "latin-1": {0xe9, 'a'}, "crlf": []byte("a\r\n\r\nb"),
			} {
				if got := e.replay(name, &onceward.Response{Status: 200, Body: body}); !bytes.Equal(got.Body, body) {
					e.Errorf("%s: %q came back as %q", name, body, got.Body)
				}
			}
		},
	},
	{
		Name:    "HeaderLinesAreKept",
		Explain: "lines that are joined, split or sorted change cookies, links and downloads (B052)",
		run: func(e *env) {
			header := http.Header{
				"Link":                {`</b>; rel="next", </c>; rel="last"`, `</a>; rel="prev"`},
				"Content-Disposition": {`attachment; filename="a, b.txt"`},
				"X-Text":              {"z", "a", "a", ""},
				"X-Latin":             {"caf\xe9"},
				"x-lower":             {"name kept as it is"},
			}
			got := e.replay("headers", &onceward.Response{Status: 200, Header: header}).Header
			for name, values := range header {
				if !slices.Equal(got[name], values) {
					e.Errorf("%s: %q came back as %q", name, values, got[name])
				}
			}
			if len(got) != len(header) {
				e.Errorf("%d names came back, want %d: %q", len(got), len(header), got)
			}
		},
	},
	{
		Name:    "EmptyAnswerIsAnAnswer",
		Explain: "204 with nothing in it is a whole answer: lost, the work runs again (B046)",
		run: func(e *env) {
			if got := e.replay("empty", &onceward.Response{Status: 200}); len(got.Body) != 0 || got.BodyOmitted || len(got.Header) != 0 {
				e.Errorf("an empty answer came back with %d bytes, %d headers, BodyOmitted %v", len(got.Body), len(got.Header), got.BodyOmitted)
			}
		},
	},
	{
		Name:    "BodyOmittedIsKept",
		Explain: "a replay without its body has to say so, or it passes for an empty page",
		run: func(e *env) {
			resp := answer("")
			resp.BodyOmitted = true
			if got := e.replay("omitted", resp); !got.BodyOmitted {
				e.Errorf("BodyOmitted came back false")
			}
		},
	},
	{
		Name:    "LargeAnswerIsKeptWhole",
		Explain: "1 MiB is the guard's default limit: a store that cuts it replays half a page",
		run: func(e *env) {
			body := []byte(strings.Repeat("0123456789abcde\n", 1<<16))
			if got := e.replay("large", &onceward.Response{Status: 200, Body: body}); !bytes.Equal(got.Body, body) {
				e.Errorf("%d bytes came back as %d", len(body), len(got.Body))
			}
		},
	},
	{
		Name:    "CallersMemoryIsNotKept",
		Explain: "the guard uses its buffers again: an answer that shares them turns into the next request's",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			resp := &onceward.Response{Status: 200, Header: http.Header{"X-A": {"1", "2"}}, Body: []byte("first")}
			e.mustComplete(c, resp)
			copy(resp.Body, "WRONG")
			resp.Header["X-A"][0] = "WRONG"
			resp.Header["X-B"] = []string{"WRONG"}
			resp.Status = 500
			rec := e.mustReport(claimOf(token(2)), "the next claim")
			got := rec.Response
			if got == nil || got.Status != 200 || string(got.Body) != "first" ||
				!slices.Equal(got.Header["X-A"], []string{"1", "2"}) || got.Header["X-B"] != nil {
				e.Errorf("the stored answer changed with the caller's memory: %v", got)
			}
		},
	},
}
