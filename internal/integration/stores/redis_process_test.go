package stores_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// childRedis names the server to a child that is to use one instead of a file.
const childRedis = "ONCEWARD_STORE_REDIS"

// A child with a server is caught here, before TestMain opens a file for it.
func init() {
	if part, url := os.Getenv(childPart), os.Getenv(childRedis); part != "" && url != "" {
		os.Exit(runRedisChild(part, url))
	}
}

func runRedisChild(part, url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	opts, err := redis.ParseURL(url)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	client := redis.NewClient(opts)
	defer client.Close()
	store, err := redisstore.New(ctx, client, redisstore.Config{})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return 1
	}
	switch part {
	case "share":
		childShare(ctx, store)
	case "hold":
		childHold(ctx, store)
	}
	return 0
}

// B005, B017, B088: two processes, one server, 400 requests for 200 keys and 200
// for one key, all at once. Each key is run once, and each other request gets
// its answer.
func TestTwoProcessesShareARedis(t *testing.T) {
	t.Setenv(childRedis, servers.Redis(t))
	children := []*child{startChild(t, "share", ""), startChild(t, "share", "")}
	for _, c := range children {
		c.begin()
	}
	effects, replays := map[string]int{}, 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range children {
		wg.Go(func() {
			for c.out.Scan() {
				what, key, _ := strings.Cut(c.out.Text(), " ")
				mu.Lock()
				switch what {
				case "effect":
					effects[key]++
				case "replay":
					replays++
				default:
					t.Errorf("a process says: %s", c.out.Text())
				}
				mu.Unlock()
			}
			if err := c.Wait(); err != nil {
				t.Errorf("a process ended with %v\n%s", err, c.err)
			}
		})
	}
	wg.Wait()
	if len(effects) != sharedKeys+1 {
		t.Errorf("%d keys were run, want %d", len(effects), sharedKeys+1)
	}
	for key, n := range effects {
		if n != 1 {
			t.Errorf("%s was run %d times", key, n)
		}
	}
	if want := 2*(sharedKeys+hotRacers) - sharedKeys - 1; replays != want {
		t.Errorf("%d replays, want %d", replays, want)
	}
}

// B030: kill -9 while a claim is held. Before its lease ends the key is taken;
// after it another process takes over, once, and the dead one's token is worth
// nothing.
func TestAKilledProcessIsTakenOverOnRedis(t *testing.T) {
	url := servers.Redis(t)
	t.Setenv(childRedis, url)
	dead := startChild(t, "hold", "")
	dead.begin()
	if line := dead.line(); line != "claimed" {
		t.Fatalf("the child says %q\n%s", line, dead.err)
	}
	if err := dead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	dead.Wait()

	store := openRedis(t, redisClient(t, url), redisstore.Config{})
	ctx := t.Context()
	next := processClaim("held-by-the-dead", 2)
	next.TakeOver = true
	rec, claimed, err := store.Claim(ctx, next)
	if err != nil {
		t.Fatal(err)
	}
	// A slow machine may come after the lease; then this is the take-over.
	if !claimed {
		if rec.State != onceward.InProgress || rec.Attempt != 1 || rec.LeaseLeft > 2*time.Second {
			t.Fatalf("the dead process's claim is reported as %v, attempt %d, lease left %v", rec.State, rec.Attempt, rec.LeaseLeft)
		}
		time.Sleep(max(0, rec.LeaseLeft) + 10*time.Millisecond)
		if rec, claimed, err = store.Claim(ctx, next); err != nil || !claimed {
			t.Fatalf("after the lease: claimed %v, error %v", claimed, err)
		}
	}
	if rec.Attempt != 2 || rec.Token != next.Token {
		t.Errorf("the take-over is attempt %d", rec.Attempt)
	}
	old := processClaim("held-by-the-dead", 1)
	if err := store.Complete(ctx, old.Key, old.Token, testAnswer("late"), time.Hour); !errors.Is(err, onceward.ErrClaimLost) {
		t.Errorf("Complete under the dead process's token: %v, want ErrClaimLost", err)
	}
}
