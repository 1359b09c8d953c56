package servers

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// Each call gets a database of its own on one server; the durable server is
// another one.
func TestPostgresGivesEachTestADatabase(t *testing.T) {
	seen := map[string]bool{}
	for _, dsn := range []string{Postgres(t), Postgres(t), DurablePostgres(t)} {
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), "CREATE TABLE mine ()"); err != nil {
			t.Errorf("the database is not fresh: %v", err)
		}
		var port, fsync, name string
		err = conn.QueryRow(t.Context(), "SELECT current_setting('port'), current_setting('fsync'), current_database()").Scan(&port, &fsync, &name)
		if err != nil {
			t.Fatal(err)
		}
		seen[port+"/"+name] = true
		if wantDurable := len(seen) == 3; (fsync == "on") != wantDurable {
			t.Errorf("database %d has fsync %s", len(seen), fsync)
		}
	}
	if len(seen) != 3 {
		t.Errorf("three calls gave %d databases", len(seen))
	}
}

// The pooler gives one session to two transactions and takes none of it along.
func TestPgBouncerPoolsTransactions(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), PgBouncer(t, Postgres(t))+"&default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	pids := map[int]bool{}
	var tx [2]pgx.Tx
	for i := range tx {
		other, err := pgx.Connect(t.Context(), conn.Config().ConnString())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(t.Context())
		if tx[i], err = other.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		var pid int
		if err := tx[i].QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids[pid] = true
	}
	for i := range tx {
		if err := tx[i].Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		var pid int
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		if !pids[pid] {
			t.Errorf("a third session %d, beside %v", pid, pids)
		}
	}
}
