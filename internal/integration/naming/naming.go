// Package naming has the code of docs/keys.md: the ways to name a request. Its tests
// run it, the JavaScript too, against a guarded server.
package naming

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// docs: intent go
// order sends one order until it is known what became of it, or that nobody knows
// (outcome-unknown: then look, before anything is sent). Its name is made before the
// first try, and not inside the loop: there it would be a new order each time.
func order(ctx context.Context, client *http.Client, url, body string) (*http.Response, error) {
	key := rand.Text() // 130 random bits; a UUIDv4 does as well
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		answer, err := client.Do(r)
		if err == nil {
			outcome, _, _ := strings.Cut(answer.Header.Get("Idempotency-Status"), ";")
			switch outcome {
			case "executed", "replayed", "outcome-unknown":
				return answer, nil
			}
			switch code := answer.StatusCode; {
			case code == 408, code == 409, code == 425, code == 429, code < 400, code >= 500: // a matter of time
			case outcome != "", code == 401:
				return answer, nil // the guard's no, or the service's; without a word of the guard it is somebody else's
			}
			answer.Body.Close()
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// docs: end

// docs: request_id go
// requestID is a Config.KeyFrom for clients that cannot set a header: the name
// stands in the JSON that they send. What has no such name has no key, and passes.
func requestID(r *http.Request) (string, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return "", nil
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	var body struct {
		RequestID any `json:"request_id"`
	}
	if json.Unmarshal(text, &body) != nil {
		return "", nil // empty, an array, or no JSON: the handler's to refuse
	}
	name, _ := body.RequestID.(string)
	return name, nil
}

// docs: end

// docs: natural go
// nameOf makes a key of everything that makes two requests two. The parts are kept
// apart, so that "1","17" and "11","7" are two names, and hashed, so that any
// text and any length will do.
func nameOf(parts ...string) string {
	text, _ := json.Marshal(parts) // of strings it never fails
	sum := sha256.Sum256(text)
	return parts[0] + "-" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// docs: end

// docs: payload go
// payloadKey ties a random name to the request that it names.
func payloadKey(uuid, method, path, body string) string {
	sum := sha256.Sum256([]byte(method + "\n" + path + "\n" + body))
	return uuid + "." + base64.RawURLEncoding.EncodeToString(sum[:])[:22]
}

// belongs says whether a key of that form was made for this request: a queue, or a
// proxy, can tell without asking anybody.
func belongs(key, method, path, body string) bool {
	uuid, _, ok := strings.Cut(key, ".")
	return ok && key == payloadKey(uuid, method, path, body)
}

// docs: end

// uuid4 is a random name, as crypto.randomUUID() is in a browser.
func uuid4() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
