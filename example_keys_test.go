package onceward_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// The recipes for keys of docs/guide.md. What stands between "guide begins" and
// "guide ends" is printed there; a test holds the two together.

// guide begins: uuid
// uuid4 is a random name, as crypto.randomUUID() is in a browser.
func uuid4() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// guide ends.

// guide begins: payload
// payloadKey ties a random name to what is asked for.
func payloadKey(uuid, method, path, body string) string {
	sum := sha256.Sum256([]byte(method + "\n" + path + "\n" + body))
	return uuid + "." + base64.RawURLEncoding.EncodeToString(sum[:])[:22]
}

// guide ends.

// till is a guarded handler that counts what it did. Its answers come as
// "status, body, token".
func till() (send func(key, body string) string, done func()) {
	effects := 0
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{Require: true})
	if err != nil {
		log.Fatal(err)
	}
	handler := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		effects++
		fmt.Fprintf(w, "effect %d", effects)
	}))
	send = func(key, body string) string {
		r := httptest.NewRequest("POST", "/create-order", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		token, _, _ := strings.Cut(w.Header().Get("Idempotency-Status"), ";")
		text := w.Body.String()
		if w.Code >= 400 {
			text = "refused"
		}
		return fmt.Sprintf("%d, %s, %s", w.Code, text, token)
	}
	return send, func() { _ = guard.Close(context.Background()) }
}

// One name for one intent: it is made when the form or the button is shown, and
// every try has it. A second intent with the same content has another.
func Example_keyPerIntent() {
	send, done := till()
	defer done()
	first, second := uuid4(), uuid4()
	fmt.Println(regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(first), first != second)
	fmt.Println(send(first, "notebook"))
	fmt.Println(send(first, "notebook"))
	fmt.Println(send(second, "notebook"))
	// Output:
	// true true
	// 200, effect 1, executed
	// 200, effect 1, replayed
	// 200, effect 2, executed
}

// The id that the client gives to the new row can be the key as well; in the
// table it is unique, so that it holds when the key is long forgotten.
func Example_keyIsTheClientsID() {
	send, done := till()
	defer done()
	id := uuid4()
	body := "id=" + id + "&text=notebook"
	fmt.Println(send(id, body))
	fmt.Println(send(id, body))
	// Output:
	// 200, effect 1, executed
	// 200, effect 1, replayed
}

// A name that the business has already: two programs that do not know of each
// other make the same one.
func Example_keyFromTheBusiness() {
	send, done := till()
	defer done()
	invoice := func(number int) string { return fmt.Sprintf("pay-invoice-%d", number) }
	fmt.Println(send(invoice(117), "amount=12.50"))
	fmt.Println(send(invoice(117), "amount=12.50"))
	fmt.Println(send(invoice(118), "amount=12.50"))
	// Output:
	// 200, effect 1, executed
	// 200, effect 1, replayed
	// 200, effect 2, executed
}

// Requirement 79: a UUIDv4 and a hash of the payload. The guard compares the
// payload itself; this key says on its face, in a log or a queue, whether two
// requests can be one.
func Example_keyOfUUIDAndPayload() {
	send, done := till()
	defer done()
	const uuid = "7f0c2f3e-9f0c-4d8e-8f62-0d1c9a6b7e55"
	key := payloadKey(uuid, "POST", "/create-order", `{"item":"book"}`)
	fmt.Println(key)
	fmt.Println(send(key, `{"item":"book"}`))
	fmt.Println(send(key, `{"item":"book"}`))
	fmt.Println(send(key, `{"item":"two books"}`))
	fmt.Println(payloadKey(uuid, "POST", "/create-order", `{"item":"two books"}`) == key)
	// Output:
	// 7f0c2f3e-9f0c-4d8e-8f62-0d1c9a6b7e55.tyBWXNGiIH-zLq04GgjRnA
	// 200, effect 1, executed
	// 200, effect 1, replayed
	// 422, refused, key-reused
	// false
}
