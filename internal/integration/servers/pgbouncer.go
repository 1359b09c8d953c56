package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// PgBouncer puts a pooler in transaction mode before the database of a connection
// string that [Postgres] gave, and returns the connection string that leads through
// it. It has two connections to the server, gives them to whoever begins a
// transaction, and knows of no prepared statements.
func PgBouncer(t postgresTest, dsn string) string {
	t.Helper()
	pooled, stop, err := startPgBouncer(dsn)
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true" {
		t.Skipf("%v: `make install` installs it", err)
	} else if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(stop)
	return pooled
}

func startPgBouncer(dsn string) (pooled string, stop func(), err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return "", nil, fmt.Errorf("no PgBouncer: %w", exec.ErrNotFound)
		}
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "onceward-pgbouncer-")
	if err != nil {
		return "", nil, err
	}
	port, err := freePostgresPort()
	if err != nil {
		return "", nil, err
	}
	settings := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
pool_mode = transaction
default_pool_size = 2
server_round_robin = 1
max_client_conn = 200
auth_type = trust
auth_file = %s
`, u.Port(), port, filepath.Join(dir, "users"))
	files := map[string]string{"pgbouncer.ini": settings, "users": `"onceward" ""` + "\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", nil, err
		}
	}
	as, err := postgresUser(dir)
	if err != nil {
		return "", nil, err
	}
	lifeline, err := startSupervised(dir, as, program, filepath.Join(dir, "pgbouncer.ini"))
	if err != nil {
		return "", nil, err
	}
	stop = func() { _ = lifeline.Close() }
	pooled = strings.Replace(dsn, u.Host, "127.0.0.1:"+port, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, pooled)
		if err == nil {
			return pooled, stop, conn.Close(ctx)
		}
		if ctx.Err() != nil {
			said, _ := os.ReadFile(filepath.Join(dir, "log"))
			stop()
			return "", nil, fmt.Errorf("PgBouncer does not answer: %w\n%s", err, said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
