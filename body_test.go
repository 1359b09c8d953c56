package onceward_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// echo answers with the number of bytes that reached the handler.
func echo(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%d %d %v", n, r.ContentLength, err)
}

func TestTheWholeBodyIsInTheFingerprintAlsoWhenItIsOnDisk(t *testing.T) { // B063, B064, R6
	dir := t.TempDir()
	r := newRig(t, nil, onceward.Config{MaxMemory: 1 << 10, SpoolDir: dir}, echo)
	a := strings.Repeat("a", 1<<20) + "1"
	b := strings.Repeat("a", 1<<20) + "2"
	w := r.post("k", a)
	want(t, w, 200, "executed")
	if got, want := w.Body.String(), fmt.Sprintf("%d %d <nil>", len(a), len(a)); got != want {
		t.Errorf("the handler saw %q, want %q", got, want)
	}
	want(t, r.post("k", b), 422, "key-reused")
	want(t, r.post("k", a), 200, "replayed")
	chunked := request("k", a)
	chunked.ContentLength = -1
	want(t, r.do(chunked), 200, "replayed") // the transfer's form is no part of it
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files were left in the spool", len(left))
	}
}

func TestABodyOverTheLimitIs413AndTakesNoKey(t *testing.T) { // B063
	r := newRig(t, nil, onceward.Config{MaxRequest: 10}, echo)
	want(t, r.post("k", "12345678901"), 413, "too-large")
	chunked := request("k", "12345678901")
	chunked.ContentLength = -1
	want(t, r.do(chunked), 413, "too-large")
	want(t, r.post("k", "1234567890"), 200, "executed")
	limited := request("k2", "123456")
	limited.Body = http.MaxBytesReader(nil, limited.Body, 3)
	want(t, r.do(limited), 413, "too-large")
	r.wantRuns(1)
}

func TestAFullSpoolIs503(t *testing.T) {
	r := newRig(t, nil, onceward.Config{MaxMemory: 1, MaxSpool: 5}, echo)
	chunked := request("k", "1234567890")
	chunked.ContentLength = -1
	want(t, r.do(chunked), 503, "unavailable")
	want(t, r.post("k", "12345"), 200, "executed") // the room was given back
}

func TestATruncatedBodyNeverTakesAKey(t *testing.T) { // B136
	r := newRig(t, nil, onceward.Config{}, echo)
	for _, known := range []bool{true, false} {
		req := request("k", "")
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		req.ContentLength = -1
		if known {
			req.ContentLength = 8
		}
		want(t, r.do(req), 400, "")
	}
	r.wantRuns(0)
	want(t, r.post("k", "halfhalf"), 200, "executed")
}

func form(key string) *http.Request {
	return request("", "text=%D0%B0&_key="+key+"&x=1", "Content-Type", "application/x-www-form-urlencoded")
}

func TestAFormFieldNamesAPlainForm(t *testing.T) { // B013, B124
	var seen []string
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
		_ = req.ParseForm()
		seen = append(seen, req.PostForm.Get("text")+req.PostForm.Get("_key"))
	})
	want(t, r.do(form("k1")), 200, "executed")
	want(t, r.do(form("k1")), 200, "replayed")
	if len(seen) != 1 || seen[0] != "аk1" {
		t.Errorf("the handler saw %q", seen)
	}
	both := form("k1")
	both.Header.Set("Idempotency-Key", `"k1"`)
	want(t, r.do(both), 200, "replayed") // header and field are one key with one fingerprint
	both = form("k1")
	both.Header.Set("Idempotency-Key", "k2")
	want(t, r.do(both), 400, "key-invalid")
	want(t, r.do(form("")), 400, "key-invalid")
	want(t, r.do(form("k1&_key=k2")), 400, "key-invalid")
	want(t, r.do(form("%zz")), 400, "key-invalid")
	off := newRig(t, nil, onceward.Config{FormField: "-"}, echo)
	want(t, off.do(form("k1")), 200, "")
}

func multipartForm(t *testing.T, boundary, key, file string) *http.Request {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	if key != "" {
		_ = w.WriteField("_key", key)
	}
	_ = w.WriteField("item", "book")
	h := textproto.MIMEHeader{}
	h.Set("Content-Disposition", `form-data; name="photo"; filename="доска.jpg"`)
	h.Set("Content-Type", "image/jpeg")
	part, _ := w.CreatePart(h)
	_, _ = io.WriteString(part, file)
	_ = w.Close()
	req := request("", b.String())
	req.Header.Set("Content-Type", w.FormDataContentType())
	return req
}

func TestAMultipartFormIsTheSameRequestUnderAnotherBoundary(t *testing.T) { // B061, B065
	files := 0
	r := newRig(t, nil, onceward.Config{MaxMemory: 64}, func(w http.ResponseWriter, req *http.Request) {
		if err := req.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if req.MultipartForm.File["photo"] != nil {
			files++
		}
	})
	want(t, r.do(multipartForm(t, "aaaa", "k", "bytes")), 200, "executed")
	want(t, r.do(multipartForm(t, "bbbb", "k", "bytes")), 200, "replayed")
	want(t, r.do(multipartForm(t, "aaaa", "k", "other")), 422, "key-reused")
	want(t, r.do(multipartForm(t, "aaaa", "", "bytes")), 200, "") // no name: it passes
	byHeader := multipartForm(t, "cccc", "k", "bytes")
	byHeader.Header.Set("Idempotency-Key", "k")
	want(t, r.do(byHeader), 200, "replayed")
	if files != 2 {
		t.Errorf("the handler saw the file %d times, want 2", files)
	}
	broken := request("k9", "this is no multipart", "Content-Type", "multipart/form-data; boundary=x")
	plain := newRig(t, nil, onceward.Config{}, echo)
	want(t, plain.do(broken), 200, "executed")
}

func TestAFormWithoutAKeyReachesItsHandlerWhole(t *testing.T) {
	r := newRig(t, nil, onceward.Config{MaxRequest: 8, MaxMemory: 4}, func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%s %v", b, err)
	})
	for _, chunked := range []bool{false, true} {
		req := request("", "a=0123456789", "Content-Type", "application/x-www-form-urlencoded")
		if chunked {
			req.ContentLength = -1
		}
		if w := r.do(req); w.Body.String() != "a=0123456789 <nil>" {
			t.Errorf("chunked %v: %q", chunked, w.Body)
		}
	}
	req := request("", "", "Content-Type", "application/x-www-form-urlencoded")
	req.Body = io.NopCloser(io.MultiReader(strings.NewReader("a=1"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if w := r.do(req); w.Body.String() != "a=1 unexpected EOF" {
		t.Errorf("a cut form: %q", w.Body)
	}
}

// A form that is too large and has a name is refused as one with a header is, and never
// runs unguarded: a browser always says the length, so that nothing of it need be read.
func TestAFormThatIsTooLargeAndHasAKeyIsRefused(t *testing.T) {
	r := newRig(t, nil, onceward.Config{MaxRequest: 16, MaxMemory: 4}, echo)
	for _, length := range []int64{0, -1} {
		for _, body := range []string{"_key=k&text=0123456789", "a=1&_%6bey=k&text=0123456789"} {
			req := request("", body, "Content-Type", "application/x-www-form-urlencoded")
			if length < 0 {
				req.ContentLength = length
			}
			want(t, r.do(req), 413, "too-large")
		}
	}
	r.wantRuns(0)
}

func TestKeyFromReadsAKeyOutOfTheBody(t *testing.T) { // S75
	cfg := onceward.Config{KeyFrom: func(r *http.Request) (string, error) {
		b, _ := io.ReadAll(r.Body)
		_, rest, ok := strings.Cut(string(b), `"request_id":"`)
		if !ok {
			return "", nil
		}
		id, _, ok := strings.Cut(rest, `"`)
		if !ok {
			return "", errors.New("request_id is not a string")
		}
		return id, nil
	}}
	r := newRig(t, nil, cfg, created)
	want(t, r.post("", `{"request_id":"r1"}`), 201, "executed")
	w := r.post("", `{"request_id":"r1"}`)
	want(t, w, 201, "replayed")
	if w.Body.String() != `made {"request_id":"r1"}` {
		t.Errorf("the handler saw %q", w.Body)
	}
	want(t, r.post("", `{"request_id":"r1`), 400, "key-invalid")
	if w := r.post("", `{}`); w.Body.String() != "made {}" {
		t.Errorf("without a key: %q", w.Body)
	}
}

func TestTwoHeaderLinesAreRefused(t *testing.T) { // B068
	r := newRig(t, nil, onceward.Config{}, echo)
	req := request("k1", "")
	req.Header.Add("Idempotency-Key", "k1")
	want(t, r.do(req), 400, "key-invalid")
	r.wantRuns(0)
}

func TestARefusalNeverEchoesWhatTheClientSent(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, echo)
	w := r.post("<script>,", "")
	want(t, w, 400, "key-invalid")
	if strings.Contains(w.Body.String(), "script") {
		t.Error(w.Body)
	}
	for accept, wantType := range map[string]string{"": "application/problem+json", "text/html,*/*": "text/html; charset=utf-8"} {
		w := r.post(",", "", "Accept", accept)
		if got := w.Header().Get("Content-Type"); got != wantType {
			t.Errorf("Accept %q got %q", accept, got)
		}
	}
	fragment := r.post(",", "", "HX-Request", "true")
	if !strings.HasPrefix(fragment.Body.String(), "<p role=\"alert\"") {
		t.Errorf("htmx got %q", fragment.Body)
	}
	own := newRig(t, nil, onceward.Config{Error: func(w http.ResponseWriter, r *http.Request, p onceward.Problem) {
		w.WriteHeader(p.Status)
		_, _ = io.WriteString(w, "own "+p.Type)
	}}, echo)
	if w := own.post(",", ""); w.Body.String() != "own urn:onceward:problem:key-invalid" {
		t.Errorf("Config.Error: %q", w.Body)
	}
}

func FuzzAnyBodyUnderOneKeyIsTheSameRequestOnlyIfItIsTheSame(f *testing.F) {
	f.Add("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"_key\"\r\n\r\nk\r\n--x--\r\n", "")
	f.Add("application/x-www-form-urlencoded", "_key=k&a=b", "_key=k&a=c")
	f.Add("application/json", "{}", "{ }")
	f.Fuzz(func(t *testing.T, contentType, a, b string) {
		guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{SweepEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		h := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
		post := func(body string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request("k", body, "Content-Type", contentType))
			return w
		}
		first := post(a)
		if first.Code == 400 {
			return // the field differs from the header
		}
		if first.Code != 200 || first.Body.String() != a {
			t.Fatalf("first: %d %q, sent %q", first.Code, first.Body, a)
		}
		if again := post(a); again.Code != 200 || again.Body.String() != a {
			t.Fatalf("repeat: %d %q", again.Code, again.Body)
		}
		if a != b && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), "multipart/") {
			if other := post(b); other.Code != 422 && other.Code != 400 {
				t.Fatalf("another body: %d", other.Code)
			}
		}
	})
}

func TestATruncatedFormTakesNoKeyFromElsewhereEither(t *testing.T) { // B136
	cfg := onceward.Config{KeyFrom: func(r *http.Request) (string, error) {
		return r.Header.Get("X-Request-Name"), nil
	}}
	for _, kind := range []string{"application/x-www-form-urlencoded", "multipart/form-data; boundary=b"} {
		r := newRig(t, nil, cfg, echo)
		req := request("", "", "Content-Type", kind, "X-Request-Name", "k")
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("text=half"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		req.ContentLength = -1
		want(t, r.do(req), 400, "")
		r.wantRuns(0)
	}
	// Nor does one that is over the limit, cut where the limit is: it has no name,
	// and its handler gets every byte once.
	cfg.MaxRequest = 10
	r := newRig(t, nil, cfg, echo)
	req := request("", "text=1234567890", "Content-Type", "application/x-www-form-urlencoded", "X-Request-Name", "k")
	req.ContentLength = -1
	if w := r.do(req); w.Header().Get("Idempotency-Status") != "" || w.Body.String() != "15 -1 <nil>" {
		t.Errorf("got %v %q", w.Header(), w.Body)
	}
}

func TestADiskThatCannotSpoolIs503AndNotTheClientsFault(t *testing.T) {
	r := newRig(t, nil, onceward.Config{MaxMemory: 1, SpoolDir: filepath.Join(t.TempDir(), "gone")}, echo)
	chunked := request("k", "1234567890")
	chunked.ContentLength = -1
	want(t, r.do(chunked), 503, "unavailable") // a 400 would tell an outbox to give the change up
	want(t, r.post("k", "1234567890"), 503, "unavailable")
	named := request("", "_key=k&text=1234567890", "Content-Type", "application/x-www-form-urlencoded")
	want(t, r.do(named), 503, "unavailable")
	r.wantRuns(0)
}

func TestAFormOnDiskIsSearchedForItsKeyWithoutTakingItIntoMemory(t *testing.T) {
	r := newRig(t, nil, onceward.Config{MaxMemory: 1 << 10}, echo)
	big := "text=" + strings.Repeat("a", 8<<20) + "&_%6bey=other"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	want(t, r.post("k", big, "Content-Type", "application/x-www-form-urlencoded"), 400, "key-invalid")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("a form of 8 MiB, of which 1 KiB may be in memory, took %d bytes", took)
	}
	same := "text=" + strings.Repeat("a", 1<<20) + "&_key=k"
	want(t, r.post("k", same, "Content-Type", "application/x-www-form-urlencoded"), 200, "executed")
}

func TestAPromisedLengthTakesNoMemoryBeforeTheBytesCome(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, echo)
	send := func() {
		req := request("k", "")
		req.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
		req.ContentLength = 1 << 20
		want(t, r.do(req), 400, "")
	}
	send()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 16 {
		send()
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / 16; took > 256<<10 {
		t.Errorf("a request that promised 1 MiB and sent nothing took %d bytes", took)
	}
}
