package pgxstore

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are the rows of a query that are read under the handle's lock.
type rows struct {
	h *handle
	pgx.Rows
	part bool // of a batch, which goes on after them
	done bool
}

// leave notes the end of the rows, and with it whether they failed.
func (r *rows) leave(end bool) {
	if !end || r.done {
		r.h.mu.Unlock()
		return
	}
	r.done = true
	if r.part {
		r.h.note(r.Rows.Err())
		r.h.mu.Unlock()
		return
	}
	r.h.open = nil
	r.h.leave(r.Rows.Err())
}

func (r *rows) Close() {
	if r.h.enter() == nil {
		defer r.leave(true)
		r.h.call(r.Rows.Close)
	}
}

func (r *rows) Next() (more bool) {
	if r.h.enter() != nil {
		return false
	}
	defer func() { r.leave(!more) }()
	r.h.call(func() { more = r.Rows.Next() })
	return more
}

func (r *rows) Err() error {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if err := r.Rows.Err(); err != nil || r.done {
		return err
	}
	return r.h.over
}

func (r *rows) CommandTag() (tag pgconn.CommandTag) {
	if r.h.enter() != nil {
		return tag
	}
	defer r.leave(false)
	return r.Rows.CommandTag()
}

func (r *rows) FieldDescriptions() []pgconn.FieldDescription {
	if r.h.enter() != nil {
		return nil
	}
	defer r.leave(false)
	return r.Rows.FieldDescriptions()
}

func (r *rows) Scan(dest ...any) (err error) {
	if err := r.h.enter(); err != nil {
		return err
	}
	defer func() { r.leave(err != nil) }()
	r.h.call(func() { err = r.Rows.Scan(dest...) })
	return err
}

func (r *rows) Values() (values []any, err error) {
	if err := r.h.enter(); err != nil {
		return nil, err
	}
	defer func() { r.leave(err != nil) }()
	r.h.call(func() { values, err = r.Rows.Values() })
	return values, err
}

func (r *rows) RawValues() [][]byte {
	if r.h.enter() != nil {
		return nil
	}
	defer r.leave(false)
	return r.Rows.RawValues()
}

func (r *rows) Conn() *pgx.Conn { return nil }

// queryRow is the first of the rows.
type queryRow struct {
	rows pgx.Rows
	err  error
}

func (r queryRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// results are a batch's, read under the handle's lock.
type results struct {
	h     *handle
	inner pgx.BatchResults
}

func (r *results) Exec() (tag pgconn.CommandTag, err error) {
	if err := r.h.enter(); err != nil {
		return tag, err
	}
	defer r.h.mu.Unlock()
	r.h.call(func() { tag, err = r.inner.Exec() })
	r.h.note(err)
	return tag, err
}

func (r *results) Query() (_ pgx.Rows, err error) {
	if err := r.h.enter(); err != nil {
		return noRows{err}, err
	}
	defer r.h.mu.Unlock()
	var inner pgx.Rows
	r.h.call(func() { inner, err = r.inner.Query() })
	r.h.note(err)
	if err != nil {
		return noRows{err}, err
	}
	return &rows{h: r.h, Rows: inner, part: true}, nil
}

func (r *results) QueryRow() pgx.Row {
	rows, err := r.Query()
	return queryRow{rows, err}
}

func (r *results) Close() (err error) {
	if err := r.h.enter(); err != nil {
		return err
	}
	defer func() { r.h.leave(err) }()
	r.h.call(func() { err = r.inner.Close() })
	r.h.open = nil
	return err
}

func (r *results) Tx() pgx.Tx { return nil }

// noRows and noResults are what a refused call returns.
type noRows struct{ err error }

func (noRows) Close()                                       {}
func (r noRows) Err() error                                 { return r.err }
func (noRows) CommandTag() (tag pgconn.CommandTag)          { return tag }
func (noRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (noRows) Next() bool                                   { return false }
func (r noRows) Scan(...any) error                          { return r.err }
func (r noRows) Values() ([]any, error)                     { return nil, r.err }
func (noRows) RawValues() [][]byte                          { return nil }
func (noRows) Conn() *pgx.Conn                              { return nil }
func (noRows) TypeMap() *pgtype.Map                         { return nil }

type noResults struct{ err error }

func (r noResults) Exec() (tag pgconn.CommandTag, err error) { return tag, r.err }
func (r noResults) Query() (pgx.Rows, error)                 { return noRows(r), r.err }
func (r noResults) QueryRow() pgx.Row                        { return queryRow{nil, r.err} }
func (r noResults) Close() error                             { return r.err }
func (noResults) Tx() pgx.Tx                                 { return nil }
