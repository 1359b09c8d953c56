package operations

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/pages"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/riveroperation"
)

// TestTheDocumentShowsTheCodeThatRuns holds docs/long-work.md to handlers.go.
func TestTheDocumentShowsTheCodeThatRuns(t *testing.T) {
	pages.Hold(t, "long-work.md", "handlers.go")
}

// reported is an answer of the document's service.
type reported struct {
	ID, State, Title string
	Result           json.RawMessage
}

func ask(t *testing.T, h http.Handler, method, path, key string) (*httptest.ResponseRecorder, reported) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("X-User", "anna")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var a reported
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil && strings.Contains(w.Header().Get("Content-Type"), "json") {
		t.Fatal(err)
	}
	return w, a
}

// What the document says of the service on Postgres.
func TestTheDocumentsServiceDoesWhatItSays(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), servers.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, text := range []string{
		`CREATE TABLE orders (month text NOT NULL, total integer NOT NULL)`, `CREATE TABLE reports (month text NOT NULL, orders integer NOT NULL, sum integer NOT NULL)`,
		`INSERT INTO orders VALUES ('2026-11', 5), ('2026-11', 7)`,
	} {
		if _, err := pool.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	h, stop, err := serve(t.Context(), pool, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if w, _ := ask(t, h, "POST", "/reports?month=november", "bad"); w.Code != 400 {
		t.Error(w)
	}
	first, op := ask(t, h, "POST", "/reports?month=2026-11", "k")
	to := first.Header().Get("Location")
	if first.Code != 202 || op.State != "pending" || to != "/operations/"+op.ID {
		t.Fatal(first)
	}
	if w, op := ask(t, h, "GET", to+"?wait=20", ""); op.State != "complete" || string(op.Result) != `{"orders":2,"sum":12}` {
		t.Error(w.Body)
	}
	if w, op := ask(t, h, "POST", "/reports?month=2026-11", "k"); w.Code != 202 || op.State != "complete" || w.Header().Get("Location") != to {
		t.Error(w.Body)
	}
	w, _ := ask(t, h, "POST", "/reports?month=2026-10", "k2")
	if w, op := ask(t, h, "GET", w.Header().Get("Location")+"?wait=20", ""); op.State != "failed" || op.Title != "There were no orders in 2026-10" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Error(w.Body)
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM reports`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d reports, %v", n, err)
	}
}

// And of SQLite, and of memory.
func TestTheDocumentsOtherRunnersWork(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "shop.db")
	db := openSQLite(t, name)
	defer db.Close()
	app, err := sql.Open("sqlite", "file:"+name+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close() // the application's pool, to the same file
	if _, err := app.Exec(`CREATE TABLE reports (what text)`); err != nil {
		t.Fatal(err)
	}
	var limit time.Duration // how long the work may take
	file, store, err := onFile(t.Context(), db, func(ctx context.Context, _ operation.Job) (done riveroperation.Outcome[*sql.Tx], err error) {
		if end, ok := ctx.Deadline(); ok {
			limit = time.Until(end)
		}
		done.Result.Value = json.RawMessage(`1`)
		done.Write = func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO reports VALUES ('by its transaction')`)
			return err
		}
		_, err = app.ExecContext(ctx, `INSERT INTO reports VALUES ('by the pool')`)
		return done, err
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	if err := file.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer file.Stop(context.Background())
	memory, err := inMemory(func(context.Context, operation.Job) (operation.Result, error) {
		return operation.Result{Value: json.RawMessage(`1`)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close(context.Background())
	for _, r := range []interface {
		operation.Runner
		operation.Waiter
	}{file, memory} {
		job := operation.Job{Key: onceward.NewKey("anna", "k"), Kind: "report"}
		if _, err := r.Submit(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		op, err := r.Wait(ctx, job.Key)
		cancel()
		if err != nil || op.State != operation.Complete || string(op.Result.Value) != "1" {
			t.Errorf("%v, %v", op, err)
		}
	}
	var rows int
	if err := app.QueryRow(`SELECT count(DISTINCT what) FROM reports`).Scan(&rows); err != nil || rows != 2 {
		t.Errorf("%d of two rows are there, %v", rows, err)
	}
	if limit < 5*time.Minute {
		t.Errorf("the work may take %v, want the example's ten minutes", limit)
	}
}
