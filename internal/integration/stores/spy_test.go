package stores_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// spy stands between database/sql and the real driver: it writes down every
// statement that is executed, and may hold one up or refuse it.
type spy struct {
	open       atomic.Int64 // statements prepared and not closed
	mu         sync.Mutex
	statements []string
	before     func(statement string) error // called without the lock; nil: nothing
	after      func(statement string) error // the same, when it has been done
}

func (s *spy) sees(statement string) error {
	s.mu.Lock()
	s.statements = append(s.statements, statement)
	before := s.before
	s.mu.Unlock()
	if before != nil {
		return before(statement)
	}
	return nil
}

// done turns a success into an error, if after says so.
func (s *spy) done(statement string, err error) error {
	s.mu.Lock()
	after := s.after
	s.mu.Unlock()
	if err == nil && after != nil {
		return after(statement)
	}
	return err
}

// gave is done for a query.
func (s *spy) gave(statement string, rows driver.Rows, err error) (driver.Rows, error) {
	if lost := s.done(statement, err); err == nil && lost != nil {
		rows.Close()
		return nil, lost
	}
	return rows, err
}

// lose makes the spy lose what the database says to a statement that it has done.
func (s *spy) lose(after func(statement string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = after
}

func (s *spy) meet(before func(statement string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

// count says how many statements began with prefix since the last forget.
func (s *spy) count(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, statement := range s.statements {
		if strings.HasPrefix(statement, prefix) {
			n++
		}
	}
	return n
}

func (s *spy) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statements = nil
}

// openSpied opens a pool on file through a spy.
func openSpied(t testing.TB, file string) (*sql.DB, *spy) {
	t.Helper()
	s := &spy{}
	real := openPool(t, file).Driver()
	db := sql.OpenDB(spyConnector{real, "file:" + file, s})
	t.Cleanup(func() { db.Close() })
	return db, s
}

type spyConnector struct {
	driver driver.Driver
	dsn    string
	spy    *spy
}

func (c spyConnector) Driver() driver.Driver { return c.driver }

func (c spyConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &spyConn{conn, c.spy}, nil
}

type spyConn struct {
	driver.Conn
	spy *spy
}

func (c *spyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.spy.sees(query); err != nil {
		return nil, err
	}
	res, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	return res, c.spy.done(query, err)
}

func (c *spyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.spy.sees(query); err != nil {
		return nil, err
	}
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	return c.spy.gave(query, rows, err)
}

func (c *spyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.spy.open.Add(1)
	return &spyStmt{stmt, c.spy, query}, nil
}

type spyStmt struct {
	driver.Stmt
	spy   *spy
	query string
}

func (s *spyStmt) Close() error {
	s.spy.open.Add(-1)
	return s.Stmt.Close()
}

func (s *spyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.spy.sees(s.query); err != nil {
		return nil, err
	}
	res, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	return res, s.spy.done(s.query, err)
}

func (s *spyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.spy.sees(s.query); err != nil {
		return nil, err
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	return s.spy.gave(s.query, rows, err)
}

// gate holds up the first statement with a prefix until it is opened.
type gate struct {
	reached, open chan struct{}
}

// hold makes the spy stop at the next statement that begins with prefix.
func (s *spy) hold(prefix string) *gate {
	g := &gate{make(chan struct{}), make(chan struct{})}
	var once sync.Once
	s.meet(func(statement string) error {
		if strings.HasPrefix(statement, prefix) {
			once.Do(func() {
				close(g.reached)
				<-g.open
			})
		}
		return nil
	})
	return g
}

// waitUntilQueued returns when n callers wait for the store's writer.
func waitUntilQueued(t testing.TB, n int) {
	t.Helper()
	buf := make([]byte, 4<<20)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		stacks := string(buf[:runtime.Stack(buf, true)])
		waiting := 0
		for _, stack := range strings.Split(stacks, "\n\n") {
			if strings.Contains(stack, "sqlitestore.(*writer).do(") && strings.Contains(stack, "[select") {
				waiting++
			}
		}
		if waiting >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d callers wait for the writer, want %d", waiting, n)
		}
	}
}
