package operations

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/riveroperation"
	"github.com/onceward/onceward/riveroperation/onpgx"
	"github.com/onceward/onceward/riveroperation/onsqlite"
	"github.com/onceward/onceward/sqlitestore"
)

// customer says whose request it is; the tests' authentication has put it there.
func customer(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }

// docs: accept
// startReport is POST /reports: it checks what can be refused at once, and leaves the
// rest to the runner.
func startReport(ops *operation.Operations) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		month := r.FormValue("month")
		if _, err := time.Parse("2006-01", month); err != nil {
			http.Error(w, "month=2026-11, please", http.StatusBadRequest) // kept and replayed, as ever
			return
		}
		ops.Accept(w, r, "report", []byte(month))
	}
}

// docs: end

// docs: work
// makeReport is the work, which may take minutes, and may be done again if its worker
// dies. What it writes into the database it returns as Write.
func makeReport(pool *pgxpool.Pool) riveroperation.Work[pgx.Tx] {
	return func(ctx context.Context, job operation.Job) (done riveroperation.Outcome[pgx.Tx], err error) {
		month := string(job.Input)
		var orders, sum int
		err = pool.QueryRow(ctx, `SELECT count(*), COALESCE(sum(total), 0) FROM orders WHERE month = $1`, month).Scan(&orders, &sum)
		if err != nil {
			return done, err // tried again; the owner does not see the text
		}
		if orders == 0 {
			return done, &operation.Failure{Title: "There were no orders in " + month} // final, and told
		}
		if done.Result.Value, err = json.Marshal(map[string]int{"orders": orders, "sum": sum}); err != nil {
			return done, err
		}
		done.Write = func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO reports (month, orders, sum) VALUES ($1, $2, $3)`, month, orders, sum)
			return err
		}
		return done, nil
	}
}

// docs: end

// docs: wire
// serve puts it together on Postgres. Migrate is for the moment of a deploy, as River's
// own migrations are.
func serve(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) (h http.Handler, stop func(context.Context) error, err error) {
	db := onpgx.Pool(pool)
	if err := riveroperation.Migrate(ctx, db); err != nil {
		return nil, nil, err
	}
	runner, err := riveroperation.New(db, riveroperation.Config[pgx.Tx]{
		Works: map[string]riveroperation.Work[pgx.Tx]{"report": makeReport(pool)},
		River: river.Config{
			Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
			MaxAttempts:          5,
			JobTimeout:           10 * time.Minute,
			RescueStuckJobsAfter: 15 * time.Minute,
		},
		Logger: log,
	})
	if err != nil {
		return nil, nil, err
	}
	store, err := pgxstore.New(ctx, pool, pgxstore.Config{})
	if err != nil {
		return nil, nil, err
	}
	guard, err := onceward.New(store, customer, onceward.Config{Require: true})
	if err != nil {
		return nil, nil, err
	}
	ops, err := operation.New(runner, customer, operation.Config{Records: store, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	if err := runner.Start(ctx); err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /reports", ops.Repeats(guard.Atomic(startReport(ops))))
	mux.Handle("GET /operations/{id}", ops)
	return mux, func(ctx context.Context) error {
		ops.Close() // nobody waits any longer
		return errors.Join(guard.Close(ctx), runner.Stop(ctx), store.Close(ctx))
	}, nil
}

// docs: end

// docs: sqlite
// onFile is the same on SQLite, in the application's own file: db has one connection,
// and the store and River take turns on it. The application's pool may be another handle
// to the same file.
func onFile(ctx context.Context, db *sql.DB, work riveroperation.Work[*sql.Tx], log *slog.Logger) (*riveroperation.Runner[*sql.Tx], *sqlitestore.Store, error) {
	pool := onsqlite.Pool(db, nil)
	if err := riveroperation.Migrate(ctx, pool); err != nil {
		return nil, nil, err
	}
	runner, err := riveroperation.New(pool, riveroperation.Config[*sql.Tx]{
		Works: map[string]riveroperation.Work[*sql.Tx]{"report": work},
		River: river.Config{
			Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
			PollOnly:             true,
			FetchPollInterval:    500 * time.Millisecond,
			MaxAttempts:          5,
			JobTimeout:           10 * time.Minute,
			RescueStuckJobsAfter: 15 * time.Minute,
		},
		Logger: log,
	})
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
	return runner, store, err
}

// docs: end

// docs: local
// inMemory needs no database and no River: for tests, and for work that may be lost
// with its process as long as nobody is told that it was not.
func inMemory(work operation.Work) (*operation.Local, error) {
	return operation.NewLocal(map[string]operation.Work{"report": work}, operation.LocalConfig{})
}

// docs: end
