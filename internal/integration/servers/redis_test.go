package servers

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The test binary starts itself as the process that is to die.
const redisParent = "ONCEWARD_REDIS_PARENT"

func init() {
	if os.Getenv(redisParent) == "" {
		return
	}
	s, err := startRedis("redis-server")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Addr)
	time.Sleep(time.Minute)
	os.Exit(1)
}

func TestAServerDiesWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux ends a child with its parent")
		return
	}
	redisBinary(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), redisParent+"=1", "TMPDIR="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	addr := lines.Text()
	if err := pong(addr); err != nil {
		t.Fatalf("the parent says %q, where nobody answers: %v", addr, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait()
	err = redisWait(20*time.Second, func(context.Context) error {
		if pong(addr) == nil {
			return fmt.Errorf("the server at %s has outlived its parent", addr)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEachCallerHasADatabaseOfItsOwn(t *testing.T) {
	var dir string
	t.Run("together", func(t *testing.T) {
		urls := []string{Redis(t), Redis(t)}
		dir = sharedRedis.server.dir
		for i, url := range urls {
			opts, err := redis.ParseURL(url)
			if err != nil {
				t.Fatal(err)
			}
			client := redis.NewClient(opts)
			defer client.Close()
			if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 0 {
				t.Errorf("database %d has %d keys (error %v)", i, n, err)
			}
			if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the last caller is gone and %s is still there (error %v)", dir, err)
	}
}

func TestAKilledServerStartsAgainWithItsFiles(t *testing.T) {
	s := StartRedis(t, "appendonly", "yes", "appendfsync", "always")
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if pong(s.Addr) == nil {
		t.Fatal("a killed server answers")
	}
	s.Start(t)
	if got, err := client.Get(t.Context(), "key").Result(); err != nil || got != "value" {
		t.Errorf("after it the key is %q (error %v)", got, err)
	}
}
