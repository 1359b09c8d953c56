package orders_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Requirements 64, 68, 81 to 83: what holds without a key, and beyond it: names
// that the business has, revisions, locks, and an undo that can be repeated.

// entity is what an answer shows and where it says that it is.
type entity struct{ id, location, tag string }

func (a answer) entity(t *testing.T) entity {
	t.Helper()
	return entity{a.order(t).ID, a.header.Get("Location"), a.header.Get("ETag")}
}

func TestRequirement64TwentyAtOnceUnderTwoKeysAreOneOrder(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		var all []func() answer
		for i := range 20 {
			all = append(all, func() answer {
				a, _ := s.patiently(request{key: fmt.Sprint("key-", i%2), prefer: "wait=10", body: named, chaos: "then_sleep_ms=20"})
				return a
			})
		}
		all = append(all, s.times(20, request{body: named})...) // without a key
		answers := parallel(all...)
		there := s.wantEffects(1)[0]
		made := map[string]int{} // by key
		for i, a := range answers {
			if e := a.entity(t); e.id != there.ID || e.location != "/orders/"+there.ID || e.tag == "" {
				t.Errorf("answered %v at %q, the shop has %+v", a, e.location, there)
			}
			key := "none"
			if i < 20 {
				key = fmt.Sprint("key-", i%2)
			}
			switch a.status {
			case http.StatusCreated:
				if a.outcome() != "replayed" {
					made[key]++
				}
			case http.StatusOK:
			default:
				t.Errorf("answered %v, want 201 or 200", a)
			}
		}
		if n := slices.Collect(maps.Values(made)); len(n) != 1 || n[0] != 1 {
			t.Errorf("201 was answered under these keys so often: %v", made)
		}
		s.send(request{key: "later", body: named}).want(t, http.StatusOK, "executed")
		s.wantEffects(1)
	})
}

// The name stands for what was asked for when it was first used: a late repeat of
// that is known by it, whatever the order has become; anything else is refused,
// and told where the order is.
func TestRequirement64AnExternalIDStandsForWhatItWasFirstUsedFor(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.send(request{key: "first", body: named}).want(t, http.StatusCreated, "executed").entity(t)
		other := strings.Replace(named, `"qty":1`, `"qty":2`, 1)
		for _, key := range []string{"", "other", "other"} {
			a := s.send(request{key: key, body: other})
			if a.status != http.StatusConflict || a.header.Get("Location") != first.location || a.header.Get("ETag") != first.tag {
				t.Errorf("another order under the same external id: %v %v, want 409 and Location %s", a, a.header, first.location)
			}
			var refusal struct {
				Error string `json:"error"`
				Order order  `json:"order"`
			}
			if err := json.Unmarshal([]byte(a.body), &refusal); err != nil || refusal.Order.ID != first.id || refusal.Error == "" {
				t.Errorf("the refusal says %q: %v", a.body, err)
			}
		}
		s.send(request{method: http.MethodPut, path: first.location, body: `{"item":"jam","qty":7}`}).want(t, http.StatusOK, "")
		s.send(request{path: first.location + "/cancel"}).want(t, http.StatusOK, "")
		a := s.send(request{key: "late", body: named}).want(t, http.StatusOK, "executed")
		if o := a.order(t); o.Item != "jam" || o.Qty != 7 || o.Status != "cancelled" {
			t.Errorf("a late repeat sees %+v, not the order as it is now", o)
		}
		s.send(request{body: `{"item":"jam","qty":7,"external_id":"basket-1"}`}).want(t, http.StatusConflict, "")
		s.wantEffects(1)
	})
}

// Requirement 68, the first way: whoever has read something old is told so.
func TestRequirement68AStaleIfMatchIs412AndChangesNothing(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.send(request{key: "create"}).want(t, http.StatusCreated, "executed").entity(t)
		put := func(key, qty string, header ...string) answer {
			h := http.Header{}
			for i := 0; i < len(header); i += 2 {
				h.Add(header[i], header[i+1])
			}
			return s.send(request{method: http.MethodPut, path: first.location, key: key, body: `{"item":"tea","qty":` + qty + `}`, header: h})
		}
		second := put("", "2", "If-Match", first.tag).want(t, http.StatusOK, "").entity(t)
		if second.tag == first.tag {
			t.Fatalf("the ETag stays %s", first.tag)
		}
		for _, stale := range []string{first.tag, "W/" + second.tag, `"nobody's", ` + first.tag} {
			a := put("", "3", "If-Match", stale)
			if a.status != http.StatusPreconditionFailed || a.header.Get("ETag") != second.tag {
				t.Errorf("If-Match: %s was answered %v with ETag %s, want 412 and %s", stale, a, a.header.Get("ETag"), second.tag)
			}
		}
		if o := s.wantEffects(1)[0]; o.Qty != 2 {
			t.Errorf("refused, and changed into %+v", o)
		}
		// What is already so is no conflict: this client's answer was lost.
		if again := put("", "2", "If-Match", first.tag).want(t, http.StatusOK, "").entity(t); again.tag != second.tag {
			t.Errorf("a repeat changed the order: %+v, then %+v", second, again)
		}
		// A refusal is the request's own: under a key it is replayed, and a new
		// decision is a new key.
		refused := put("k", "4", "If-Match", first.tag).want(t, http.StatusPreconditionFailed, "executed")
		put("k", "4", "If-Match", first.tag).wantReplayOf(t, refused)
		third := put("", "4", "If-Match", "*").want(t, http.StatusOK, "").entity(t)
		put("", "5", "If-Match", `"x"`, "If-Match", third.tag).want(t, http.StatusOK, "") // two lines are one list
		put("", "6", "If-Match", "5").want(t, http.StatusBadRequest, "")                  // and this is none
		stale := http.Header{"If-Match": {third.tag}}
		for _, r := range []request{
			{path: first.location + "/cancel", header: stale},
			{path: first.location + "/add", key: "add", body: `{"qty":1}`, header: stale},
			{method: http.MethodDelete, path: first.location, header: stale},
		} {
			if a := s.send(r); a.status != http.StatusPreconditionFailed {
				t.Errorf("%s %s with a stale If-Match: %v", r.method, r.path, a)
			}
		}
		if o := s.wantEffects(1)[0]; o.Qty != 5 || o.Status != "placed" {
			t.Errorf("the shop has %+v", o)
		}
		for range 2 { // gone is gone, also for whom the first answer did not reach
			now := s.send(request{method: http.MethodGet, path: first.location})
			s.send(request{method: http.MethodDelete, path: first.location, header: http.Header{"If-Match": {orElse(now.header.Get("ETag"), "*")}}}).
				want(t, http.StatusNoContent, "")
		}
		s.wantEffects(0)
	})
}

// Of twenty who have read the same revision one may write.
func TestRequirement68OfTwentyWhoReadTheSameOneMayWrite(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.send(request{key: "create"}).entity(t)
		var all []func() answer
		for i := range 20 {
			all = append(all, func() answer {
				a, _ := s.patiently(request{
					method: http.MethodPut, path: first.location, key: fmt.Sprint("k", i),
					body: fmt.Sprintf(`{"item":"tea","qty":%d}`, 100+i), header: http.Header{"If-Match": {first.tag}},
				})
				return a
			})
		}
		answers := parallel(all...)
		if n := statuses(answers); n[http.StatusOK] != 1 || n[http.StatusPreconditionFailed] != 19 {
			t.Errorf("answered with %v, want one 200 and nineteen 412", n)
		}
		i := slices.IndexFunc(answers, func(a answer) bool { return a.status == http.StatusOK })
		if o := s.wantEffects(1)[0]; i >= 0 && o.Qty != 100+i {
			t.Errorf("the %d. was told that it has written, the shop has %+v", i, o)
		}
	})
}

// A client that names its new order itself may say that it is to be new.
func TestRequirement68IfNoneMatchCreatesOnce(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		path, create := "/orders/my-own-1", http.Header{"If-None-Match": {"*"}}
		s.send(request{method: http.MethodPut, path: path}).want(t, http.StatusNotFound, "") // PUT alone changes only
		var all []func() answer
		for i := range 20 {
			all = append(all, func() answer {
				a, _ := s.patiently(request{method: http.MethodPut, path: path, key: fmt.Sprint("k", i), header: create})
				return a
			})
		}
		answers := parallel(all...)
		if n := statuses(answers); n[http.StatusCreated] != 1 || n[http.StatusPreconditionFailed] != 19 {
			t.Errorf("answered with %v, want one 201 and nineteen 412", n)
		}
		there := s.wantEffects(1)[0]
		for i, a := range answers {
			if a.status != http.StatusCreated {
				continue
			}
			if a.order(t) != there || there.ID != "my-own-1" || a.header.Get("Location") != path {
				t.Errorf("created %v at %s, the shop has %+v", a, a.header.Get("Location"), there)
			}
			s.send(request{method: http.MethodPut, path: path, key: fmt.Sprint("k", i), header: create}).wantReplayOf(t, a)
		}
		for _, path := range []string{"/orders/not%20a%20name", "/orders/" + strings.Repeat("x", 65)} {
			s.send(request{method: http.MethodPut, path: path, header: create}).want(t, http.StatusBadRequest, "")
		}
		s.send(request{method: http.MethodPut, path: path, header: http.Header{"If-None-Match": {"*"}, "If-Match": {"*"}}}).
			want(t, http.StatusPreconditionFailed, "")
		s.wantEffects(1)
	})
}

// Requirement 68, the second way: SELECT … FOR UPDATE on Postgres, and what the
// other ledgers have for it. "Add one" is relative, and limited: looking and
// writing must be one.
func TestRequirement68FiftyAtOnceLoseNothing(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		at := s.send(request{key: "create"}).entity(t).location
		add := func(key string) answer {
			a, _ := s.patiently(request{key: key, path: at + "/add", body: `{"qty":1}`, prefer: "wait=10"})
			return a
		}
		var all []func() answer
		for i := range 50 {
			all = append(all, func() answer { return add(fmt.Sprint("k", i)) })
		}
		before := time.Now()
		seen := map[int]bool{}
		for _, a := range parallel(all...) {
			a.want(t, http.StatusOK, "executed")
			seen[a.order(t).Qty] = true
		}
		t.Logf("fifty took %v", time.Since(before))
		if o := s.wantEffects(1)[0]; o.Qty != 51 || len(seen) != 50 {
			t.Errorf("after 50 times one more the shop has %+v, and %d different sums were told", o, len(seen))
		}
		for i := range 50 {
			if a := add(fmt.Sprint("k", i)); a.outcome() != "replayed" {
				t.Errorf("the repeat was answered %v", a)
			}
		}
		s.send(request{path: at + "/add", body: `{"qty":1}`}).want(t, http.StatusBadRequest, "key-missing")
		if o := s.wantEffects(1)[0]; o.Qty != 51 {
			t.Errorf("repeats added: %+v", o)
		}
		// There is room for five more, and twenty who want it.
		s.send(request{method: http.MethodPut, path: at, body: `{"item":"tea","qty":995}`}).want(t, http.StatusOK, "")
		all = nil
		for i := range 20 {
			all = append(all, func() answer { return add(fmt.Sprint("full-", i)) })
		}
		if n := statuses(parallel(all...)); n[http.StatusOK] != 5 || n[http.StatusConflict] != 15 {
			t.Errorf("answered with %v, want five 200 and fifteen 409", n)
		}
		if o := s.wantEffects(1)[0]; o.Qty != 1000 {
			t.Errorf("the shop has %+v", o)
		}
		s.send(request{path: at + "/cancel"}).want(t, http.StatusOK, "")
		if a := add("after"); a.status != http.StatusConflict {
			t.Errorf("a cancelled order grew: %v", a)
		}
		if strings.HasPrefix(s.b.name, "postgres") {
			conn := s.postgres()
			s.stop() // its connections tell what they met
			var deadlocks int
			if err := conn.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil || deadlocks > 0 {
				t.Errorf("the server counts %d deadlocks, %v", deadlocks, err)
			}
		}
	})
}

// The lock is the database's, and not one of this process's.
func TestRequirement68TwoProcessesLoseNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		two := startTwo(t, b)
		at := two[0].send(request{key: "create"}).entity(t).location
		var all []func() answer
		for i := range 50 {
			all = append(all, func() answer {
				a, _ := two[i%2].patiently(request{key: fmt.Sprint("k", i), path: at + "/add", body: `{"qty":1}`})
				return a
			})
		}
		for _, a := range parallel(all...) {
			a.want(t, http.StatusOK, "executed")
		}
		if o := two[1].wantEffects(1)[0]; o.Qty != 51 {
			t.Errorf("after 50 times one more the shop has %+v", o)
		}
	})
}

// Requirement 83: an undo that can be repeated. Cancelled is a state, and reaching
// it twice is reaching it once, whoever asks, under whatever key.
func TestRequirement83CancelledTwentyTimesIsCancelledOnce(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.send(request{key: "create"}).entity(t)
		cancel := request{path: first.location + "/cancel"}
		all := s.times(8, cancel)
		for i := range 12 {
			keyed := cancel
			keyed.key, keyed.prefer = fmt.Sprint("k", i%6), "wait=10" // twice each
			all = append(all, func() answer {
				a, _ := s.patiently(keyed)
				return a
			})
		}
		tags := map[string]int{}
		for _, a := range parallel(all...) {
			if a.status != http.StatusOK || a.order(t).Status != "cancelled" {
				t.Errorf("cancelling was answered %v", a)
			}
			tags[a.header.Get("ETag")]++
		}
		// One revision for all: the order changed once.
		if len(tags) != 1 || tags[first.tag] != 0 {
			t.Errorf("the revisions were %v, placed as %s", tags, first.tag)
		}
		if o := s.wantEffects(1)[0]; o.Status != "cancelled" {
			t.Errorf("the shop has %+v", o)
		}
		// A client that had read the placed order, and whose answer was lost.
		late := cancel
		late.header = http.Header{"If-Match": {first.tag}}
		if a := s.send(late).want(t, http.StatusOK, ""); tags[a.header.Get("ETag")] == 0 {
			t.Errorf("cancelled once more: %v", a)
		}
	})
}
