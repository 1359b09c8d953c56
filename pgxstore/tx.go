package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// ErrTxOver is the answer to every statement on a handle whose work has
	// returned or whose time is over. It wraps pgx.ErrTxClosed.
	ErrTxOver = fmt.Errorf("pgxstore: the work of this transaction is over: %w", pgx.ErrTxClosed)
	// ErrTxNotYours is the answer to a Commit or Rollback of the transaction
	// itself, by method or as a statement: it ends as the work's verdict says.
	ErrTxNotYours = errors.New("pgxstore: this transaction ends by the answer, not by the handler; Begin makes one within it")
	// ErrTxEnded means that the work has ended its transaction past this package
	// (a COMMIT in a text of several statements or in a procedure). What it had
	// written is as that left it, and no answer is kept.
	ErrTxEnded = errors.New("pgxstore: the work has ended its transaction by itself")
)

type txKey struct{}

// Tx returns the transaction in which [Store.Transact] has called the work that
// has this context; nil if there is none.
//
// As with every pgx.Tx one statement runs at a time, and a second one fails. Begin
// makes a savepoint, of which Commit and Rollback are the caller's; Commit and
// Rollback of the transaction itself, by method or as a statement, are refused
// with [ErrTxNotYours]. After the work has returned every call is refused with
// [ErrTxOver]. Conn returns nil and LargeObjects an unusable value, because
// either would lead past that.
func Tx(ctx context.Context) pgx.Tx {
	if t, ok := ctx.Value(txKey{}).(*tx); ok {
		return t
	}
	return nil
}

// handle is one transaction on a borrowed connection, which is touched under mu
// alone: the work may have left goroutines behind.
type handle struct {
	pool    *pgxpool.Pool
	mu      sync.Mutex
	conn    *pgx.Conn
	release func()     // nil: the connection has been given back
	over    error      // why statements are refused
	open    func()     // closes rows or a batch that are being read
	ended   bool       // the transaction was ended by a statement of the work
	failed  error      // the first error that a statement had
	retry   error      // the first error after which the server asks to try again
	cut     bool       // a statement's own context ended, which costs the connection
	broken  bool       // a statement panicked, which costs it too
	scopes  [][32]byte // whose records this transaction has deleted
	points  int
}

var (
	errBusy   = errors.New("pgxstore: another statement of this transaction is under way")
	errBroken = fmt.Errorf("pgxstore: a statement of this transaction panicked, which has undone it: %w", pgx.ErrTxClosed)
)

// enter gives the connection to the caller, who calls leave, or says why not. It
// does not wait for another statement, as little as pgx does: who calls from
// within one would wait for himself.
func (h *handle) enter() error {
	if !h.mu.TryLock() {
		return errBusy
	}
	if h.over != nil {
		defer h.mu.Unlock()
		return h.over
	}
	return nil
}

// note remembers what a statement's error says about the transaction.
func (h *handle) note(err error) {
	if h.failed == nil && code(err) != "" {
		h.failed = err
	}
	if h.retry == nil && undone(err) {
		h.retry = err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		h.cut = true
	}
}

// forgot notes that a scope's records are deleted, the one among them that was seen
// before the work.
func (h *handle) forgot(scope [32]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scopes = append(h.scopes, scope)
}

// leave is called when a statement has ended, with its error.
func (h *handle) leave(err error) {
	h.note(err)
	if h.conn.PgConn().TxStatus() == 'I' && h.over == nil {
		h.ended, h.over = true, ErrTxEnded
	}
	h.mu.Unlock()
}

// call runs a statement, and in it code of the application's: a Valuer, a Scanner,
// a callback of a batch. If that panics, or ends its goroutine, pgx may hold the
// connection half used, so that goes, and the transaction with it. The caller
// defers his leave.
func (h *handle) call(statement func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		h.broken, h.cut = true, true
		if h.over == nil {
			h.over = errBroken
		}
		h.open = nil
		h.hangUp()
	}()
	statement()
	returned = true
}

// hangUp closes the connection, past pgx, which does not wait for the server to do
// so too: only then the key is free, which whoever sees the panic expects.
func (h *handle) hangUp() {
	conn := h.conn.PgConn().Conn()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte{'X', 0, 0, 0, 4}); err == nil { // Terminate
		_, _ = io.Copy(io.Discard, conn)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.conn.Close(ctx)
}

// stop refuses further statements, and waits for the one that is under way. Then
// the connection is the caller's alone.
func (h *handle) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.halt()
}

func (h *handle) halt() {
	if h.over == nil {
		h.over = ErrTxOver
	}
	if open := h.open; open != nil {
		h.open = nil
		h.shut(open)
	}
}

// shut closes what is being read. That runs the callbacks of a batch, maybe on the
// alarm's goroutine, where a panic would end the process.
func (h *handle) shut(open func()) {
	defer func() { _ = recover() }() // call has noted it
	h.call(open)
}

// expire ends the transaction because its time is over, even if a statement is
// under way or the work does not obey its context.
func (h *handle) expire() {
	if !h.mu.TryLock() {
		_ = h.conn.PgConn().Conn().SetDeadline(time.Unix(1, 0))
		h.mu.Lock()
	}
	defer h.mu.Unlock()
	if h.over == nil {
		h.over = ErrTxOver
	}
	if h.open != nil && h.release != nil {
		// What is being read may be long: the connection goes, not the time.
		_ = h.conn.PgConn().Conn().SetDeadline(time.Unix(1, 0))
	}
	h.halt()
	h.giveBack()
}

// end rolls back what has not been committed and gives the connection back.
func (h *handle) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.halt()
	h.giveBack()
}

func (h *handle) giveBack() {
	if h.release == nil {
		return
	}
	rollback(h.conn)
	h.release()
	h.release = nil
}

// rollback ends conn's transaction, if it is in one. Where that fails the pool
// throws the connection away, and the server ends the transaction.
func rollback(conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	// Not the work's context: that may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}

// tx is the transaction, or a savepoint in it.
type tx struct {
	h      *handle
	point  string // the savepoint's name; "": the transaction itself
	closed bool   // guarded by h.mu
}

func (t *tx) enter() error {
	if err := t.h.enter(); err != nil {
		return err
	}
	if t.closed {
		t.h.mu.Unlock()
		return pgx.ErrTxClosed
	}
	return nil
}

// enterFor is enter for a statement, which must not end the transaction.
func (t *tx) enterFor(sql string) error {
	if endsTransaction(sql) {
		return ErrTxNotYours
	}
	return t.enter()
}

// control sends text that may be several statements, as it is.
func (t *tx) control(ctx context.Context, text string) (err error) {
	t.h.call(func() { _, err = t.h.conn.PgConn().Exec(ctx, text).ReadAll() })
	return err
}

// Begin implements [pgx.Tx] by a savepoint.
func (t *tx) Begin(ctx context.Context) (_ pgx.Tx, err error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer func() { t.h.leave(err) }()
	t.h.points++
	point := fmt.Sprintf("onceward_%d", t.h.points)
	if err := t.control(ctx, "SAVEPOINT "+point); err != nil {
		return nil, err
	}
	return &tx{h: t.h, point: point}, nil
}

func (t *tx) Commit(ctx context.Context) error {
	return t.finish(ctx, "RELEASE SAVEPOINT "+t.point)
}

func (t *tx) Rollback(ctx context.Context) error {
	return t.finish(ctx, "ROLLBACK TO SAVEPOINT "+t.point+"; RELEASE SAVEPOINT "+t.point)
}

func (t *tx) finish(ctx context.Context, text string) (err error) {
	if t.point == "" {
		return ErrTxNotYours
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer func() { t.h.leave(err) }()
	if err := t.control(ctx, text); err != nil {
		return err // still open, so that a deferred Rollback can help
	}
	t.closed = true
	return nil
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	if err := t.enterFor(sql); err != nil {
		return tag, err
	}
	defer func() { t.h.leave(err) }()
	t.h.call(func() { tag, err = t.h.conn.Exec(ctx, sql, args...) })
	return tag, err
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (_ pgx.Rows, err error) {
	if err := t.enterFor(sql); err != nil {
		return noRows{err}, err
	}
	defer func() { t.h.leave(err) }()
	var inner pgx.Rows
	t.h.call(func() { inner, err = t.h.conn.Query(ctx, sql, args...) })
	if err != nil {
		return noRows{err}, err
	}
	t.h.open = inner.Close
	return &rows{h: t.h, Rows: inner}, nil
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	r, err := t.Query(ctx, sql, args...)
	return queryRow{r, err}
}

func (t *tx) CopyFrom(ctx context.Context, table pgx.Identifier, names []string, from pgx.CopyFromSource) (n int64, err error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer func() { t.h.leave(err) }()
	t.h.call(func() { n, err = t.h.conn.CopyFrom(ctx, table, names, from) })
	return n, err
}

func (t *tx) Prepare(ctx context.Context, name, sql string) (sd *pgconn.StatementDescription, err error) {
	if err := t.enterFor(sql); err != nil {
		return nil, err
	}
	defer func() { t.h.leave(err) }()
	t.h.call(func() { sd, err = t.h.conn.Prepare(ctx, name, sql) })
	return sd, err
}

func (t *tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		if endsTransaction(q.SQL) {
			return noResults{ErrTxNotYours}
		}
	}
	if err := t.enter(); err != nil {
		return noResults{err}
	}
	defer t.h.leave(nil)
	var inner pgx.BatchResults
	t.h.call(func() { inner = t.h.conn.SendBatch(ctx, b) })
	t.h.open = func() { inner.Close() }
	return &results{h: t.h, inner: inner}
}

func (t *tx) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }

func (t *tx) Conn() *pgx.Conn { return nil }

// endsTransaction sees what a handler would write by habit. What it does not see
// is found when the work has returned.
func endsTransaction(sql string) bool {
	first, rest := word(sql)
	switch first {
	case "commit", "end", "abort":
		return true
	case "prepare":
		second, _ := word(rest)
		return second == "transaction"
	case "rollback":
		second, rest := word(rest)
		if second == "work" || second == "transaction" {
			second, _ = word(rest)
		}
		return second != "to"
	}
	return false
}

func word(s string) (first, rest string) {
	s = strings.TrimLeft(s, " \t\r\n;")
	n := strings.IndexFunc(s, func(r rune) bool { return r == ';' || r == '-' || r == '/' || r <= ' ' })
	if n < 0 {
		n = len(s)
	}
	if n > len("transaction") {
		return "", ""
	}
	return strings.ToLower(s[:n]), s[n:]
}
