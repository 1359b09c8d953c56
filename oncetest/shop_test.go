package oncetest_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/oncetest"
)

// A shop in plain code that does named work once, and can be made wrong in one way
// at a time. It is nobody's guard: the assertions have to judge any.

// wrong is one way in which a shop is wrong; "" is none.
type wrong string

const (
	noKey           wrong = "the key is not looked at"
	looksThenActs   wrong = "looks whether the key is there, then acts"
	noScope         wrong = "the key is not its owner's alone"
	keepsFailures   wrong = "a 5xx is kept with the key"
	anyBody         wrong = "another body gets the first one's answer"
	overwrites      wrong = "another body is carried out under the same key"
	storesLate      wrong = "the answer is stored when it has been written"
	freesUnwritten  wrong = "a write that fails frees the key"
	keepsNoAnswer   wrong = "a client that leaves gets an empty answer kept"
	givesUpForGood  wrong = "a client that leaves blocks its key"
	locksForEver    wrong = "a run that dies blocks its key"
	losesHeaders    wrong = "a replay has no Location"
	otherStatus     wrong = "a replay is 200"
	refusesRepeat   wrong = "a repeat is refused: it exists"
	answersTheCrowd wrong = "copies at once are told 200 before anything is done"
	forgets         wrong = "the keys are in memory only"
	doesHalf        wrong = "a failure leaves its work behind"
	turnsOver       wrong = "the state is turned over"
	movesOn         wrong = "the state moves on with each request"
	quietNoScope    wrong = "the key is not its owner's alone, and no replay says that it is one"
	saysDone        wrong = "after a failure the key is kept as if all was done"
)

// record is what is kept of a key; it is replaced, not changed.
type record struct {
	busy   bool
	sum    [32]byte
	status int
	header http.Header
	body   string
}

// shop makes orders; it is a handler.
type shop struct {
	wrong wrong

	mu      sync.Mutex
	orders  []string
	records map[string]*record
	open    bool // the shop, as its sign says
	set     int  // how often the sign was set; only a wrong shop shows it
	broken  bool
}

func newShop(w wrong) *shop { return &shop{wrong: w, records: map[string]*record{}} }

func (s *shop) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.orders)
}

func (s *shop) sign() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong == movesOn {
		return fmt.Sprint("open: ", s.open, ", set ", s.set)
	}
	return fmt.Sprint("open: ", s.open)
}

// breakIt makes orders fail.
func (s *shop) breakIt() (mend func()) {
	set := func(broken bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.broken = broken
	}
	set(true)
	return func() { set(false) }
}

// restart is another process with the same orders.
func (s *shop) restart(testing.TB) http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong == forgets {
		s.records = map[string]*record{}
	}
	for key, rec := range s.records { // leases that are over
		if rec.busy && s.wrong != locksForEver {
			delete(s.records, key)
		}
	}
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/sign" && r.Method == "GET":
		fmt.Fprint(w, s.sign())
	case r.URL.Path == "/sign":
		s.setSign(w, r)
	case r.Header.Get("Authorization") == "":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		s.once(w, r)
	}
}

func (s *shop) setSign(w http.ResponseWriter, r *http.Request) {
	open := r.FormValue("open") == "true"
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set++
	if s.wrong == turnsOver {
		s.open = !s.open
	} else {
		s.open = open
	}
	fmt.Fprint(w, "open: ", s.open)
}

// once is a guard in sixty lines, as people write them.
func (s *shop) once(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Authorization") + " " + r.Header.Get("Idempotency-Key")
	if s.wrong == noScope || s.wrong == quietNoScope {
		id = r.Header.Get("Idempotency-Key")
	}
	if s.wrong == looksThenActs {
		s.mu.Lock()
		rec := s.records[id]
		s.mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		if rec == nil || rec.sum != sha256.Sum256(body) {
			s.first(w, r, id, string(body), &record{sum: sha256.Sum256(body)})
			return
		}
		s.replay(w, rec)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256(text)
	s.mu.Lock()
	rec := s.records[id]
	if s.wrong == overwrites && rec != nil && rec.sum != sum {
		rec = nil
	}
	mine := rec == nil || s.wrong == noKey
	if mine {
		rec = &record{busy: true, sum: sum}
		s.records[id] = rec
	}
	busy := rec.busy
	s.mu.Unlock()
	switch {
	case mine:
		s.first(w, r, id, string(text), rec)
	case rec.sum != sum && s.wrong != anyBody:
		w.WriteHeader(http.StatusUnprocessableEntity)
	case busy && s.wrong == answersTheCrowd:
		w.WriteHeader(http.StatusOK)
	case busy:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusConflict)
	default:
		s.replay(w, rec)
	}
}

func (s *shop) replay(w http.ResponseWriter, rec *record) {
	if s.wrong == refusesRepeat {
		http.Error(w, "it exists", http.StatusConflict)
		return
	}
	for name, values := range rec.header {
		if s.wrong != losesHeaders {
			w.Header()[name] = values
		}
	}
	if s.wrong != quietNoScope {
		w.Header().Set("Idempotency-Replayed", "1")
	}
	if s.wrong == otherStatus && rec.status == http.StatusCreated {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(rec.status)
	}
	_, _ = io.WriteString(w, rec.body)
}

// first does the work of a key that is new, and keeps its answer.
func (s *shop) first(w http.ResponseWriter, r *http.Request, id, body string, rec *record) {
	kept := false
	free := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.records, id)
	}
	keep := func(answer *httptest.ResponseRecorder) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.records[id] = &record{sum: rec.sum, status: answer.Code, header: answer.Header().Clone(), body: answer.Body.String()}
		kept = true
	}
	defer func() {
		if !kept && s.wrong != locksForEver && s.wrong != givesUpForGood {
			free()
		}
	}()
	answer := httptest.NewRecorder()
	if s.wrong == keepsNoAnswer || s.wrong == givesUpForGood {
		if r.Context().Err() != nil {
			if s.wrong == keepsNoAnswer {
				keep(answer)
			}
			return
		}
	}
	s.order(answer, r.WithContext(context.WithoutCancel(r.Context())), body)
	if answer.Code >= 500 && s.wrong == saysDone {
		done := httptest.NewRecorder()
		done.WriteHeader(http.StatusCreated)
		keep(done)
	}
	if answer.Code >= 500 && !kept && s.wrong != keepsFailures {
		free()
		kept = true // there is nothing to keep
	}
	if !kept && s.wrong != storesLate && s.wrong != locksForEver && s.wrong != freesUnwritten {
		keep(answer)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, err := w.Write(answer.Body.Bytes())
	if !kept && (err == nil || s.wrong != freesUnwritten) {
		keep(answer)
	}
}

func (s *shop) order(w http.ResponseWriter, r *http.Request, body string) {
	var wish struct{ Item string }
	if err := json.Unmarshal([]byte(body), &wish); err != nil || wish.Item == "" {
		http.Error(w, "an order has an item", http.StatusBadRequest)
		return
	}
	time.Sleep(5 * time.Millisecond) // the way to a database
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken && s.wrong == doesHalf {
		s.orders = append(s.orders, wish.Item)
	}
	if s.broken {
		http.Error(w, "the disk is full", http.StatusInternalServerError)
		return
	}
	s.orders = append(s.orders, wish.Item)
	w.Header().Set("Location", "/orders/"+strconv.Itoa(len(s.orders)))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "order %d: %s", len(s.orders), wish.Item)
}

// orderRequest is a fresh one.
func orderRequest() *http.Request {
	r := httptest.NewRequest("POST", "/orders", strings.NewReader(`{"item":"tea"}`))
	r.Header.Set("Authorization", "anna")
	r.Header.Set("Idempotency-Key", oncetest.NewKey())
	return r
}

// config is all that the shop can be judged by.
func (s *shop) config() oncetest.Config {
	return oncetest.Config{
		Effects:     s.count,
		Restart:     s.restart,
		OtherBody:   `{"item":"jam"}`,
		OtherPerson: func(r *http.Request) { r.Header.Set("Authorization", "boris") },
		Break:       s.breakIt,
		Patience:    patience,
	}
}

// fake is a testing.TB that keeps failures to itself.
type fake struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	log    strings.Builder
}

func (f *fake) Helper() {}

func (f *fake) Error(args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
	fmt.Fprintln(&f.log, args...)
}

func (f *fake) Errorf(format string, args ...any) { f.Error(fmt.Sprintf(format, args...)) }

// try runs f with a fake and returns what it complained of; "" if of nothing.
func try(t *testing.T, f func(t testing.TB)) string {
	t.Helper()
	tb := &fake{TB: t}
	f(tb)
	if tb.failed != (tb.log.Len() > 0) {
		t.Error("failed without a word")
	}
	return tb.log.String()
}

var errTest = errors.New("a test's own error")
