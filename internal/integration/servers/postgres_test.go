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
