package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

func at(ms int64) sql.NullInt64 { return sql.NullInt64{Int64: ms, Valid: true} }

// The table of transitions for a claim that meets a row, at the moment 1000.
func TestWhatAClaimMakesOfARow(t *testing.T) {
	mine, same, other := onceward.Token{1}, onceward.Fingerprint{Version: 1}, onceward.Fingerprint{Version: 2}
	leased, over := int64(1001), int64(1000)
	for _, c := range []struct {
		name string
		row  row
		tok  onceward.Token
		fp   onceward.Fingerprint
		take bool
		want step
	}{
		{"leased", row{lease: leased}, onceward.Token{2}, same, true, report},
		{"leased, mine", row{lease: leased, token: mine}, mine, same, false, repeat},
		{"leased, another request", row{lease: leased}, onceward.Token{2}, other, true, report},
		{"over", row{lease: over}, onceward.Token{2}, same, true, takeOver},
		{"over, not asked for", row{lease: over}, onceward.Token{2}, same, false, report},
		{"over, mine", row{lease: over, token: mine}, mine, same, true, repeat},
		{"over, another request", row{lease: over}, onceward.Token{2}, other, true, report},
		{"over, mine, another request", row{lease: over, token: mine}, mine, other, true, report},
		{"over, held", row{lease: over, held: true}, onceward.Token{2}, same, true, report},
		{"over, held, mine", row{lease: over, held: true, token: mine}, mine, same, false, repeat},
		{"over, kept a moment longer", row{lease: 0, expires: at(1001)}, onceward.Token{2}, other, false, report},
		{"over, kept long enough", row{lease: 0, expires: at(1000)}, onceward.Token{2}, other, false, restart},
		{"over, kept long enough, mine", row{lease: 0, expires: at(1000), token: mine}, mine, same, false, restart},
		{"completed", row{completed: at(5), expires: at(1001)}, onceward.Token{2}, same, true, report},
		{"completed, mine", row{completed: at(5), expires: at(1001), token: mine}, mine, same, true, report},
		{"completed, another request", row{completed: at(5), expires: at(1001)}, onceward.Token{2}, other, true, report},
		{"retention over", row{completed: at(5), expires: at(1000)}, onceward.Token{2}, other, false, restart},
	} {
		c.row.fingerprint = same
		claim := onceward.Claim{Token: c.tok, Fingerprint: c.fp, TakeOver: c.take}
		if got := c.row.judge(&claim, 1000); got != c.want {
			t.Errorf("%s: step %d, want %d", c.name, got, c.want)
		}
	}
}

func TestWhenARowBecomesAbsent(t *testing.T) {
	for _, c := range []struct {
		name  string
		row   row
		lease time.Duration
		want  sql.NullInt64
	}{
		{"after lease and keep", row{keep: 500}, time.Second, at(2501)},
		{"no lease, no keep", row{}, 0, at(1001)},
		{"lease in the past", row{keep: 500}, -2 * time.Second, at(-499)},
		{"keep for ever", row{keep: -1}, time.Second, sql.NullInt64{}},
		{"held", row{keep: 500, held: true}, time.Second, sql.NullInt64{}},
	} {
		if c.row.setLease(1000, c.lease); c.row.expires != c.want {
			t.Errorf("%s: absent at %v, want %v", c.name, c.row.expires, c.want)
		}
	}
	longest := row{keep: milli(math.MaxInt64)}
	if longest.setLease(nowMilli(), math.MaxInt64); longest.expires.Int64 < nowMilli() {
		t.Error("the longest lease and keep end in the past")
	}
}

func TestMillisecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, -1: 0, -time.Millisecond: -1, time.Hour: 3_600_000,
	} {
		if got := milli(d); got != want {
			t.Errorf("milli(%v) is %d, want %d", d, got, want)
		}
	}
}

type coded int

func (c coded) Error() string { return fmt.Sprintf("code %d", int(c)) }
func (c coded) Code() int     { return int(c) }

func TestWhichErrorsMeanBusy(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{coded(5), true},
		{coded(5 | 2<<8), true}, // SQLITE_BUSY_SNAPSHOT
		{coded(6 | 1<<8), true}, // SQLITE_LOCKED_SHAREDCACHE
		{fmt.Errorf("begin: %w", coded(5)), true},
		{coded(13), false}, // SQLITE_FULL
		{coded(19), false}, // SQLITE_CONSTRAINT
		{errors.New("database is locked"), true},
		{errors.New("sqlite3: database table is locked"), true},
		{context.Canceled, false},
		{sql.ErrConnDone, false},
	} {
		if got := isBusy(c.err); got != c.want {
			t.Errorf("isBusy(%v) is %v", c.err, got)
		}
	}
}

func names(batch []*op) string {
	s := ""
	for _, o := range batch {
		s += fmt.Sprintf("%d:%d ", o.class, o.size)
	}
	return s
}

// The order within a batch: what owners send, then claims, then sweeps, each in
// the order in which it came; what joins a batch in hand takes its class's place.
func TestTheOrderWithinABatch(t *testing.T) {
	w := newWriter(nil, 0, 5)
	put := func(c class, n int) { w.queue[c] = append(w.queue[c], &op{class: c, size: n}) }
	put(sweeps, 1)
	put(claims, 2)
	put(claims, 3)
	put(urgent, 4)
	batch := w.take(nil)
	if got, want := names(batch), "0:4 1:2 1:3 2:1 "; got != want {
		t.Errorf("the batch is %s, want %s", got, want)
	}
	put(claims, 5)
	put(urgent, 6)
	if got, want := names(w.take(batch)), "0:4 0:6 1:2 1:3 2:1 "; got != want {
		t.Errorf("with what joined it is %s, want %s", got, want)
	}
	if got, want := names(w.take(nil)), "1:5 "; got != want {
		t.Errorf("what found no room is %s, want %s", got, want)
	}
}

// A batch of large answers ends early, and one answer of any size goes through.
func TestABatchIsBoundedInBytes(t *testing.T) {
	w := newWriter(nil, 0, 100)
	for range 3 {
		w.queue[urgent] = append(w.queue[urgent], &op{size: maxBatchBytes/2 + 1})
	}
	w.queue[urgent] = append(w.queue[urgent], &op{size: 10 * maxBatchBytes})
	for i := range 4 {
		if batch := w.take(nil); len(batch) != 1 {
			t.Fatalf("batch %d has %d requests, want 1", i, len(batch))
		}
	}
}

func TestSeenKeysAreAHint(t *testing.T) {
	s := new(seen)
	a, b := onceward.NewKey("user", "a"), onceward.NewKey("user", "b")
	if s.has(a) {
		t.Error("a key is seen before it was added")
	}
	s.add(a)
	if !s.has(a) || s.has(b) {
		t.Error("the hint is another key's")
	}
}
