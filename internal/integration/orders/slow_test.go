package orders_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A transaction holds up others where there is one writer, for its limit and no
// longer; where there are many, nobody.

// The slow handler does not even look at its context. It goes on for longer than
// the quick ones take, so that their answers come while it is still at work.
func TestOneSlowTransactionBesideQuickOnes(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		limit := map[bool]string{true: "1500ms", false: "20s"}[b.serial]
		s := start(t, b, "-max-transaction", limit)
		slow := s.background(request{key: "slow", chaos: "sleep_ms=25000&deaf=1"})
		s.waitRunning(1)
		var quick []func() answer
		for i := range 10 {
			quick = append(quick, func() answer { return s.send(request{key: fmt.Sprint("quick-", i)}) })
		}
		for _, a := range parallel(quick...) {
			a.want(t, http.StatusCreated, "executed")
		}
		s.waitRunning(1) // the slow one
		if b.serial {
			(<-slow).want(t, http.StatusServiceUnavailable, "unavailable")
			s.send(request{key: "slow"}).want(t, http.StatusCreated, "executed")
			s.wantEffects(11)
			return
		}
		select {
		case a := <-slow:
			t.Errorf("the quick ones were answered after the slow one, which was answered %v", a)
		default:
		}
		s.send(request{key: "slow"}).wantBusy(t)
		s.wantEffects(10)
	})
}

// Each waits for those before it as long as a call of the store may take, and is
// then told that nothing was done.
func TestALineOfSlowTransactionsEndsForEachOne(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		slow := request{chaos: "sleep_ms=60000"}
		var all []func() answer
		for i := range 12 { // 12 s in a line, of which nobody waits more than 6
			r := slow
			r.key = fmt.Sprint("slow-", i)
			all = append(all, func() answer { return s.send(r) })
		}
		all = append(all, func() answer {
			s.waitRunning(1)
			return s.send(request{key: "quick", timeout: 30 * time.Second})
		})
		answers := parallel(all...)
		for _, a := range answers[:len(answers)-1] {
			a.wantCutOff(t, "unavailable")
		}
		quick := answers[len(answers)-1]
		// Where the store's own call has ended without a word, the guard asks once
		// more and can meet what is still being committed.
		switch o := quick.outcome(); {
		case o == "executed":
		case (o == "unavailable" || o == "in-progress") && quick.status == http.StatusServiceUnavailable:
		default:
			t.Errorf("the quick one was answered %v", quick)
		}
		s.until(request{key: "quick"})
		s.wantEffects(1)
	}, "-max-transaction", "1s")
}
