package stores_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// B005, B017, B088.
func TestTwoProcessesShareARedis(t *testing.T) {
	t.Setenv(childRedis, servers.Redis(t))
	shareKeys(t, startChild(t, "share", ""), startChild(t, "share", ""))
}

// B030.
func TestAKilledProcessIsTakenOverOnRedis(t *testing.T) {
	url := servers.Redis(t)
	t.Setenv(childRedis, url)
	takeOver(t, startChild(t, "hold", ""), openRedis(t, redisClient(t, url), redisstore.Config{}))
}
