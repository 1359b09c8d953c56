package orders_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// Cases B083–B095: what databases do to those who share them.

// distinct are n requests under keys of their own.
func (s *server) distinct(n int, prefix string, r request) []func() answer {
	list := make([]func() answer, n)
	for i := range list {
		r.key = fmt.Sprint(prefix, i)
		one := r
		list[i] = func() answer { return s.send(one) }
	}
	return list
}

// statuses counts answers by status.
func statuses(answers []answer) map[int]int {
	n := map[int]int{}
	for _, a := range answers {
		n[a.status]++
	}
	return n
}

// Whoever comes second with a name that is taken finds what is there, and is not
// left with a transaction in which nothing works any more.
func TestB083WhoLosesTheRaceForANameIsAnswered(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		all := s.distinct(10, "key-", request{body: named, chaos: "then_sleep_ms=50"})
		answers := parallel(all...)
		if n := statuses(answers); n[http.StatusCreated] != 1 || n[http.StatusOK] != 9 {
			t.Errorf("answered with %v, want one 201 and nine 200", n)
		}
		there := s.wantEffects(1)[0]
		for i, again := range parallel(all...) {
			again.wantReplayOf(t, answers[i])
			if got := again.order(t); got != there {
				t.Errorf("the client sees %+v, the shop has %+v", got, there)
			}
		}
		s.wantEffects(1)
	})
}

// The order is written and its transaction open when the duplicate comes, to
// another process.
func TestB085ATransactionThatIsStillOpenIsNotFree(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		two := startTwo(t, b)
		first := two[0].background(request{key: "k", chaos: "then_sleep_ms=3000"})
		two[0].waitRunning(1)
		two[1].duplicate(request{key: "k"})
		waited := two[1].send(request{key: "k", prefer: "wait=10"})
		waited.wantReplayOf(t, (<-first).want(t, http.StatusCreated, "executed"))
		wantEffectsOfTwo(two, 1)
	})
}

// They are more than the program has connections.
func TestB086FiftyWaitersOfOneKeyHoldUpNobodyElse(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "hot", chaos: "sleep_ms=" + map[bool]string{false: "60000", true: "3000"}[s.b.serial]})
		s.waitRunning(1)
		waiters := s.times(50, request{key: "hot", prefer: "wait=1"})
		others := s.distinct(10, "cold-", request{})
		answers := parallel(slices.Concat(waiters, others)...)
		for _, a := range answers[50:] {
			a.want(t, http.StatusCreated, "executed")
		}
		if s.b.serial { // everybody has waited for the first one's end
			for _, a := range answers[:50] {
				a.want(t, http.StatusCreated, "replayed")
			}
			(<-first).want(t, http.StatusCreated, "executed")
			s.wantEffects(11)
			return
		}
		for _, a := range answers[:50] {
			a.wantBusy(t)
		}
		s.wantEffects(10)
	})
}

func TestB087EveryIsolationLevelGivesTheSameOutcomes(t *testing.T) {
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, b backend) {
				store := b.flags(t)
				store[slices.Index(store, "-store")+1] += "&default_transaction_isolation=" + strings.ReplaceAll(level, " ", "%20")
				s := startOn(t, b, store)
				answers := parallel(slices.Concat(
					s.times(20, request{key: "one", prefer: "wait=10", chaos: "then_sleep_ms=50"}),
					s.distinct(10, "same-name-", request{body: named, chaos: "then_sleep_ms=50"}),
					s.distinct(20, "another-", request{}),
				)...)
				if n := count(answers[:20]); n["executed"] != 1 || n["replayed"] != 19 {
					t.Errorf("outcomes of one key: %v, want 1 executed and 19 replayed", n)
				}
				if n := statuses(answers[20:30]); n[http.StatusCreated] != 1 || n[http.StatusOK] != 9 {
					t.Errorf("one name under ten keys was answered with %v, want one 201 and nine 200", n)
				}
				if n := count(answers[30:]); n["executed"] != 20 {
					t.Errorf("outcomes of twenty keys: %v", n)
				}
				s.wantEffects(22)
			})
		})
	}
}

// The program's transaction has an order's row and wants its key's; the test's has
// the key's and then wants the order's. The one that looks for a deadlock first, and
// when there is one, is whom the database chooses: the program, which has more than the
// usual second for the other to come; it runs again by itself.
func TestB089ADeadlockIsResolvedInside(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		store := b.flags(t)
		store[slices.Index(store, "-store")+1] += "&deadlock_timeout=3s"
		s := startOn(t, b, store)
		o := s.send(request{key: "create"}).order(t)
		ctx, conn := t.Context(), s.postgres()
		rival, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rival.Exec(ctx, `SET LOCAL deadlock_timeout = '1min'`); err != nil {
			t.Fatal(err)
		}
		// A copy of the one row there is, under the key that is about to come.
		id := onceward.NewKey("", "put").ID
		if _, err := rival.Exec(ctx, `CREATE TEMPORARY TABLE copy ON COMMIT DROP AS SELECT * FROM idempotency_keys`); err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{`UPDATE copy SET key = $1`, `INSERT INTO idempotency_keys SELECT * FROM copy WHERE key = $1`} {
			if _, err := rival.Exec(ctx, statement, id[:]); err != nil {
				t.Fatal(err)
			}
		}
		put := s.background(request{method: http.MethodPut, path: "/orders/" + o.ID, key: "put", body: `{"item":"jam","qty":3}`})
		watcher := s.postgres()
		eventually(t, "the program waits for the key's row", func() bool {
			var n int
			err := watcher.QueryRow(ctx, `SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()`).Scan(&n)
			return err == nil && n > 0
		})
		if _, err := rival.Exec(ctx, `UPDATE orders SET qty = 7 WHERE id = $1`, o.ID); err != nil {
			t.Errorf("the database chose the other one: %v", err)
		}
		var deadlocks int
		if err := rival.Rollback(ctx); err != nil {
			t.Error(err)
		}
		(<-put).want(t, http.StatusOK, "executed")
		if got := s.wantEffects(1)[0]; got.Item != "jam" || got.Qty != 3 {
			t.Errorf("the shop has %+v", got)
		}
		s.stop() // its connections tell what they met
		eventually(t, "a deadlock in the server's count", func() bool {
			err := watcher.QueryRow(ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks)
			return err == nil && deadlocks > 0
		})
		s.restart()
	})
}

// A table that changes all the time stays small if it is written seldom and
// cleared often: the claim and the answer are one row, and in a transaction one
// writing.
func TestB094AStateIsOneRowWritten(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		const n = 100
		for _, a := range parallel(s.distinct(n, "key-", request{})...) {
			a.want(t, http.StatusCreated, "executed")
		}
		conn := s.postgres()
		if code := s.stop(); code != 0 { // its connections tell what they did
			t.Errorf("the program ended with %d", code)
		}
		var inserted, updated int
		eventually(t, "all writings counted", func() bool {
			err := conn.QueryRow(t.Context(), `SELECT n_tup_ins, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'`).Scan(&inserted, &updated)
			return err == nil && inserted == n && updated == is(s.b, n, 0)
		})
		var options []string
		if err := conn.QueryRow(t.Context(), `SELECT reloptions FROM pg_class WHERE relname = 'idempotency_keys'`).Scan(&options); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(options, " "), "autovacuum_vacuum_") {
			t.Errorf("the table's vacuum is the server's default: %v", options)
		}
		s.restart()
	})
}

// One process in New Zealand, one in New York, on one database that thinks it is
// in Nepal: a record lasts as long as it was told to.
func TestB095ProcessesOfTwoTimeZonesAgree(t *testing.T) {
	for name, retention := range map[string]string{"kept": "5m", "over": "2s"} {
		t.Run(name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, b backend) {
				store := b.flags(t)
				if i := slices.Index(store, "-store") + 1; strings.HasPrefix(store[i], "postgres:") {
					store[i] += "&timezone=Asia/Kathmandu"
				}
				east := startIn(t, []string{"TZ=Pacific/Auckland"}, b, store, "-retention", retention)
				west := startIn(t, []string{"TZ=America/New_York"}, b, b.beside(t, store), "-retention", retention)
				first := east.send(request{key: "e"}).want(t, http.StatusCreated, "executed")
				other := west.send(request{key: "w"}).want(t, http.StatusCreated, "executed")
				if name == "kept" {
					west.send(request{key: "e"}).wantReplayOf(t, first)
					east.send(request{key: "w"}).wantReplayOf(t, other)
					return
				}
				time.Sleep(2500 * time.Millisecond)
				west.send(request{key: "e"}).want(t, http.StatusCreated, "executed")
				east.send(request{key: "w"}).want(t, http.StatusCreated, "executed")
			})
		})
	}
}
