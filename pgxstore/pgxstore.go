// Package pgxstore keeps the records of [onceward.Guard] in PostgreSQL (13 or
// newer), through a pgx pool that may be the application's own.
//
// Any number of processes may share the database. Where the application's own
// data is in it too, [Store.Transact] commits the claim, what the handler writes
// and the stored answer together: the handler gets the transaction from [Tx].
//
// Durability: the server's. A call returns when its transaction has been
// committed, which is on the disk unless the server runs with fsync or
// synchronous_commit off. After a failover to a standby that was not
// synchronous, what it had not received is gone, claims and answers included.
//
// The store keeps no state in a session, so a pooler in transaction mode
// (PgBouncer, Supavisor) may stand between. How statements are sent is the pool's
// setting: behind a pooler that does not know of prepared statements set
// default_query_exec_mode=exec (or simple_protocol) in the pool's connection
// string, and the store follows. Every default_transaction_isolation is fine: the
// store's own transactions are READ COMMITTED, and the work of Transact runs in
// the isolation that the application's transactions have.
//
// Times are measured by the server's clock, whatever the processes' clocks say.
//
// Errors after which the same call is right (40001, 40P01, 40003, a lost
// connection) are answered by repeating it under its token, as long as its context
// allows; where there is no server to connect to, the caller is told at once. If
// the answer to a COMMIT is lost, that is searched for, not guessed.
//
// What Transact covers is this database alone: a mail that the work has sent is not
// undone with it, and work that is undone by another transaction runs again.
// Under REPEATABLE READ and SERIALIZABLE a duplicate that comes at the moment of
// the first one's commit may run its work, find the key taken and be undone; under
// READ COMMITTED the lock keeps it from beginning.
//
// A row has some 400 bytes and the answer's; answers of more than 2 kB lie outside
// the table (TOAST, not compressed). Half of each page is kept free, so that an
// answer is written beside its claim.
//
// Do not use it for a database that is not UTF-8 (New refuses it), nor through a
// pooler in statement mode, where there are no transactions.
package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
)

// ErrClosed is the answer to every call after Close.
var ErrClosed = errors.New("pgxstore: the store is closed")

// Config tunes a Store. The zero value is right for nearly everybody.
type Config struct {
	// Reserve is how many connections the store opens besides the pool's, for
	// what keeps a running handler's claim (Extend, Complete, Release), so that
	// load on the application's pool loses no lease. Zero means 2; negative:
	// none, those calls wait for the pool like all others.
	Reserve int
	// Isolation is how Transact's transactions run. By default they run as the
	// connection's default_transaction_isolation says.
	Isolation pgx.TxIsoLevel
}

// Store implements [onceward.Store], [onceward.Transactor], [onceward.Sweeper],
// [onceward.Looker], [onceward.Lister] and [onceward.Forgetter]. It is safe for
// concurrent use. Close it before the pool.
type Store struct {
	pool    *pgxpool.Pool
	reserve *pgxpool.Pool // nil: there is none
	slots   chan struct{} // as many as reserve has connections
	table   uint32        // the number of idempotency_keys
	begin   string        // how Transact begins
	apart   bool          // Transact looks in a transaction of its own, before it begins
	wrap    bool          // statements need a BEGIN to be READ COMMITTED

	running  running
	answered seen

	mu     sync.Mutex // guards closed, and calls from growing when it is set
	closed bool
	calls  sync.WaitGroup
}

var (
	_ onceward.Store      = (*Store)(nil)
	_ onceward.Transactor = (*Store)(nil)
	_ onceward.KeySweeper = (*Store)(nil)
	_ onceward.Looker     = (*Store)(nil)
	_ onceward.Lister     = (*Store)(nil)
	_ onceward.Forgetter  = (*Store)(nil)
)

// New makes the table idempotency_keys in pool's database, or brings it to the
// form that this version needs; any number of processes may do so at once. The
// table stands in the first schema of the search_path. New fails with
// [ErrNewerSchema] if a newer version of the package has been there. The context
// is for New alone.
func New(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("pgxstore: New needs a pool")
	}
	s := &Store{pool: pool, begin: "BEGIN", running: running{keys: make(map[onceward.Key]int)}}
	var isolation string
	if err := pool.QueryRow(ctx, "SELECT current_setting('default_transaction_isolation')").Scan(&isolation); err != nil {
		return nil, fmt.Errorf("pgxstore: %w", err)
	}
	s.wrap = isolation != string(pgx.ReadCommitted)
	switch cfg.Isolation {
	case "":
	case pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable, pgx.ReadUncommitted:
		isolation = string(cfg.Isolation)
		s.begin = "BEGIN ISOLATION LEVEL " + isolation
	default:
		return nil, fmt.Errorf("pgxstore: Config.Isolation %q is none that PostgreSQL has", cfg.Isolation)
	}
	s.apart = isolation == string(pgx.Serializable)
	if err := migrate(ctx, pool); err != nil {
		return nil, err
	}
	// By its number the locks of two applications with a schema each are apart.
	if err := pool.QueryRow(ctx, "SELECT 'idempotency_keys'::regclass::oid").Scan(&s.table); err != nil {
		return nil, fmt.Errorf("pgxstore: %w", err)
	}
	if cfg.Reserve == 0 {
		cfg.Reserve = 2
	}
	if cfg.Reserve > 0 {
		c := pool.Config()
		c.MaxConns, c.MinConns, c.MinIdleConns = int32(cfg.Reserve), 1, 0
		reserve, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), c)
		if err != nil {
			return nil, fmt.Errorf("pgxstore: the reserve of connections: %w", err)
		}
		if err := reserve.Ping(ctx); err != nil {
			reserve.Close()
			return nil, fmt.Errorf("pgxstore: the reserve of connections: %w", err)
		}
		s.reserve, s.slots = reserve, make(chan struct{}, cfg.Reserve)
	}
	return s, nil
}

// Close refuses new calls, waits for those under way as long as ctx allows, and
// closes the connections that the store opened itself; those of the pool stay.
// Closing again is harmless.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		if s.reserve != nil {
			s.reserve.Close()
		}
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pgxstore: close: %w", context.Cause(ctx))
	}
}

// enter counts a call in; who gets true calls s.calls.Done.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.calls.Add(1)
	return true
}

// acquire gets a connection of the application's pool.
func (s *Store) acquire(ctx context.Context) (conn *pgxpool.Conn, release func(), err error) {
	if conn, err = s.pool.Acquire(ctx); err != nil {
		return nil, nil, err
	}
	return conn, conn.Release, nil
}

// acquireUrgent gets whichever connection comes first: one of the reserve or,
// where that is in use, one of the pool.
func (s *Store) acquireUrgent(ctx context.Context) (conn *pgxpool.Conn, release func(), err error) {
	if s.reserve == nil {
		return s.acquire(ctx)
	}
	select {
	case s.slots <- struct{}{}:
		return s.acquireReserve(ctx)
	default:
	}
	type found struct {
		conn *pgxpool.Conn
		err  error
	}
	// The one who comes second must not keep what he gets.
	waiting, cancel := context.WithCancel(ctx)
	offer := make(chan found)
	go func() {
		conn, err := s.pool.Acquire(waiting)
		select {
		case offer <- found{conn, err}:
		case <-waiting.Done():
			if err == nil {
				conn.Release()
			}
		}
	}()
	defer cancel()
	select {
	case f := <-offer:
		if f.err == nil {
			return f.conn, f.conn.Release, nil
		}
		select { // the pool has none to give; the reserve may
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, f.err
		}
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	cancel()
	return s.acquireReserve(ctx)
}

// acquireReserve is for who has put something into slots.
func (s *Store) acquireReserve(ctx context.Context) (*pgxpool.Conn, func(), error) {
	conn, err := s.reserve.Acquire(ctx)
	if err != nil {
		<-s.slots
		return nil, nil, err
	}
	return conn, func() { conn.Release(); <-s.slots }, nil
}

type acquirer func(context.Context) (*pgxpool.Conn, func(), error)

// call runs f on a connection, again and again where that is the right answer to
// its error: everything that f does is idempotent under one token.
func (s *Store) call(ctx context.Context, what string, acquire acquirer, f func(conn *pgx.Conn) error) error {
	if !s.enter() {
		return ErrClosed
	}
	defer s.calls.Done()
	err := retried(ctx, func() (lost bool, err error) {
		conn, release, err := acquire(ctx)
		if err != nil {
			return false, err
		}
		defer release()
		err = f(conn.Conn())
		return err != nil && conn.Conn().IsClosed(), err
	})
	if err != nil {
		return fmt.Errorf("pgxstore: %s: %w", what, err)
	}
	return nil
}

// ask sends one statement in a transaction of its own that is READ COMMITTED, and
// hands each row to scan. It says how many rows the statement returned or changed.
func (s *Store) ask(ctx context.Context, conn *pgx.Conn, scan func(pgx.Rows) error, sql string, args ...any) (int64, error) {
	if !s.wrap {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return 0, err
		}
		return readAll(rows, scan)
	}
	batch := &pgx.Batch{}
	batch.Queue(beginReadCommitted)
	batch.Queue(sql, args...)
	batch.Queue("COMMIT")
	var n int64
	err := flight(ctx, conn, batch, nil, func(rows pgx.Rows) (err error) { n, err = readAll(rows, scan); return err }, nil)
	return n, err
}

const beginReadCommitted = "BEGIN ISOLATION LEVEL READ COMMITTED"

func readAll(rows pgx.Rows, scan func(pgx.Rows) error) (int64, error) {
	defer rows.Close()
	for scan != nil && rows.Next() {
		if err := scan(rows); err != nil {
			return 0, err
		}
	}
	rows.Close()
	return rows.CommandTag().RowsAffected(), rows.Err()
}

// flight sends all of the batch at once and reads the result of each statement by
// the reader that stands in its place; nil: only whether it succeeded. A statement
// that fails undoes those before it unless they were committed, and those after
// it are not executed.
func flight(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, readers ...func(pgx.Rows) error) (err error) {
	results := conn.SendBatch(ctx, batch)
	defer func() {
		if closeErr := results.Close(); err == nil {
			err = closeErr
		}
	}()
	for _, read := range readers {
		if read == nil {
			if _, err := results.Exec(); err != nil {
				return err
			}
			continue
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if err := read(rows); err != nil {
			return err
		}
	}
	return nil
}

// micros rounds up, so that no lease is shorter than what was asked for.
func micros(d time.Duration) int64 {
	us := d.Microseconds()
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// keepMicros is micros of a Keep, which is for ever if it is negative.
func keepMicros(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return micros(d)
}
