//go:build linux

package sweep

import (
	"context"
	"database/sql"
	"database/sql/driver"

	_ "modernc.org/sqlite"
)

// openAimed opens a pool on a SQLite file whose every statement is counted by a,
// beginnings and ends of transactions included.
func openAimed(dsn string, a *aim) (*sql.DB, error) {
	probe, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	defer probe.Close()
	return sql.OpenDB(aimedConnector{probe.Driver(), dsn, a}), nil
}

type aimedConnector struct {
	driver driver.Driver
	dsn    string
	aim    *aim
}

func (c aimedConnector) Driver() driver.Driver { return c.driver }

func (c aimedConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &aimedConn{conn, c.aim}, nil
}

type aimedConn struct {
	driver.Conn
	aim *aim
}

func (c *aimedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	err = c.aim.statement(func() (err error) {
		res, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *aimedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.aim.statement(func() (err error) {
		rows, err = c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
		return err
	})
	return rows, err
}

func (c *aimedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &aimedStmt{stmt, c.aim}, nil
}

func (c *aimedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.aim.statement(func() (err error) {
		tx, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &aimedTx{tx, c.aim}, nil
}

type aimedStmt struct {
	driver.Stmt
	aim *aim
}

func (s *aimedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	err = s.aim.statement(func() (err error) {
		res, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s *aimedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = s.aim.statement(func() (err error) {
		rows, err = s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
		return err
	})
	return rows, err
}

type aimedTx struct {
	tx  driver.Tx
	aim *aim
}

func (t *aimedTx) Commit() error   { return t.aim.statement(t.tx.Commit) }
func (t *aimedTx) Rollback() error { return t.aim.statement(t.tx.Rollback) }
