package orders_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Cases B041–B059: what is stored and replayed.

func TestB041TheReplayHasTheFirstAnswersStatus(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		effects := 0
		for _, status := range []int{200, 201, 202, 204, 303, 404, 406, 409, 410, 422} {
			r := request{key: fmt.Sprint("key-", status), chaos: fmt.Sprintf("after=1&status=%d", status)}
			first := s.send(r).want(t, status, "executed")
			s.send(r).wantReplayOf(t, first)
			s.send(r).wantReplayOf(t, first)
			if status < 400 || !s.b.atomic { // a refusal undoes its work
				effects++
			}
			s.wantEffects(effects)
		}
	})
}

// Also R10 and requirement 27: what speaks of the moment is not kept.
func TestB043WhatSpeaksOfTheMomentIsNotKept(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		for i, status := range []int{500, 502, 503, 504, 401, 403, 407, 408, 421, 423, 425, 429, 307, 308} {
			key := fmt.Sprint("key-", status)
			for range 2 {
				s.send(request{key: key, chaos: fmt.Sprint("status=", status)}).want(t, status, "released")
			}
			s.wantEffects(i)
			s.send(request{key: key}).want(t, http.StatusCreated, "executed")
			s.send(request{key: key}).want(t, http.StatusCreated, "replayed")
			s.wantEffects(i + 1)
		}
	})
}

// A 400 is a final answer and is kept, by default; what never happens is that a
// corrected request gets it.
func TestB044ACorrectedRequestNeverGetsTheStaleRefusal(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		wrong, right := `{"item":"tea","qty":0}`, `{"item":"tea","qty":1}`
		first := s.send(request{key: "k", body: wrong}).want(t, http.StatusBadRequest, "executed")
		s.send(request{key: "k", body: wrong}).wantReplayOf(t, first)
		s.send(request{key: "k", body: right}).want(t, http.StatusUnprocessableEntity, "key-reused")
		s.wantEffects(0)
		s.send(request{key: "k2", body: right}).want(t, http.StatusCreated, "executed")
		s.wantEffects(1)
	})
}

// Also R9: bytes, not text.
func TestB046EveryKindOfBodyIsReplayedByteForByte(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	bodies := []string{`{"a":1}`, `[1,2]`, `"text"`, `17`, `null`, ``, " \n", string(every), "Купить тетрадь"}
	onServer(t, func(t *testing.T, s *server) {
		for i, body := range bodies {
			r := request{key: fmt.Sprint("key-", i), chaos: chaosOf("body", base64.StdEncoding.EncodeToString([]byte(body)))}
			first := s.send(r).want(t, http.StatusCreated, "executed")
			if first.body != body {
				t.Errorf("the first answer is %q, the handler wrote %q", first.body, body)
			}
			s.send(r).wantReplayOf(t, first)
		}
		s.wantEffects(len(bodies))
	})
}

// Also R8: past 64 KiB nothing changes.
func TestB047AnAnswerInSeveralWritesIsReplayedWhole(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		for i, size := range []int{3, 100_000, 1 << 20} {
			r := request{key: fmt.Sprint("key-", i), chaos: fmt.Sprint("bytes=", size)}
			first := s.send(r).want(t, http.StatusCreated, "executed")
			if len(first.body) < size {
				t.Fatalf("the answer has %d bytes, %d were asked for", len(first.body), size)
			}
			s.send(r).wantReplayOf(t, first)
		}
		s.wantEffects(3)
	})
}

// A flushed answer has gone before it could be kept, so its record has no body;
// one too large is the same. Also R8: the empty body of the replay does not wipe
// the element that asked. In a transaction nothing is flushed, so what is small is
// kept whole.
func TestB047AStreamedAnswerIsCompletedWithoutItsBody(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		for i, chaos := range []string{"flush=1&bytes=900", "bytes=1048577", "flush=1&bytes=2000000"} {
			header := chaosOf("header", `ETag: "v1"`, "header", "X-Of-The-App: kept", "header", "Accept-Ranges: bytes")
			r := request{key: fmt.Sprint("key-", i), chaos: chaos + "&" + header}
			first := s.send(r).want(t, http.StatusCreated, "executed")
			if len(first.body) < 900 || first.header.Get("Etag") != `"v1"` {
				t.Errorf("the first answer is not whole: %v %v", first, first.header)
			}
			s.wantEffects(i + 1)
			if s.b.atomic && len(first.body) < 1<<20 {
				s.send(r).wantReplayOf(t, first)
				continue
			}
			again := s.send(r).want(t, http.StatusCreated, "replayed")
			if got := again.header.Get("Idempotency-Status"); !strings.HasPrefix(got, "replayed;body=omitted") {
				t.Errorf("Idempotency-Status: %s", got)
			}
			if again.body != "" || again.header.Get("HX-Reswap") != "none" {
				t.Errorf("the replay has the body %.50q and HX-Reswap: %q", again.body, again.header.Get("HX-Reswap"))
			}
			for _, name := range []string{"Etag", "Content-Encoding", "Accept-Ranges"} {
				if v := again.header.Get(name); v != "" {
					t.Errorf("the replay without its body has %s: %s", name, v)
				}
			}
			if again.header.Get("X-Of-The-App") != "kept" || again.header.Get("Location") != first.header.Get("Location") {
				t.Errorf("the replay lost headers: %v", again.header)
			}
			s.wantEffects(i + 1)
		}
	})
}

// Also R7 and W30: a 303 without its target, a toast that is gone.
func TestB049TheReplayHasTheHandlersHeaders(t *testing.T) {
	lines := []string{
		`ETag: "v1"`, "Link: </orders>; rel=collection", "Content-Language: ru", "Content-Disposition: inline",
		`HX-Trigger: {"saved":{}}`, "HX-Redirect: /orders", "Cache-Control: no-store", "Vary: Accept",
	}
	onServer(t, func(t *testing.T, s *server) {
		var pairs []string
		for _, line := range lines {
			pairs = append(pairs, "header", line)
		}
		r := request{key: "k", chaos: chaosOf(pairs...)}
		first := s.send(r).want(t, http.StatusCreated, "executed")
		again := s.send(r).wantReplayOf(t, first)
		for _, name := range []string{"Location", "Etag", "Content-Type", "Link", "Content-Language", "Hx-Trigger", "Hx-Redirect"} {
			if again.header.Get(name) == "" {
				t.Errorf("the replay has no %s", name)
			}
		}
		if got := again.header.Get("Location"); got != "/orders/"+again.order(t).ID {
			t.Errorf("Location: %s", got)
		}
	})
}

func TestB050TheReplayHasNothingOfTheFirstCallersSession(t *testing.T) {
	lines := []string{
		"Set-Cookie: theme=dark", `WWW-Authenticate: Bearer realm="x"`, "X-Request-Id: 1", "Request-Id: 2",
		"X-RateLimit-Remaining: 7", "RateLimit: 7", "RateLimit-Policy: 10", "Traceparent: 00-a-b-01",
		"Server-Timing: db;dur=5", "Date: Thu, 01 Jan 1970 00:00:00 GMT", "Age: 5", "X-Of-The-App: kept",
	}
	onServer(t, func(t *testing.T, s *server) {
		pairs := []string{"cookie", "1"}
		for _, line := range lines {
			pairs = append(pairs, "header", line)
		}
		r := request{key: "k", user: "anna", chaos: chaosOf(pairs...)}
		first := s.send(r).want(t, http.StatusCreated, "executed")
		if n := len(first.header["Set-Cookie"]); n != 2 {
			t.Errorf("the first answer has %d of its 2 cookies", n) // R7: it is never altered
		}
		r.header = http.Header{"Cookie": {"session=another"}}
		again := s.send(r).want(t, http.StatusCreated, "replayed")
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			if name == "X-Of-The-App" || name == "Date" {
				continue
			}
			if got := first.header.Values(name); !slices.Contains(got, value) {
				t.Errorf("the first answer lost %s: %q", name, got)
			}
			if got := again.header.Values(name); len(got) != 0 {
				t.Errorf("the replay has %s: %q", name, got)
			}
		}
		if again.header.Get("X-Of-The-App") != "kept" || strings.Contains(again.header.Get("Date"), "1970") {
			t.Errorf("the replay's headers: %v", again.header)
		}
		s.wantEffects(1)
	}, "-user-header", "X-User")
}

func TestB052HeaderLinesAreReplayedByteForByte(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		r := request{key: "k", chaos: chaosOf(
			"header", `Content-Disposition: attachment; filename="a, b; c.txt"; filename*=UTF-8''%d0%b0`,
			"header", "X-List: a, b", "header", "X-List: c,d", "header", "X-List: a, b",
			"header", `X-Quoted: "one, \"two\""`,
			"header", "X-Utf8: тетрадь", "header", "X-Latin: caf\xe9",
			"header", "Link: </a>; rel=next, </b>; rel=prev", "header", "Link: </c>; rel=up",
		)}
		first := s.send(r).want(t, http.StatusCreated, "executed")
		if got, want := first.header["X-List"], []string{"a, b", "c,d", "a, b"}; !slices.Equal(got, want) {
			t.Errorf("the first answer's X-List is %q, want %q", got, want)
		}
		if got := first.header.Get("X-Latin"); got != "caf\xe9" {
			t.Errorf("the first answer's X-Latin is %q", got)
		}
		s.send(r).wantReplayOf(t, first)
	})
}

// Also requirement 61's other side: without a name a repeat is a new request.
func TestB053WithoutAKeyNothingIsShared(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		a := s.send(request{body: `{"item":"tea","qty":1}`}).want(t, http.StatusCreated, "")
		b := s.send(request{body: `{"item":"jam","qty":2}`}).want(t, http.StatusCreated, "")
		if a.order(t).Item != "tea" || b.order(t).Item != "jam" {
			t.Errorf("answered %v and %v", a, b)
		}
		s.wantEffects(2)
		for _, blank := range []string{"", " ", `""`, `" "`} {
			a := s.send(request{header: http.Header{"Idempotency-Key": {blank}}})
			a.want(t, http.StatusBadRequest, "key-invalid").wantProblem(t, "key-invalid")
		}
		s.wantEffects(2)
	})
}

// Also R6.
func TestB055ATamperedRetryGetsNoAnswerOfTheFirst(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		a := request{key: "k", body: `{"item":"tea","qty":1}`}
		b := request{key: "k", body: `{"item":"tea","qty":9}`}
		first := s.send(a).want(t, http.StatusCreated, "executed")
		refused := s.send(b).want(t, http.StatusUnprocessableEntity, "key-reused")
		refused.wantProblem(t, "key-reused")
		if strings.Contains(refused.body, "tea") {
			t.Errorf("the refusal echoes the payload: %s", refused.body)
		}
		s.send(a).wantReplayOf(t, first)
		s.wantEffects(1)
	})
}

func TestB055AMismatchIsToldEvenWhileTheFirstRuns(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "k", chaos: "sleep_ms=2500"})
		s.waitRunning(1)
		other := request{key: "k", body: `{"item":"jam","qty":1}`}
		if s.b.atomic && !s.b.serial {
			// What it is compared with is not there before the commit.
			s.send(other).wantBusy(t)
		}
		other.prefer = "wait=10"
		s.send(other).want(t, http.StatusUnprocessableEntity, "key-reused")
		(<-first).want(t, http.StatusCreated, "executed")
		s.wantEffects(1)
	})
}

// Also R4: the record that a waiter waits for vanishes, and the waiter claims.
func TestB056AKeyReleasedInMidWaitIsClaimedAgain(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "k", chaos: "sleep_ms=2000&status=500"})
		s.waitRunning(1)
		answers := parallel(s.times(5, request{key: "k", prefer: "wait=10"})...)
		(<-first).want(t, http.StatusInternalServerError, "released")
		if n := count(answers); n["executed"] != 1 || n["replayed"] != 4 {
			t.Errorf("outcomes: %v, want 1 executed and 4 replayed", n)
		}
		s.wantEffects(1)
	})
}

func TestB058OnlyAReplaySaysThatItIsOne(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		if _, ok := first.header["Idempotency-Replayed"]; ok {
			t.Errorf("the first answer has Idempotency-Replayed")
		}
		if got := first.header.Get("Idempotency-Status"); got != `executed;key="k"` {
			t.Errorf("Idempotency-Status: %s", got)
		}
		again := s.send(request{key: "k"})
		if got := again.header["Idempotency-Replayed"]; !slices.Equal(got, []string{"1"}) {
			t.Errorf("Idempotency-Replayed: %q", got)
		}
		if got := again.header.Get("Idempotency-Status"); got != `replayed;key="k"` {
			t.Errorf("Idempotency-Status: %s", got)
		}
		extra := slices.DeleteFunc(slices.Collect(maps.Keys(again.header)), func(name string) bool {
			_, ok := first.header[name]
			return ok || name == "Idempotency-Replayed"
		})
		if len(extra) > 0 {
			t.Errorf("the replay has more headers: %v", extra)
		}
	})
}

// Also B111: what is large goes through and is not kept.
func TestB059AHugeAnswerCostsNoMemory(t *testing.T) {
	for name, how := range map[string]string{"whole": "", "streamed": "&flush=1"} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				size := s.b.sample(200_000_000, 60_000_000)
				s.send(request{key: "warm"}).want(t, http.StatusCreated, "executed")
				before := s.peakMemory()
				req, err := http.NewRequest(http.MethodPost, s.url+"/create-order", strings.NewReader(oneTea))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Idempotency-Key", "k")
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Chaos", fmt.Sprint("bytes=", size, how))
				resp, err := fresh.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err != nil || n != int64(size) {
					t.Fatalf("the client got %d bytes of %d: %v", n, size, err)
				}
				if grown := s.peakMemory() - before; grown > 25_000_000 { // of which most is the race detector's
					t.Errorf("the process grew by %d bytes for an answer of %d", grown, size)
				}
				again := s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
				if got := again.header.Get("Idempotency-Status"); !strings.HasPrefix(got, "replayed;body=omitted") {
					t.Errorf("Idempotency-Status: %s", got)
				}
				s.wantEffects(2)
			})
		})
	}
}

// peakMemory is the most that the process has held, in bytes; where the system
// has no /proc, what it holds now.
func (s *server) peakMemory() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if errors.Is(err, fs.ErrNotExist) {
		v, err := s.vitals()
		if err != nil {
			s.t.Fatal(err)
		}
		return v.Heap
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			if err != nil {
				s.t.Fatal(err)
			}
			return kb << 10
		}
	}
	s.t.Fatal("/proc tells no VmHWM")
	return 0
}
