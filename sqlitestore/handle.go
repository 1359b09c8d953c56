package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// handles makes the *sql.Tx of works. Each has a connection of its own, which
// lives as long as one turn and is a view of the batch's.
func handles() *sql.DB {
	db := sql.OpenDB(connector{})
	db.SetMaxIdleConns(-1)
	return db
}

// connector implements [driver.Connector]. Whose connection it is stands in the
// context that the *sql.Tx is begun with.
type connector struct{}

func (connector) Driver() driver.Driver { return connector{} }

func (connector) Open(string) (driver.Conn, error) {
	return nil, errors.New("sqlitestore: a handle is made by the store alone")
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	t := turnOf(ctx)
	if t == nil {
		return c.Open("")
	}
	return &handle{t}, nil
}

// handle implements [driver.Conn] for one turn, with the powers that database/sql
// looks for; where the raw connection lacks one it is told so with ErrSkip.
type handle struct{ t *turn }

func (h *handle) Close() error              { return nil }
func (h *handle) Begin() (driver.Tx, error) { return handleTx{h.t}, nil }

// BeginTx is called once for each handle. The savepoint is the store's.
func (h *handle) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return handleTx{h.t}, nil
}

func (h *handle) Prepare(query string) (driver.Stmt, error) {
	return h.PrepareContext(background, query)
}

func (h *handle) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if endsTransaction(query) {
		return nil, ErrShared
	}
	s := &stmt{t: h.t, several: isSeveral(query)}
	err := h.t.use(ctx, false, func(ctx context.Context) (err error) {
		if s.Stmt, err = rawPrepare(ctx, h.t.raw, query); err == nil {
			h.t.stmts = add(h.t.stmts, s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (h *handle) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	e, ok := h.t.raw.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if endsTransaction(query) {
		return nil, ErrShared
	}
	err = h.t.use(ctx, isSeveral(query), func(ctx context.Context) (err error) {
		res, err = e.ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (h *handle) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := h.t.raw.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if endsTransaction(query) {
		return nil, ErrShared
	}
	return h.t.query(ctx, isSeveral(query), func(ctx context.Context) (driver.Rows, error) {
		return q.QueryContext(ctx, query, args)
	})
}

func (h *handle) CheckNamedValue(v *driver.NamedValue) error { return h.t.checkNamedValue(h.t.raw, v) }

// checkNamedValue converts an argument to the end, as database/sql would do after
// ErrSkip: that runs a Valuer's code, and database/sql holds a lock of the *sql.Tx
// for ever where that panics in a query. So the panic waits until the work has
// returned; until then it is an error.
func (t *turn) checkNamedValue(by any, v *driver.NamedValue) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sqlitestore: panic in the value of argument %d, a %T: %v", v.Ordinal, v.Value, p)
			t.panicked.CompareAndSwap(nil, &p)
		}
	}()
	if c, ok := by.(driver.NamedValueChecker); ok {
		if err := c.CheckNamedValue(v); err != driver.ErrSkip {
			return err
		}
	}
	value, err := driver.DefaultParameterConverter.ConvertValue(v.Value)
	if err == nil {
		v.Value = value
	}
	return err
}

// handleTx ends a handle, never the transaction. What the work did until then
// stands until its verdict, unless it was rolled back.
type handleTx struct{ t *turn }

func (x handleTx) Commit() error {
	return x.t.use(background, false, func(context.Context) error { return nil })
}

func (x handleTx) Rollback() error {
	t := x.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil || t.lost {
		return nil // the store has seen to it
	}
	return rawExec(t.raw, "ROLLBACK TO "+savepoint)
}

// stmt is a prepared statement of a turn.
type stmt struct {
	driver.Stmt
	t       *turn
	several bool
}

func (s *stmt) Close() error {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if _, open := s.t.stmts[s]; !open || s.t.over != nil {
		return nil
	}
	delete(s.t.stmts, s)
	return s.Stmt.Close()
}

func (s *stmt) NumInput() int {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.over != nil {
		return -1 // let the call find out by itself
	}
	return s.Stmt.NumInput()
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	err = s.t.use(ctx, s.several, func(ctx context.Context) (err error) {
		res, err = rawStmtExec(ctx, s.Stmt, args)
		return err
	})
	return res, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.t.query(ctx, s.several, func(ctx context.Context) (driver.Rows, error) {
		return rawStmtQuery(ctx, s.Stmt, args)
	})
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if _, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return s.t.checkNamedValue(s.Stmt, v)
	}
	return s.t.checkNamedValue(s.t.raw, v)
}

func (t *turn) query(ctx context.Context, several bool, call func(context.Context) (driver.Rows, error)) (driver.Rows, error) {
	r := &rows{t: t}
	err := t.use(ctx, several, func(ctx context.Context) (err error) {
		if r.Rows, err = call(ctx); err == nil {
			t.rows = add(t.rows, r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// rows are the rows of a turn, with what database/sql asks of a driver's; where
// the driver does not know, they say what database/sql assumes then.
type rows struct {
	driver.Rows
	t *turn
}

func (r *rows) Close() error {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	if _, open := r.t.rows[r]; !open || r.t.over != nil {
		return nil
	}
	delete(r.t.rows, r)
	return r.Rows.Close()
}

// Next goes on where a statement has begun, so the work's time does not matter;
// an error in it may have ended the transaction.
func (r *rows) Next(dest []driver.Value) error {
	return r.step(func() error { return r.Rows.Next(dest) })
}

func (r *rows) step(next func() error) error {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	if r.t.over != nil {
		return r.t.over
	}
	err := next()
	if err != nil && err != io.EOF {
		r.t.probe(err)
	}
	return err
}

func (r *rows) Columns() (names []string) {
	r.ask(func() { names = r.Rows.Columns() })
	return names
}

func (r *rows) HasNextResultSet() (has bool) {
	r.ask(func() {
		if n, ok := r.Rows.(driver.RowsNextResultSet); ok {
			has = n.HasNextResultSet()
		}
	})
	return has
}

func (r *rows) NextResultSet() error {
	if n, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return r.step(n.NextResultSet)
	}
	return io.EOF
}

// ask calls f if the turn still has the connection.
func (r *rows) ask(f func()) {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	if r.t.over == nil {
		f()
	}
}

func (r *rows) ColumnTypeScanType(i int) (t reflect.Type) {
	t = reflect.TypeFor[any]()
	r.ask(func() {
		if c, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
			t = c.ColumnTypeScanType(i)
		}
	})
	return t
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) (name string) {
	r.ask(func() {
		if c, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
			name = c.ColumnTypeDatabaseTypeName(i)
		}
	})
	return name
}

func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	r.ask(func() {
		if c, has := r.Rows.(driver.RowsColumnTypeLength); has {
			length, ok = c.ColumnTypeLength(i)
		}
	})
	return length, ok
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	r.ask(func() {
		if c, has := r.Rows.(driver.RowsColumnTypeNullable); has {
			nullable, ok = c.ColumnTypeNullable(i)
		}
	})
	return nullable, ok
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	r.ask(func() {
		if c, has := r.Rows.(driver.RowsColumnTypePrecisionScale); has {
			precision, scale, ok = c.ColumnTypePrecisionScale(i)
		}
	})
	return precision, scale, ok
}

func add[T comparable](set map[T]struct{}, x T) map[T]struct{} {
	if set == nil {
		set = make(map[T]struct{}, 1)
	}
	set[x] = struct{}{}
	return set
}

// endsTransaction says whether a statement would begin or end everybody's
// transaction. It looks at the beginning of the text: a second statement behind a
// semicolon is found out by its effect (turn.probe).
func endsTransaction(query string) bool {
	word, rest := firstWord(query)
	switch word {
	case "BEGIN", "COMMIT", "END":
		return true
	case "ROLLBACK":
		if word, rest = firstWord(rest); word == "TRANSACTION" {
			word, _ = firstWord(rest)
		}
		return word != "TO"
	}
	return false
}

// firstWord returns the first word of a SQL text in upper case, and what follows.
func firstWord(query string) (word, rest string) {
	for {
		query = strings.TrimLeft(query, " \t\r\n\f;\ufeff")
		var end string
		switch {
		case strings.HasPrefix(query, "--"):
			end = "\n"
		case strings.HasPrefix(query, "/*"):
			end = "*/"
		default:
			n := 0
			for n < len(query) && (query[n]|0x20 >= 'a' && query[n]|0x20 <= 'z' || query[n] == '_' || query[n] >= '0' && query[n] <= '9') {
				n++
			}
			return strings.ToUpper(query[:n]), query[n:]
		}
		_, query, _ = strings.Cut(query[2:], end)
	}
}

// isSeveral says whether a SQL text may hold more than one statement. A semicolon
// inside a string literal is taken for one: it costs a probe.
func isSeveral(query string) bool {
	i := strings.IndexByte(query, ';')
	return i >= 0 && strings.Trim(query[i:], " \t\r\n;") != ""
}
