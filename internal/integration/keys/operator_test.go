package keys_test

import (
	"context"
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

func TestWhoReleasedAKeyCanBeReadWhenItIsGone(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *shop) {
		s.post("ann", "k", "X-Fail")
		id := onceward.NewKey("ann", "k").RecordID()
		s.must("release", "k", "--reason", "nothing was charged", "--who", "olga")
		for _, name := range []string{"k", id, id[:9]} {
			out, said, code := s.keys("show", name)
			if code == 0 || !strings.Contains(said, "no such record") || !strings.Contains(out, "release by olga: nothing was charged") {
				t.Errorf("show %s: exit status %d, %q %q", name, code, out, said)
			}
		}
		if out, _, _ := s.keys("show", "another"); out != "" {
			t.Errorf("another key's story is %q", out)
		}
	})
}

// A worker that lives may be at its work: to take its key away is to start a second.
func TestAClaimThatMayHaveAWorkerIsEndedByForceOnly(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, url := open(t)
			s := &shop{t: t, store: url}
			c := onceward.Claim{Key: onceward.NewKey("ann", "k"), Token: onceward.Token{1}, Method: http.MethodPost, Path: "/x", Lease: time.Hour, Keep: time.Hour}
			if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			s.fails("--force", "release", "k", "--reason", "x")
			s.fails("--force", "complete", "k", "--status", "201", "--reason", "x")
			s.fails("--retain", "complete", "k", "--status", "201", "--reason", "x", "--retain", "0s", "--force")
			has(t, s.must("show", "k"), "in-progress")
			s.must("release", "k", "--reason", "the machine is gone", "--force")
			s.fails("no such record", "show", "k")
		})
	}
}

// Whoever looks into the wrong database leaves nothing there.
func TestLookingForKeysMakesNoTable(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "other.db")
		db, err := sql.Open("sqlite", "file:"+file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("CREATE TABLE books (name TEXT)"); err != nil {
			t.Fatal(err)
		}
		s := &shop{t: t, store: "sqlite:" + file}
		s.fails("is it another database?", "list")
		var tables int
		if err := db.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil || tables != 1 {
			t.Errorf("there are %d tables now, %v", tables, err)
		}
		if _, err := os.Stat(file + "-wal"); err == nil {
			t.Error("the file has been switched to the write-ahead log")
		}
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := servers.Postgres(t)
		s := &shop{t: t, store: dsn}
		s.fails("is it another database?", "list")
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		var tables int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables); err != nil || tables != 0 {
			t.Errorf("there are %d tables now, %v", tables, err)
		}
	})
}

func TestKeysBehindSentinelsAndInAClusterAreReached(t *testing.T) {
	for name, open := range map[string]func() (redis.UniversalClient, string){
		"sentinel": func() (redis.UniversalClient, string) {
			s := servers.Sentinel(t)
			client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Master, SentinelAddrs: s.Addrs})
			return client, "redis+sentinel://" + s.Addrs[0] + "/0?master_name=" + s.Master + "&addr=" + s.Addrs[1]
		},
		"cluster": func() (redis.UniversalClient, string) {
			c := servers.Cluster(t)
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs}), "redis+cluster://" + c.Addrs[0] + "?addr=" + c.Addrs[1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, url := open()
			defer client.Close()
			store, err := redisstore.New(t.Context(), client, redisstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			key := onceward.NewKey("ann", "k")
			c := onceward.Claim{Key: key, Token: onceward.Token{1}, Method: http.MethodPost, Path: "/create-order", Lease: time.Hour, Keep: time.Hour}
			if _, claimed, err := store.Claim(context.Background(), c); err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			s := &shop{t: t, store: url}
			has(t, s.must("list"), key.RecordID(), "POST /create-order")
			has(t, s.must("show", "k"), "in-progress")
		})
	}
	s := &shop{t: t, store: "redis+sentinel://127.0.0.1:1/0"}
	s.fails("master_name", "list")
}

// Who is on call has the log, and not the names of accounts, which may be secrets.
func TestOneOfTwoAccountsKeysIsNamedByItsScopeInTheLog(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *shop) {
		s.post("ann", "same", "X-Fail")
		s.post("bob", "same", "X-Fail")
		id, bob := onceward.NewKey("bob", "same").RecordID(), onceward.NewKey("bob", "same").ScopeID()
		s.fails("--scope", "release", id, "--reason", "x")
		if n := strings.Count(s.must("list", "--scope", bob), "POST /create-order"); n != 1 {
			t.Errorf("%d records of bob's are listed, want 1", n)
		}
		s.must("release", id, "--scope", bob, "--reason", "the bank says no")
		s.fails("no such record", "show", id, "--scope", bob)
		has(t, s.must("show", id, "--scope", onceward.NewKey("ann", "same").ScopeID()), "held")
	})
}
