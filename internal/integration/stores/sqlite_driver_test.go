package stores_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// plainConnector makes connections that can do nothing but what every driver must:
// no contexts, no direct queries, no named arguments.
type plainConnector struct {
	driver driver.Driver
	dsn    string
}

func (c plainConnector) Driver() driver.Driver { return c.driver }

func (c plainConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return plainConn{conn}, nil
}

type plainConn struct{ driver.Conn }

func (c plainConn) Prepare(query string) (driver.Stmt, error) {
	stmt, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return plainStmt{stmt}, nil
}

// plainStmt and plainRows hide what else the real ones can.
type plainStmt struct{ driver.Stmt }

func (s plainStmt) Query(args []driver.Value) (driver.Rows, error) {
	//lint:ignore SA1019 the point of it
	rows, err := s.Stmt.Query(args)
	if err != nil {
		return nil, err
	}
	return plainRows{rows}, nil
}

type plainRows struct{ driver.Rows }

// The contract through a driver that has none of the newer interfaces.
func TestSQLiteKeepsTheContractWithThePlainestDriver(t *testing.T) {
	sqliteContract(t, true, func(t testing.TB, file string) (powers, *sql.DB) {
		db := sql.OpenDB(plainConnector{openPool(t, file).Driver(), "file:" + file})
		t.Cleanup(func() { db.Close() })
		return openStore(t, db, sqlitestore.Config{}), db
	})
}

// A type of the application that only its driver understands.
type celsius int

type checkedConnector struct{ plainConnector }

func (c checkedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.plainConnector.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return checkedConn{conn}, nil
}

type checkedConn struct{ driver.Conn }

func (checkedConn) CheckNamedValue(v *driver.NamedValue) error {
	if c, ok := v.Value.(celsius); ok {
		v.Value = fmt.Sprintf("%d °C", c)
		return nil
	}
	return driver.ErrSkip
}

// What a driver makes of an argument it makes inside a work too.
func TestADriversOwnTypesReachIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	db := sql.OpenDB(checkedConnector{plainConnector{openPool(t, file).Driver(), "file:" + file}})
	t.Cleanup(func() { db.Close() })
	store := openStore(t, db, sqlitestore.Config{})
	var got string
	_, _, err := store.Transact(t.Context(), testClaim("key", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		return onceward.Commit, testAnswer(""), sqlitestore.Tx(ctx).QueryRow("SELECT ?", celsius(21)).Scan(&got)
	})
	if err != nil || got != "21 °C" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A library that is given a *sql.Tx (a job queue, a query builder) uses it as it is
// used to: nested savepoints, prepared statements, rows that stay open, everything
// that database/sql can ask.
func TestATransactionIsLikeAnyOther(t *testing.T) {
	s := openShop(t, 2, sqlitestore.Config{})
	_, ran, err := s.store.Transact(t.Context(), testClaim("key", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		tx := sqlitestore.Tx(ctx)
		nested(t, ctx, tx)
		prepared(t, ctx, tx)
		types(t, ctx, tx, s.db)
		// Its own pool's statements belong to another connection.
		stmt, err := s.db.Prepare("SELECT 1")
		if err != nil {
			return onceward.Abort, nil, err
		}
		defer stmt.Close()
		if _, err := tx.Stmt(stmt).Exec(); err == nil || !strings.Contains(err.Error(), "different database") {
			t.Errorf("a statement of the pool in the transaction: %v", err)
		}
		return onceward.Commit, testAnswer("key"), nil
	})
	if err != nil || !ran {
		t.Fatalf("ran %v, %v", ran, err)
	}
	if got, want := s.orders(), "copy-kept-1 copy-kept-2 kept-1 kept-2 returned several-1 several-2"; got != want {
		t.Errorf("the orders are %q, want %q", got, want)
	}
}

// nested begins and ends savepoints as River's driver for SQLite does.
func nested(t *testing.T, ctx context.Context, tx *sql.Tx) {
	t.Helper()
	for _, text := range []string{
		"SAVEPOINT job_1", "INSERT INTO orders (name) VALUES ('kept-1')",
		"SAVEPOINT job_2", "INSERT INTO orders (name) VALUES ('undone')", "ROLLBACK TO job_2", "RELEASE job_2",
		"SAVEPOINT job_3", "INSERT INTO orders (name) VALUES ('kept-2')", "RELEASE SAVEPOINT job_3",
		"RELEASE job_1",
		"SAVEPOINT left_open", "ROLLBACK TRANSACTION TO SAVEPOINT left_open",
		"INSERT INTO orders (name) VALUES ('several-1'); INSERT INTO orders (name) VALUES ('several-2');",
	} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (name) VALUES ('kept-1')"); err == nil {
		t.Error("a conflict went through")
	}
}

// prepared reads rows and writes for each of them while they are open.
func prepared(t *testing.T, ctx context.Context, tx *sql.Tx) {
	t.Helper()
	insert, err := tx.PrepareContext(ctx, "INSERT INTO orders (name) VALUES (:name)")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.QueryContext(ctx, "SELECT name FROM orders WHERE name LIKE 'kept-%' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name sql.RawBytes
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		if _, err := insert.ExecContext(ctx, sql.Named("name", "copy-"+string(name))); err != nil {
			t.Errorf("a write while rows are open: %v", err)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close(), insert.Close(), rows.Close(), insert.Close()); err != nil {
		t.Error(err)
	}
	var name string
	if err := tx.QueryRowContext(ctx, "INSERT INTO orders (name) VALUES ('returned') RETURNING name").Scan(&name); err != nil || name != "returned" {
		t.Errorf("RETURNING: %q, %v", name, err)
	}
	if err := tx.QueryRow("SELECT name FROM orders WHERE name = 'nobody'").Scan(&name); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no row: %v", err)
	}
}

// types asks for values of every kind and for what is known of their columns, and
// gets what the pool says.
func types(t *testing.T, ctx context.Context, tx *sql.Tx, db *sql.DB) {
	t.Helper()
	var got [2]string
	for i, ask := range []func(context.Context, string, ...any) (*sql.Rows, error){tx.QueryContext, db.QueryContext} {
		rows, err := ask(ctx, "SELECT name, 7 AS n, 1.5 AS f, x'00ff' AS b, NULL AS missing FROM sqlite_schema WHERE name = 'orders'")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.ColumnTypes()
		if err != nil || !rows.Next() {
			t.Fatalf("no row: %v", err)
		}
		for _, c := range columns {
			length, hasLength := c.Length()
			nullable, known := c.Nullable()
			precision, scale, decimal := c.DecimalSize()
			got[i] += fmt.Sprintln(c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, nullable, known, precision, scale, decimal)
		}
		var name string
		var n int
		var f float64
		var b []byte
		var missing sql.NullString
		if err := rows.Scan(&name, &n, &f, &b, &missing); err != nil {
			t.Fatal(err)
		}
		got[i] += fmt.Sprintln(name, n, f, b, missing, rows.NextResultSet())
	}
	if got[0] != got[1] || !strings.Contains(got[0], "orders 7 1.5 [0 255] { false} false") {
		t.Errorf("the transaction says\n%s, the pool\n%s", got[0], got[1])
	}
}

// Code that ends the transaction it was given, as code does, ends its handle: what
// it did is left to the verdict, unless it undid it.
func TestAHandleIsEndedByItsOwner(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	for _, c := range []struct {
		name    string
		commit  bool
		verdict onceward.Verdict
		want    string
	}{
		{"commit-commit", true, onceward.Commit, "commit-commit"},
		{"commit-undo", true, onceward.Undo, "commit-commit"},
		{"rollback-commit", false, onceward.Commit, "commit-commit"},
	} {
		_, ran, err := s.store.Transact(t.Context(), testClaim(c.name, 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			tx := sqlitestore.Tx(ctx)
			defer tx.Rollback()
			if err := insertOrder(ctx, c.name); err != nil {
				return onceward.Abort, nil, err
			}
			end := tx.Rollback
			if c.commit {
				end = tx.Commit
			}
			if err := end(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if err := insertOrder(ctx, "stray"); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%s: a statement after it: %v", c.name, err)
			}
			return c.verdict, testAnswer(c.name), nil
		})
		if err != nil || !ran {
			t.Errorf("%s: ran %v, %v", c.name, ran, err)
		}
		if got := s.orders(); got != c.want {
			t.Errorf("after %s the orders are %q, want %q", c.name, got, c.want)
		}
	}
	if got := s.answered("commit-commit", "commit-undo", "rollback-commit"); got != "commit-commit commit-undo rollback-commit" {
		t.Errorf("answered are %q", got)
	}
}

// Outside a work there is no transaction, and a work that keeps an answer must have
// one.
func TestWhatAWorkMustReturn(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	if sqlitestore.Tx(t.Context()) != nil {
		t.Error("there is a transaction outside any work")
	}
	for name, resp := range map[string]*onceward.Response{"none": nil, "a status that is none": {Status: 7}} {
		_, _, err := s.store.Transact(t.Context(), testClaim("key", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			return onceward.Commit, resp, insertOrder(ctx, "stray")
		})
		if err == nil || !strings.HasPrefix(err.Error(), "sqlitestore: transact: ") {
			t.Errorf("Commit with %s: %v", name, err)
		}
	}
	if got := s.orders(); got != "" {
		t.Errorf("the orders are %q", got)
	}
	_, _, err := s.store.Transact(t.Context(), testClaim("key", 1), func(context.Context) (onceward.Verdict, *onceward.Response, error) {
		return onceward.Abort, nil, nil
	})
	if err != nil {
		t.Errorf("Abort without a response: %v", err)
	}
}

// The times of a record that a transaction made are those of any other.
func TestATransactionsRecordTellsTheStory(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	before := time.Now().UnixMilli()
	s.mustOrder("key", 1)
	var method, path string
	var created, completed, expires, status, attempt, held int64
	err := s.db.QueryRow("SELECT method, path, created_at, completed_at, expires_at, status, attempt, held FROM idempotency_keys").
		Scan(&method, &path, &created, &completed, &expires, &status, &attempt, &held)
	if err != nil || method != "POST" || path != "/orders" || created < before || completed < created || status != 201 || attempt != 1 || held != 0 ||
		expires-completed != time.Hour.Milliseconds() {
		t.Errorf("%s %s, created %d, completed %d, expires %d, status %d, attempt %d, held %d, %v", method, path, created, completed, expires, status, attempt, held, err)
	}
	free := lockFile(t, fileOf(t, s.db)) // a duplicate is only read
	defer free()
	if rec, ran, err := s.order("key", 2); err != nil || ran || string(rec.Response.Body) != "key" {
		t.Errorf("a duplicate under another's lock: ran %v, %v", ran, err)
	}
}
