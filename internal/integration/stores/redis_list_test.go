package stores_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// onEachRedis runs f against a single server and against a Cluster.
func onEachRedis(t *testing.T, f func(t *testing.T, client redis.UniversalClient)) {
	t.Run("single", func(t *testing.T) { f(t, redisClient(t, servers.Redis(t))) })
	t.Run("cluster", func(t *testing.T) { f(t, clusterClient(t, servers.Cluster(t))) })
}

func redisClaim(scope, key string, n byte) onceward.Claim {
	c := processClaim(key, int(n))
	c.Key = onceward.NewKey(scope, key)
	return c
}

func mustClaim(t *testing.T, store onceward.Store, c onceward.Claim) {
	t.Helper()
	if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
		t.Fatalf("Claim: claimed %v, error %v", claimed, err)
	}
}

// The records of 3 scopes, 40 each: every fourth completed, the next held, the
// next with its lease over, the last in progress. Each list that an operator can
// ask for has exactly the records that it should, in the order of their keys.
func TestRedisListsItsRecords(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		ctx := t.Context()
		store := openRedis(t, client, redisstore.Config{Prefix: "[a*]?:"})
		// What others keep under names that look alike is none of ours.
		for _, name := range []string{"a:x", "[a*]?:", "[a*]?:{short}", "aa:{" + strings.Repeat("A", 43) + "." + strings.Repeat("A", 43) + "}"} {
			if err := client.Set(ctx, name, "foreign", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		var all []onceward.Key
		kind := map[onceward.Key]int{}
		for i := range 120 {
			c := redisClaim(fmt.Sprintf("user-%d", i%3), fmt.Sprintf("key-%d", i), 1)
			kind[c.Key] = i / 3 % 4
			all = append(all, c.Key)
			if kind[c.Key] == 2 {
				c.Lease = 0
			}
			mustClaim(t, store, c)
			var err error
			switch kind[c.Key] {
			case 0:
				err = store.Complete(ctx, c.Key, c.Token, testAnswer(strings.Repeat("body", 500)), time.Hour)
			case 1:
				err = store.Extend(ctx, c.Key, c.Token, time.Hour, true)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		gone := redisClaim("user-0", "gone", 1)
		gone.Lease, gone.Keep = 0, time.Millisecond
		mustClaim(t, store, gone)
		time.Sleep(10 * time.Millisecond)
		slices.SortFunc(all, onceward.Key.Compare)

		scope := onceward.NewKey("user-1", "").Scope
		for name, q := range map[string]struct {
			onceward.Query
			want func(k onceward.Key) bool
		}{
			"all":       {onceward.Query{}, func(onceward.Key) bool { return true }},
			"a scope":   {onceward.Query{Scope: &scope}, func(k onceward.Key) bool { return k.Scope == scope }},
			"completed": {onceward.Query{State: onceward.Completed}, func(k onceward.Key) bool { return kind[k] == 0 }},
			"in progress, of a scope": {onceward.Query{State: onceward.InProgress, Scope: &scope},
				func(k onceward.Key) bool { return kind[k] != 0 && k.Scope == scope }},
			"stuck":    {onceward.Query{Stuck: true}, func(k onceward.Key) bool { return kind[k] == 1 || kind[k] == 2 }},
			"a prefix": {onceward.Query{Prefix: all[7].ID[:1]}, func(k onceward.Key) bool { return k.ID[0] == all[7].ID[0] }},
			"a whole ID": {onceward.Query{Prefix: all[7].ID[:], Scope: &all[7].Scope},
				func(k onceward.Key) bool { return k == all[7] }},
		} {
			for _, limit := range []int{0, 13, 1000} {
				q.Query.Limit, q.Query.After = limit, onceward.Key{}
				var got []onceward.Key
				for {
					page, err := store.List(ctx, q.Query)
					if err != nil {
						t.Fatalf("%s, limit %d: %v", name, limit, err)
					}
					if most := max(limit, 100); limit > 0 && len(page) > limit || len(page) > most {
						t.Fatalf("%s, limit %d: %d records", name, limit, len(page))
					}
					if len(page) == 0 {
						break
					}
					for _, rec := range page {
						got = append(got, rec.Key)
						if rec.Response != nil && (len(rec.Response.Body) > 0 || rec.Response.Status != testAnswer("").Status) {
							t.Errorf("%s: a response with status %d and %d bytes of body", name, rec.Response.Status, len(rec.Response.Body))
						}
						if rec.Held != (kind[rec.Key] == 1) || (rec.State == onceward.Completed) != (kind[rec.Key] == 0) || rec.Path != "/orders" {
							t.Errorf("%s: the record of %s is %+v", name, hex.EncodeToString(rec.Key.ID[:4]), rec)
						}
					}
					q.Query.After = page[len(page)-1].Key
				}
				var want []onceward.Key
				for _, k := range all {
					if q.want(k) {
						want = append(want, k)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, limit %d: %d keys, want %d, or another order", name, limit, len(got), len(want))
				}
			}
		}
	})
}

func TestRedisLooksWithoutTouching(t *testing.T) {
	client := redisClient(t, servers.Redis(t))
	store := openRedis(t, client, redisstore.Config{})
	ctx := t.Context()
	c := redisClaim("user", "key", 1)
	if _, found, err := store.Look(ctx, c.Key); err != nil || found {
		t.Fatalf("an absent key: found %v, error %v", found, err)
	}
	mustClaim(t, store, c)
	rec, found, err := store.Look(ctx, c.Key)
	if err != nil || !found || rec.State != onceward.InProgress || rec.Token != c.Token || rec.Key != c.Key {
		t.Fatalf("found %v, error %v, %+v", found, err, rec)
	}
	if err := store.Complete(ctx, c.Key, c.Token, testAnswer("done"), time.Hour); err != nil {
		t.Fatal(err)
	}
	rec, found, err = store.Look(ctx, c.Key)
	if err != nil || !found || rec.State != onceward.Completed || !bytes.Equal(rec.Response.Body, []byte("done")) {
		t.Fatalf("found %v, error %v, %+v", found, err, rec)
	}
}

// B077: an account's records go, finished or not, and nobody else's.
func TestRedisForgetsAScope(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		ctx := t.Context()
		store := openRedis(t, client, redisstore.Config{})
		const keys = 300
		for _, scope := range []string{"leaves", "stays"} {
			for i := range keys {
				c := redisClaim(scope, fmt.Sprint("key-", i), 1)
				mustClaim(t, store, c)
				if i%2 == 0 {
					if err := store.Complete(ctx, c.Key, c.Token, testAnswer("done"), time.Hour); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		leaves, stays := redisClaim("leaves", "key-1", 1), redisClaim("stays", "key-1", 1)
		for range 2 {
			if err := store.Forget(ctx, leaves.Key.Scope); err != nil {
				t.Fatal(err)
			}
		}
		for scope, want := range map[[32]byte]int{leaves.Key.Scope: 0, stays.Key.Scope: keys} {
			if records, err := store.List(ctx, onceward.Query{Scope: &scope, Limit: 2 * keys}); err != nil || len(records) != want {
				t.Errorf("%d records are left, want %d (error %v)", len(records), want, err)
			}
		}
		if err := store.Complete(ctx, leaves.Key, leaves.Token, testAnswer("late"), time.Hour); !errors.Is(err, onceward.ErrClaimLost) {
			t.Errorf("Complete of a forgotten claim: %v, want ErrClaimLost", err)
		}
		if err := store.Complete(ctx, stays.Key, stays.Token, testAnswer("done"), time.Hour); err != nil {
			t.Errorf("Complete of another scope's claim: %v", err)
		}
	})
}
