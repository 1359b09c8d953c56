package bench

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// A large table's keys are of so many users. Another tenth of them has expired and
// waits to be swept.
const users = 10_000

// liveKeys is how many live keys a large table has: a million, or what BENCH_KEYS
// says. Ten millions take minutes and about ten gigabytes of the temporary folder.
func liveKeys(b *testing.B) int {
	b.Helper()
	text := os.Getenv("BENCH_KEYS")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		b.Fatalf("BENCH_KEYS is %q, want a number from 1000 on", text)
	}
	return n
}

// scopeOf is what a user's keys have in common.
func scopeOf(user uint32) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint32(nil, user))
}

func newClaim(id uint64) onceward.Claim {
	c := onceward.Claim{
		Fingerprint: onceward.Fingerprint{Version: 1},
		Method:      "POST", Path: "/create-order",
		Lease: 30 * time.Second, Keep: 24 * time.Hour,
	}
	c.Key.Scope = scopeOf(uint32(id*7919) % users)
	c.Key.ID = sha256.Sum256(fmt.Appendf(nil, "new %d", id))
	binary.BigEndian.PutUint64(c.Token[:], id+1)
	return c
}

// oldRow is what all generated records have: a fingerprint and an encoded answer.
func oldRow(b *testing.B) (fingerprint, answer []byte) {
	b.Helper()
	fingerprint, err := newClaim(0).Fingerprint.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	answer, err = (&onceward.Response{
		Status: http.StatusCreated,
		Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/orders/1"}},
		Body:   []byte(`{"id":"1f0e7c1c","item":"notebook","qty":1}` + "\n"),
	}).MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	return fingerprint, answer
}

type sweepingStore interface {
	onceward.Store
	onceward.Sweeper
}

// claims measures new claims in an empty table, in a large one, and in the large
// one while it is swept as a guard sweeps that has fallen behind.
func claims(b *testing.B, empty, large sweepingStore) {
	b.Helper()
	const clients = 4
	claim := func(store onceward.Store) func(id uint64) error {
		return func(id uint64) error {
			_, claimed, err := store.Claim(context.Background(), newClaim(id))
			if err == nil && !claimed {
				err = errors.New("the key is taken")
			}
			return err
		}
	}
	swept := 0
	sides := []*side{
		{name: "empty", request: claim(empty)},
		{name: "large", request: claim(large)},
		{name: "swept", request: claim(large), beside: func(ctx context.Context) error {
			for ctx.Err() == nil {
				n, err := large.Sweep(context.Background(), 500)
				if err != nil {
					return err
				}
				if swept += n; n == 0 {
					return errors.New("nothing is left to be swept")
				}
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
			return nil
		}},
	}
	inTurn(b, clients, sides...)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for _, s := range sides {
		b.ReportMetric(ms(s.quantile(.5)), s.name+"-p50-ms")
		b.ReportMetric(ms(s.quantile(.99)), s.name+"-p99-ms")
		b.ReportMetric(ms(s.quantile(1)), s.name+"-max-ms")
	}
	b.ReportMetric(float64(liveKeys(b)), "keys")
	b.ReportMetric(float64(swept), "swept")
}

func BenchmarkSQLiteLarge(b *testing.B) {
	file := filepath.Join(b.TempDir(), "large.db")
	fillSQLite(b, file)
	// The page cache of the driver is the usual 2 MB: what is read often is in
	// the operating system's.
	claims(b, sqliteStore(b, openSQLite(b, 4)), sqliteStore(b, openSQLiteFile(b, file, 4)))
}

// fillSQLite makes the table as it would have become: the oldest records first,
// which have expired, and the keys in no order.
func fillSQLite(b *testing.B, file string) {
	b.Helper()
	// Nothing of this needs to survive a crash.
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=cache_size(-2000000)&_pragma=temp_store(memory)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(query string, args ...any) {
		b.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(sqlitestore.Schema())
	exec("CREATE TEMP TABLE scopes (n INTEGER PRIMARY KEY, scope BLOB NOT NULL)")
	exec("BEGIN")
	for user := range uint32(users) {
		scope := scopeOf(user)
		exec("INSERT INTO scopes VALUES (?, ?)", user, scope[:])
	}
	fingerprint, answer := oldRow(b)
	live := liveKeys(b)
	day := (24 * time.Hour).Milliseconds()
	now := time.Now().UnixMilli()
	exec(`WITH RECURSIVE
			numbers(i) AS (SELECT -?1/10 + 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ?1),
			-- Expired an hour ago or before, or to expire in an hour or later.
			rows(i, ends) AS (SELECT i, CASE WHEN i <= 0 THEN ?2 - 3600000 + i / 10 ELSE ?2 + 3600000 + i * 82800000 / ?1 END FROM numbers)
		INSERT INTO idempotency_keys (scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, completed_at, status, expires_at, response)
		SELECT (SELECT scope FROM scopes WHERE n = (i + ?1) * 7919 % ?3), randomblob(32), ?4, 'POST', '/create-order', randomblob(16), 1, 0,
			ends - ?6 - 5, ends - ?6 + 30000, ?6, ends - ?6, 201, ends, ?5
		FROM rows`, live, now, users, fingerprint, answer, day)
	exec("COMMIT")
}

func BenchmarkPostgresLarge(b *testing.B) {
	dsn := postgresDSN(b)
	large := pgStore(b, pgPool(b, dsn, 8, nil))
	fillPostgres(b, dsn)
	claims(b, pgStore(b, pgPool(b, postgresDSN(b), 8, nil)), large)
}

// fillPostgres fills the table that the store has made. The indexes are made anew
// afterwards, which is the quickest way to fill them.
func fillPostgres(b *testing.B, dsn string) {
	b.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	exec := func(query string, args ...any) {
		b.Helper()
		if _, err := conn.Exec(ctx, query, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec("SET synchronous_commit = off")
	exec("SET maintenance_work_mem = '512MB'")
	// As the catalog has them, whatever version of the schema this is.
	rows, err := conn.Query(ctx, `SELECT
			coalesce('ALTER TABLE idempotency_keys DROP CONSTRAINT ' || c.conname, 'DROP INDEX ' || i.indexrelid::regclass),
			coalesce('ALTER TABLE idempotency_keys ADD CONSTRAINT ' || c.conname || ' ' || pg_get_constraintdef(c.oid), pg_get_indexdef(i.indexrelid))
		FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid
		WHERE i.indrelid = 'idempotency_keys'::regclass`)
	if err != nil {
		b.Fatal(err)
	}
	type index struct{ Drop, Make string }
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		b.Fatal(err)
	}
	for _, index := range indexes {
		exec(index.Drop)
	}
	fingerprint, answer := oldRow(b)
	exec(`INSERT INTO idempotency_keys (scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, completed_at, status, expires_at, sweep_at, response)
		SELECT sha256(int4send(((i + $1::bigint) * 7919 % $2::bigint)::integer)), sha256(int8send(i)), $3::bytea, 'POST', '/create-order', substring(sha256(int8send(-i)) FROM 1 FOR 16), 1, false,
			ends - interval '1 day 5 ms', ends - interval '1 day' + interval '30 s', 86400000000, ends - interval '1 day', 201, ends, date_trunc('minute', ends), $4::bytea
		FROM (SELECT i, now() + CASE WHEN i <= 0 THEN interval '-1 hour' + i * interval '100 us' ELSE interval '1 hour' + i * (interval '23 hours' / $1::bigint) END AS ends
			FROM generate_series(-$1::bigint / 10 + 1, $1::bigint) AS i) AS of`, int64(liveKeys(b)), int64(users), fingerprint, answer)
	for _, index := range indexes {
		exec(index.Make)
	}
	exec("VACUUM (ANALYZE) idempotency_keys")
	exec("CHECKPOINT")
}
