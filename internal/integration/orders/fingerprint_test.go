package orders_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Cases B061–B068: the same request or another?

// upload is an order with a file, under a boundary of its own.
func upload(t *testing.T, key, boundary, filename string, file []byte, fields ...string) request {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	_ = w.WriteField("item", "photo")
	_ = w.WriteField("qty", "1")
	part, err := w.CreateFormFile("file", filename)
	if err == nil {
		_, err = part.Write(file)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return request{key: key, kind: w.FormDataContentType(), body: body.String()}
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestB061AMultipartFormIsTheSameUnderAnotherBoundary(t *testing.T) {
	small, large := []byte("\x00\xff\x80\xc8\n"), bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	onServer(t, func(t *testing.T, s *server) {
		for i, file := range [][]byte{small, large} {
			key := fmt.Sprint("key-", i)
			first := s.send(upload(t, key, "aaaa", "a.jpg", file)).want(t, http.StatusCreated, "executed")
			s.send(upload(t, key, "----WebKitFormBoundaryX7", "a.jpg", file)).wantReplayOf(t, first)
			if got := s.wantEffects(i + 1)[i].FileSHA256; got != hashOf(file) {
				t.Errorf("the handler got a file with the hash %s, want %s", got, hashOf(file))
			}
		}
	})
}

// The key in the first field, for a form without scripts.
func TestB061AnUploadMayBeNamedByItsFirstField(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		file := bytes.Repeat([]byte("x"), 3<<20)
		first := s.send(upload(t, "", "aaaa", "a.jpg", file, "_key", "k")).want(t, http.StatusCreated, "executed")
		s.send(upload(t, "", "bbbb", "a.jpg", file, "_key", "k")).wantReplayOf(t, first)
		s.send(upload(t, "k", "cccc", "a.jpg", file, "_key", "k")).wantReplayOf(t, first)
		s.send(upload(t, "other", "dddd", "a.jpg", file, "_key", "k")).want(t, http.StatusBadRequest, "key-invalid")
		s.wantEffects(1)
	})
}

func TestB062AnotherBodyIsRefusedWithAClearText(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.send(request{key: "k", body: `{"item":"tea","qty":1,"link":"https://x/?sig=1"}`}).want(t, http.StatusCreated, "executed")
		a := s.send(request{key: "k", body: `{"item":"tea","qty":1,"link":"https://x/?sig=2"}`})
		a.want(t, http.StatusUnprocessableEntity, "key-reused").wantProblem(t, "key-reused")
		if !strings.Contains(a.body, "different request") || !strings.Contains(a.body, "new key") {
			t.Errorf("the text does not say what is wrong and what to do: %s", a.body)
		}
		s.wantEffects(1)
	})
}

func TestB062AMemberThatIsNewAtEveryTryMayBeLeftOut(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		order := func(link, sent, qty string) request {
			return request{key: "k", body: `{"item":"tea","qty":` + qty + `,"link":"` + link + `","client":{"sent_at":` + sent + `}}`}
		}
		first := s.send(order("https://x/?sig=1", "1", "1")).want(t, http.StatusCreated, "executed")
		s.send(order("https://x/?sig=2", "2", "1")).wantReplayOf(t, first)
		s.send(order("https://x/?sig=1", "1", "2")).want(t, http.StatusUnprocessableEntity, "key-reused")
		s.wantEffects(1)
	}, "-volatile", "link,client.sent_at")
}

func TestB063ABodyWithoutALengthIsComparedWhole(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		chunked := func(body string) answer {
			t.Helper()
			// A reader that tells no length is sent in chunks.
			req, err := http.NewRequest(http.MethodPost, s.url+"/create-order", io.MultiReader(strings.NewReader(body)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "k")
			req.Header.Set("Content-Type", "application/json")
			resp, err := fresh.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return answer{resp.StatusCode, resp.Header, string(text)}
		}
		load := func(end string) string {
			return `{"item":"tea","qty":1,"note":"` + strings.Repeat("x", 2<<20) + end + `"}`
		}
		first := chunked(load("A")).want(t, http.StatusCreated, "executed")
		chunked(load("B")).want(t, http.StatusUnprocessableEntity, "key-reused")
		chunked(load("A")).wantReplayOf(t, first)
		// The same bytes with a length are the same request.
		s.send(request{key: "k", body: load("A")}).wantReplayOf(t, first)
		s.wantEffects(1)
	})
}

func TestB063ABodyOverTheLimitIsRefusedBeforeItsKeyIsTaken(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		huge := `{"item":"tea","qty":1,"note":"` + strings.Repeat("x", 33<<20) + `"}`
		a, err := s.try(request{key: "k", body: huge})
		// A server that refuses early may close before the client has sent all.
		if err == nil {
			a.want(t, http.StatusRequestEntityTooLarge, "too-large").wantProblem(t, "too-large")
		}
		s.wantEffects(0)
		s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		s.wantEffects(1)
	})
}

func TestB064BodiesThatDifferInTheirLastByteAreTwoRequests(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		size := s.b.sample(5<<20, 3<<19)
		video := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
		other := bytes.Clone(video)
		other[len(other)-1]++
		first := s.send(upload(t, "k", "aaaa", "a.mp4", video)).want(t, http.StatusCreated, "executed")
		s.send(upload(t, "k", "aaaa", "a.mp4", other)).want(t, http.StatusUnprocessableEntity, "key-reused")
		s.send(upload(t, "k", "bbbb", "a.mp4", video)).wantReplayOf(t, first)

		long := strings.Repeat("x", size)
		s.send(request{key: "json", body: `{"item":"tea","qty":1,"note":"` + long + `A"}`}).want(t, http.StatusCreated, "executed")
		s.send(request{key: "json", body: `{"item":"tea","qty":1,"note":"` + long + `B"}`}).want(t, http.StatusUnprocessableEntity, "key-reused")
		if got := s.wantEffects(2)[0].FileSHA256; got != hashOf(video) {
			t.Errorf("the shop has a file with the hash %s, want %s", got, hashOf(video))
		}
	})
}

func TestB065TheSameFileNameWithOtherBytesIsAnotherRequest(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.send(upload(t, "k", "aaaa", "report.pdf", []byte("old"))).want(t, http.StatusCreated, "executed")
		s.send(upload(t, "k", "aaaa", "report.pdf", []byte("new"))).want(t, http.StatusUnprocessableEntity, "key-reused")
		s.send(upload(t, "k", "aaaa", "other.pdf", []byte("old"))).want(t, http.StatusUnprocessableEntity, "key-reused")
		if got := s.wantEffects(1)[0].FileSHA256; got != hashOf([]byte("old")) {
			t.Errorf("the shop has a file with the hash %s", got)
		}
	})
}

// A request cut in its middle takes no key and has no effect: the whole one
// that follows under the same key is the first.
func TestHalfARequestTakesNoKey(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		for i, head := range []string{
			"Content-Length: 100\r\n\r\n" + oneTea,
			"Transfer-Encoding: chunked\r\n\r\n16\r\n" + oneTea + "\r\n",
		} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST /create-order HTTP/1.1\r\nHost: x\r\nIdempotency-Key: key-%d\r\nContent-Type: application/json\r\n%s", i, head)
			time.Sleep(100 * time.Millisecond)
			_ = conn.Close()
			time.Sleep(100 * time.Millisecond)
			s.wantEffects(i)
			s.send(request{key: fmt.Sprint("key-", i)}).want(t, http.StatusCreated, "executed")
			s.wantEffects(i + 1)
		}
	})
}

func TestB067TheHeadersNameHasNoCaseAndItsValueHas(t *testing.T) {
	h2 := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
	h2.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(h2.CloseIdleConnections)
	onServer(t, func(t *testing.T, s *server) {
		var first answer
		for i, name := range []string{"Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY", "iDEMPOTENCY-kEY"} {
			a := s.sendRaw(fmt.Sprintf("POST /create-order HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s: abc\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				name, len(oneTea), oneTea))
			if i == 0 {
				first = a.want(t, http.StatusCreated, "executed")
			} else {
				a.wantReplayOf(t, first)
			}
		}
		resp, err := h2.Post(s.url+"/create-order", "application/json", strings.NewReader(oneTea)) // without a key: is it HTTP/2?
		if err != nil || resp.ProtoMajor != 2 {
			t.Fatalf("HTTP/2 without TLS: %v, %v", resp, err)
		}
		resp.Body.Close()
		s.send(request{client: h2, key: "abc"}).wantReplayOf(t, first)
		s.send(request{client: h2, header: http.Header{"IDEMPOTENCY-KEY": {"abc"}}}).wantReplayOf(t, first)
		s.wantEffects(2)
		s.send(request{key: "ABC"}).want(t, http.StatusCreated, "executed")
		s.send(request{client: h2, key: "ABC"}).want(t, http.StatusCreated, "replayed")
		s.wantEffects(3)
	})
}

// Also R11: a key that cannot be used is refused, never ignored.
func TestB068OneRuleForEveryWayToWriteAKey(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		raw := func(lines ...string) answer {
			t.Helper()
			return s.sendRaw("POST /create-order HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + strings.Join(lines, "\r\n") +
				fmt.Sprintf("\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(oneTea), oneTea))
		}
		long := strings.Repeat("k", 256)
		for _, lines := range [][]string{
			{"Idempotency-Key:"},
			{"Idempotency-Key:   "},
			{`Idempotency-Key: ""`},
			{"Idempotency-Key: k1, k2"},
			{"Idempotency-Key: k1,"},
			{`Idempotency-Key: "k1", "k2"`},
			{"Idempotency-Key: k1", "Idempotency-Key: k2"},
			{"Idempotency-Key: k1", "idempotency-key: k1"},
			{"Idempotency-Key: k 1"},
			{"Idempotency-Key: " + long},
			{`Idempotency-Key: "` + long + `"`},
			{"Idempotency-Key: ключ"},
			{`Idempotency-Key: "ключ"`},
			{"Idempotency-Key: k\x001"},
			{"Idempotency-Key: k\x011"},
			{"Idempotency-Key: k\x7f1"},
			{`Idempotency-Key: "k1`},
			{`Idempotency-Key: k1"`},
			{`Idempotency-Key: "k\1"`},
			{`Idempotency-Key: "k1";a=1`},
		} {
			a := raw(lines...)
			if a.status != http.StatusBadRequest {
				t.Errorf("%q was answered %v, want 400", lines, a)
			}
			// net/http itself refuses what no header may hold.
			if o := a.outcome(); o != "key-invalid" && !strings.ContainsAny(strings.Join(lines, ""), "\x00\x01\x7f") {
				t.Errorf("%q was answered %v, want key-invalid", lines, a)
			}
		}
		s.wantEffects(0)

		first := raw("Idempotency-Key: k1").want(t, http.StatusCreated, "executed")
		for _, same := range []string{`Idempotency-Key: "k1"`, "Idempotency-Key:k1", "Idempotency-Key:  \t k1 \t ", `Idempotency-Key:  "k1"  `} {
			raw(same).wantReplayOf(t, first)
		}
		s.wantEffects(1)
		spaced := raw(`Idempotency-Key: "k 1"`).want(t, http.StatusCreated, "executed")
		raw(`Idempotency-Key: "k 1"`).wantReplayOf(t, spaced)
		raw(`Idempotency-Key: "k\"1\\"`).want(t, http.StatusCreated, "executed")
		raw("Idempotency-Key: "+long[1:]).want(t, http.StatusCreated, "executed")
		raw("Idempotency-Key: key:/?#[]@!$&'()*+;=%~").want(t, http.StatusCreated, "executed")
		s.wantEffects(5)
	})
}
