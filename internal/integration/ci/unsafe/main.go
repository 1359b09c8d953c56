// Command unsafe is a shop as people write it first, and wrong in one way: the
// workflow of docs/ci.md has to find that.
//
//	unsafe -addr 127.0.0.1:8000 -wrong race
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// wrong are the ways.
var wrong = []string{
	"nothing", // it is right
	"no-key",  // the key is not looked at
	"no-body", // the key is all that is looked at
	"race",    // it looks whether the key is there, and then acts
	"half",    // half a request is one
	"poison",  // a request that fails blocks its key
	"mute",    // a repeat is refused: it exists
}

type answer struct {
	sum    [32]byte
	status int // 0: not yet
	body   string
}

type shop struct {
	wrong string

	mu     sync.Mutex
	orders int                // guarded by mu
	keys   map[string]*answer // guarded by mu
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8000", "listen on this `address`")
	way := flag.String("wrong", "nothing", strings.Join(wrong, ", "))
	flag.Parse()
	if !slices.Contains(wrong, *way) {
		log.Fatalf("-wrong %s is none of %s", *way, strings.Join(wrong, ", "))
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	s := &shop{wrong: *way, keys: map[string]*answer{}}
	http.HandleFunc("GET /orders", s.list)
	http.HandleFunc("POST /create-order", s.create)
	log.Fatal(http.Serve(l, nil))
}

func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.orders {
		fmt.Fprintf(w, "{\"id\": %d}\n", n+1)
	}
}

func (s *shop) create(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if s.wrong == "poison" {
		s.mu.Lock()
		if s.keys[key] == nil {
			s.keys[key] = &answer{}
			defer s.mu.Unlock()
			if body, err := io.ReadAll(r.Body); err == nil {
				*s.keys[key] = answer{sha256.Sum256(body), http.StatusCreated, s.order()}
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, s.keys[key].body)
			}
			return
		}
		s.mu.Unlock()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil && s.wrong != "half" {
		http.Error(w, "that was not all", http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.keys[key]
	switch {
	case was == nil || s.wrong == "no-key":
	case was.status == 0:
		http.Error(w, "it runs", http.StatusConflict)
		return
	case was.sum != sum && s.wrong != "no-body":
		http.Error(w, "this key names another request", http.StatusUnprocessableEntity)
		return
	case s.wrong == "mute":
		http.Error(w, "it exists", http.StatusBadRequest)
		return
	default:
		w.WriteHeader(was.status)
		fmt.Fprint(w, was.body)
		return
	}
	if s.wrong == "race" { // a moment at the database
		s.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		s.mu.Lock()
	}
	now := &answer{sum, http.StatusCreated, s.order()}
	s.keys[key] = now
	w.WriteHeader(now.status)
	fmt.Fprint(w, now.body)
}

// order makes one; s.mu is held.
func (s *shop) order() string {
	s.orders++
	return fmt.Sprintf("{\"id\": %d}", s.orders)
}
