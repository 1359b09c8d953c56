package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward"
)

// The table of transitions for a claim that meets a row.
func TestWhatAClaimMakesOfARow(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(d time.Duration) *time.Time { t := now.Add(d); return &t }
	leased, over := now.Add(1), now
	mine, same, other := onceward.Token{1}, onceward.Fingerprint{Version: 1}, onceward.Fingerprint{Version: 2}
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
		{"over, kept a moment longer", row{lease: over, expires: at(1)}, onceward.Token{2}, other, false, report},
		{"over, kept long enough", row{lease: over, expires: at(0)}, onceward.Token{2}, other, false, restart},
		{"over, kept long enough, mine", row{lease: over, expires: at(0), token: mine}, mine, same, false, restart},
		{"completed", row{completed: at(-5), expires: at(1)}, onceward.Token{2}, same, true, report},
		{"completed, mine", row{completed: at(-5), expires: at(1), token: mine}, mine, same, true, report},
		{"completed, another request", row{completed: at(-5), expires: at(1)}, onceward.Token{2}, other, true, report},
		{"completed for ever", row{completed: at(-5)}, onceward.Token{2}, same, true, report},
		{"retention over", row{completed: at(-5), expires: at(0)}, onceward.Token{2}, other, false, restart},
	} {
		c.row.now, c.row.fingerprint = now, same
		claim := onceward.Claim{Token: c.tok, Fingerprint: c.fp, TakeOver: c.take}
		if got := c.row.judge(&claim); got != c.want {
			t.Errorf("%s: step %d, want %d", c.name, got, c.want)
		}
	}
}

func TestMicrosecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, -1: 0, -time.Microsecond: -1, time.Hour: 3_600_000_000,
		math.MaxInt64: math.MaxInt64/1000 + 1,
	} {
		if got := micros(d); got != want {
			t.Errorf("micros(%v) is %d, want %d", d, got, want)
		}
	}
	if keepMicros(-1) >= 0 || keepMicros(0) != 0 {
		t.Error("a negative Keep is not for ever, or zero is")
	}
}

func TestWhichErrorsAreRepeated(t *testing.T) {
	pg := func(code string) error { return fmt.Errorf("claim: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		err  error
		lost bool
		want bool
	}{
		{pg("40001"), false, true},
		{pg("40P01"), false, true},
		{pg("40003"), false, true},
		{pg("57P01"), true, true},
		{io.ErrUnexpectedEOF, true, true},
		{io.ErrUnexpectedEOF, false, false},
		{pg("23505"), false, false},
		{pg("42P01"), false, false},
		{pg("57014"), false, false}, // a statement timeout
		{onceward.ErrClaimLost, false, false},
		{&pgconn.ConnectError{Config: &pgconn.Config{}}, false, false},
	} {
		if got := repeatable(c.err, c.lost); got != c.want {
			t.Errorf("repeatable(%v, %v) is %v", c.err, c.lost, got)
		}
	}
}

func TestRepeatingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failure := &pgconn.PgError{Code: "40001"}
	tries := 0
	err := retried(ctx, func() (bool, error) {
		if tries++; tries == 3 {
			cancel()
		}
		return false, failure
	})
	if !errors.Is(err, failure) || tries != 3 {
		t.Errorf("%d tries, error %v", tries, err)
	}
}

func TestWhatEndsATransactionIsSeen(t *testing.T) {
	for sql, want := range map[string]bool{
		"COMMIT": true, "commit;": true, "\t\n COMMIT": true, ";;end": true, "ABORT": true, "rollback": true, "ROLLBACK WORK": true,
		"rollback transaction;": true, "ROLLBACK AND CHAIN": true, "COMMIT PREPARED 'x'": true, "ROLLBACK PREPARED 'x'": true,
		"PREPARE TRANSACTION 'x'": true, "commit/*": true, "COMMIT--": true,
		"ROLLBACK TO a": false, "rollback work to savepoint a": false, "ROLLBACK TRANSACTION TO a": false,
		"PREPARE x AS SELECT 1": false, "SELECT 'COMMIT'": false, "SAVEPOINT a": false, "": false, "ending": false,
		"commitment": false, "RELEASE a": false, "rollback_log": false,
	} {
		if got := endsTransaction(sql); got != want {
			t.Errorf("endsTransaction(%q) is %v", sql, got)
		}
	}
}

func TestLockNamesTellKeysAndTablesApart(t *testing.T) {
	seen := map[int64]string{}
	for _, table := range []uint32{0, 16384, 16385} {
		for _, scope := range []string{"a", "b", ""} {
			for _, key := range []string{"a", "b", ""} {
				id := lockID(table, onceward.NewKey(scope, key))
				if other, there := seen[id]; there {
					t.Errorf("%d/%q/%q has the lock of %s", table, scope, key, other)
				}
				seen[id] = fmt.Sprintf("%d/%q/%q", table, scope, key)
			}
		}
	}
}
