package stores_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

func TestRedisThatEvictsIsRefused(t *testing.T) {
	client := redisClient(t, "redis://"+servers.StartRedis(t, "maxmemory", "50mb", "maxmemory-policy", "allkeys-lru").Addr)
	if _, err := redisstore.New(t.Context(), client, redisstore.Config{}); !errors.Is(err, redisstore.ErrEvicting) {
		t.Errorf("New on a server that evicts: %v", err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	openRedis(t, client, redisstore.Config{})
}

// One node is enough, and a replica too: it may be the next master.
func TestAClusterWithOneEvictingNodeIsRefused(t *testing.T) {
	cluster := servers.Cluster(t)
	client := clusterClient(t, cluster)
	openRedis(t, client, redisstore.Config{})
	for i, addr := range cluster.Addrs {
		node := redisClient(t, "redis://"+addr)
		if err := node.ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err(); err != nil {
			t.Fatal(err)
		}
		_, err := redisstore.New(t.Context(), client, redisstore.Config{})
		if !errors.Is(err, redisstore.ErrEvicting) || !strings.Contains(fmt.Sprint(err), addr) {
			t.Errorf("node %d evicts: New says %v", i, err)
		}
		if err := node.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := redisstore.New(t.Context(), redisClient(t, "redis://"+cluster.Addrs[0]), redisstore.Config{}); err == nil {
		t.Error("a plain client on a Cluster's node is accepted")
	}
}

// Many hosted services close INFO and CONFIG. Then the store says what it could
// not find out, and works.
func TestRedisThatClosesInfoIsWarnedAbout(t *testing.T) {
	server := servers.StartRedis(t)
	admin := redisClient(t, "redis://"+server.Addr)
	err := admin.Do(t.Context(), "ACL", "SETUSER", "hosted", "on", ">secret", "~*", "+@all", "-info", "-config").Err()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	store := openRedis(t, redisClient(t, "redis://hosted:secret@"+server.Addr), redisstore.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if said := log.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, server.Addr) || !strings.Contains(said, "INFO is closed") {
		t.Errorf("the log says %q", said)
	}
	mustClaim(t, store, redisClaim("user", "key", 1))
}

// The commands that docs/redis.md lists are enough.
func TestRedisNeedsNoMoreThanTheDocumentedCommands(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		server := servers.StartRedis(t)
		allow(t, server.Addr, documentedACL(t))
		client := redisClient(t, "redis://onceward:secret@"+server.Addr)
		everyCall(t, client)
		store := openRedis(t, client, redisstore.Config{Wait: redisstore.Wait{Replicas: 1, Timeout: time.Millisecond}})
		if _, _, err := store.Claim(t.Context(), redisClaim("user", "waits", 1)); !errors.Is(err, redisstore.ErrReplicas) {
			t.Error(err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := servers.Cluster(t)
		rule := documentedACL(t)
		for _, command := range documentedForCluster(t) {
			rule = append(rule, command)
		}
		for _, addr := range cluster.Addrs {
			allow(t, addr, rule)
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs, Username: "onceward", Password: "secret"})
		defer client.Close()
		everyCall(t, client)
		store := openRedis(t, client, redisstore.Config{Wait: redisstore.Wait{Replicas: 1, Timeout: 10 * time.Second}})
		mustClaim(t, store, redisClaim("user", "waits", 1))
	})
}

func allow(t *testing.T, addr string, rule []any) {
	t.Helper()
	if err := redisClient(t, "redis://"+addr).Do(t.Context(), append([]any{"ACL", "SETUSER"}, rule...)...).Err(); err != nil {
		t.Fatalf("%v: %v", rule, err)
	}
}

// everyCall makes each call of the store once, from a server that knows no
// script.
func everyCall(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	store := openRedis(t, client, redisstore.Config{})
	ctx := t.Context()
	c := redisClaim("user", "key", 1)
	c.Lease = 0
	mustClaim(t, store, c)
	for i, err := range []error{
		store.Extend(ctx, c.Key, c.Token, 0, false),
		store.Extend(ctx, c.Key, c.Token, 0, true),
		store.Release(ctx, c.Key, c.Token),
		func() error { _, _, err := store.Claim(ctx, c); return err }(),
		store.Complete(ctx, c.Key, c.Token, testAnswer("done"), time.Hour),
		func() error { _, _, err := store.Look(ctx, c.Key); return err }(),
		func() error { _, err := store.List(ctx, onceward.Query{}); return err }(),
		store.Audit(ctx, onceward.Audit{Who: "olga", Action: "release", Reason: "the bank says no", Key: c.Key, Token: c.Token}),
		func() error { _, err := store.Audits(ctx, c.Key, 10); return err }(),
		func() error { _, err := store.Audits(ctx, onceward.Key{}, 10); return err }(),
		store.Forget(ctx, c.Key.Scope),
	} {
		if err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// The server has closed the connections that the client holds in its pool: the
// next calls open others and succeed, with WAIT as without it.
func TestAClosedConnectionIsReplaced(t *testing.T) {
	master := servers.StartRedis(t)
	servers.StartRedis(t, "replicaof", strings.Replace(master.Addr, ":", " ", 1))
	admin := redisClient(t, "redis://"+master.Addr)
	if err := awaitReplica(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	for name, wait := range map[string]redisstore.Wait{"plain": {}, "waits": {Replicas: 1, Timeout: 10 * time.Second}} {
		store := openRedis(t, redisClient(t, "redis://"+master.Addr), redisstore.Config{Wait: wait})
		var both sync.WaitGroup
		for i := range 4 {
			both.Go(func() {
				if _, claimed, err := store.Claim(t.Context(), redisClaim("user", fmt.Sprintf("%s-%d", name, i), 1)); err != nil || !claimed {
					t.Errorf("claimed %v, error %v", claimed, err)
				}
			})
		}
		both.Wait()
		if err := admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			c := redisClaim("user", fmt.Sprintf("%s-%d", name, i), 1)
			if err := store.Complete(t.Context(), c.Key, c.Token, testAnswer("done"), time.Hour); err != nil {
				t.Errorf("%s, call %d after the connections were closed: %v", name, i, err)
			}
		}
	}
}

// With too few replicas a claim and an answer fail, say why, and stand on the
// master: the same call succeeds as soon as there is a replica.
func TestTooFewReplicasAreAnError(t *testing.T) {
	master := servers.StartRedis(t)
	client := redisClient(t, "redis://"+master.Addr)
	store := openRedis(t, client, redisstore.Config{Wait: redisstore.Wait{Replicas: 1, Timeout: 20 * time.Millisecond}})
	ctx := t.Context()
	c := redisClaim("user", "key", 1)
	if _, claimed, err := store.Claim(ctx, c); !errors.Is(err, redisstore.ErrReplicas) || claimed {
		t.Errorf("Claim without a replica: claimed %v, error %v", claimed, err)
	}
	other := c
	other.Token[0]++
	if rec, claimed, err := store.Claim(ctx, other); err != nil || claimed || rec.Token != c.Token {
		t.Errorf("another's claim is only told who has the key, and needs no replica: claimed %v, error %v", claimed, err)
	}
	if err := store.Complete(ctx, c.Key, c.Token, testAnswer("done"), time.Hour); !errors.Is(err, redisstore.ErrReplicas) {
		t.Errorf("Complete without a replica: %v", err)
	}
	if err := store.Complete(ctx, c.Key, c.Token, testAnswer("done"), time.Hour); !errors.Is(err, redisstore.ErrReplicas) {
		t.Errorf("the same Complete again, still without a replica: %v", err)
	}
	if rec, _, err := store.Claim(ctx, other); err != nil || rec.State != onceward.Completed {
		t.Errorf("a replay needs no replica: %v, error %v", rec.State, err)
	}

	replica := servers.StartRedis(t, "replicaof", strings.Replace(master.Addr, ":", " ", 1))
	if err := awaitReplica(ctx, client); err != nil {
		t.Fatal(err)
	}
	patient := openRedis(t, client, redisstore.Config{Wait: redisstore.Wait{Replicas: 1, Timeout: 10 * time.Second}})
	if err := patient.Complete(ctx, c.Key, c.Token, testAnswer("other"), time.Hour); err != nil {
		t.Fatalf("the same Complete with a replica: %v", err)
	}
	next := redisClaim("user", "next", 1)
	mustClaim(t, patient, next)
	mustClaim(t, patient, next) // the repeated call waits too
	if err := patient.Extend(ctx, next.Key, next.Token, 0, true); err != nil {
		t.Fatal(err)
	}
	// A replica that is connected and does not keep up has confirmed nothing.
	replica.Pause(t)
	late := redisClaim("user", "late", 1)
	for range 2 {
		if _, claimed, err := store.Claim(ctx, late); !errors.Is(err, redisstore.ErrReplicas) || claimed {
			t.Errorf("Claim with a replica that hangs: claimed %v, error %v", claimed, err)
		}
	}
	if err := store.Complete(ctx, next.Key, next.Token, testAnswer("done"), time.Hour); !errors.Is(err, redisstore.ErrReplicas) {
		t.Errorf("Complete with a replica that hangs: %v", err)
	}
	replica.Resume(t)
	mustClaim(t, patient, late)

	// What was confirmed is there.
	copied := openRedis(t, redisClient(t, "redis://"+replica.Addr), redisstore.Config{})
	keys := redisClient(t, "redis://"+replica.Addr).Keys(ctx, "*").Val()
	if len(keys) != 3 {
		t.Errorf("the replica has %d records, want 3", len(keys))
	}
	if rec, found, err := copied.Look(ctx, late.Key); err != nil || !found || rec.State != onceward.InProgress {
		t.Errorf("the replica's claim: found %v, %v, error %v", found, rec.State, err)
	}
	if rec, found, err := copied.Look(ctx, c.Key); err != nil || !found || string(rec.Response.Body) != "done" {
		t.Errorf("the replica's answer: found %v, error %v", found, err)
	}
}

func awaitReplica(ctx context.Context, master *redis.Client) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := master.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(text, "state=online") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no replica comes online: %w\n%s", err, text)
		}
	}
}

// The scripts are forgotten again and again while requests run: no call fails,
// each request runs once and gets its own answer.
func TestFlushedScriptsAreSentAgain(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		store := openRedis(t, client, redisstore.Config{})
		ctx, stop := context.WithCancel(t.Context())
		var flusher, workers sync.WaitGroup
		flushes := 0
		flusher.Go(func() {
			for ctx.Err() == nil {
				if err := client.ScriptFlush(t.Context()).Err(); err != nil {
					t.Error(err)
					return
				}
				flushes++
				time.Sleep(time.Millisecond)
			}
		})
		for w := range 4 {
			workers.Go(func() {
				for i := range 40 {
					key := fmt.Sprintf("key-%d-%d", w, i)
					c := redisClaim("user", key, 1)
					if _, claimed, err := store.Claim(ctx, c); err != nil || !claimed {
						t.Errorf("%s: claimed %v, error %v", key, claimed, err)
						return
					}
					if err := errors.Join(
						store.Extend(ctx, c.Key, c.Token, time.Hour, false),
						store.Complete(ctx, c.Key, c.Token, testAnswer(key), time.Hour),
						store.Release(ctx, c.Key, c.Token),
					); err != nil {
						t.Errorf("%s: %v", key, err)
					}
					c.Token[0]++
					if rec, _, err := store.Claim(ctx, c); err != nil || rec.Response == nil || string(rec.Response.Body) != key {
						t.Errorf("%s: answered with %v, error %v", key, rec.Response, err)
					}
				}
			})
		}
		workers.Wait()
		stop()
		flusher.Wait()
		if flushes < 3 {
			t.Errorf("the scripts were forgotten %d times only", flushes)
		}
	})
}

// While a slot moves, half of it lies here and half there: the store follows
// each key, with WAIT, which names no key, as without it.
func TestAKeyIsFollowedWhileItsSlotMoves(t *testing.T) {
	client := clusterClient(t, servers.Cluster(t))
	ctx := t.Context()
	// All records in one slot.
	plain := openRedis(t, client, redisstore.Config{Prefix: "{slot}:"})
	waits := openRedis(t, client, redisstore.Config{Prefix: "{slot}:", Wait: redisstore.Wait{Replicas: 1, Timeout: 10 * time.Second}})
	slot := client.ClusterKeySlot(ctx, "{slot}:").Val()
	from, err := client.MasterForKey(ctx, "{slot}:")
	if err != nil {
		t.Fatal(err)
	}
	var to *redis.Client
	var masters []*redis.Client
	var mu sync.Mutex
	if err := client.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, node)
		if node.Options().Addr != from.Options().Addr {
			to = node
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	do := func(node *redis.Client, args ...any) {
		t.Helper()
		if err := node.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	fromID, toID := from.Do(ctx, "CLUSTER", "MYID").Val(), to.Do(ctx, "CLUSTER", "MYID").Val()

	request := func(store onceward.Store, key string, first bool) {
		t.Helper()
		c := redisClaim("user", key, 1)
		if first {
			mustClaim(t, store, c)
			if err := store.Complete(ctx, c.Key, c.Token, testAnswer(key), time.Hour); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
		c.Token[0]++
		if rec, claimed, err := store.Claim(ctx, c); err != nil || claimed || string(rec.Response.Body) != key {
			t.Fatalf("%s: claimed %v, error %v", key, claimed, err)
		}
	}
	request(plain, "old", true)
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	for name, store := range map[string]onceward.Store{"plain": plain, "waits": waits} {
		request(store, "old", false)         // it lies where it was
		request(store, "new of "+name, true) // ASK: it is not here, so it is there
	}
	names, err := from.Do(ctx, "CLUSTER", "GETKEYSINSLOT", slot, 100).StringSlice()
	if err != nil || len(names) != 1 {
		t.Fatalf("the old owner has %q, error %v; want the old record alone", names, err)
	}
	host, port, _ := strings.Cut(to.Options().Addr, ":")
	do(from, "MIGRATE", host, port, names[0], 0, 5000)
	for _, node := range append([]*redis.Client{to, from}, masters...) {
		do(node, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	for name, store := range map[string]onceward.Store{"plain": plain, "waits": waits} { // MOVED
		for _, key := range []string{"old", "new of plain", "new of waits"} {
			request(store, key, false)
		}
		request(store, "newest of "+name, true)
	}
}

// A server that is full refuses, and nothing is half done: the claim that was
// refused does not exist, and the answer that was refused can be stored later.
func TestAFullRedisRefusesAndHarmsNothing(t *testing.T) {
	client := redisClient(t, "redis://"+servers.StartRedis(t).Addr)
	store := openRedis(t, client, redisstore.Config{})
	ctx := t.Context()
	mine, over, refused, given := redisClaim("user", "mine", 1), redisClaim("user", "over", 1), redisClaim("user", "refused", 1), redisClaim("user", "given", 1)
	over.Lease = 0
	for _, c := range []onceward.Claim{mine, over, given} {
		mustClaim(t, store, c)
	}
	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	takeOver := over
	takeOver.TakeOver, takeOver.Token[0] = true, 9
	for _, c := range []onceward.Claim{refused, takeOver} {
		if _, claimed, err := store.Claim(ctx, c); err == nil || claimed || errors.Is(err, onceward.ErrClaimLost) {
			t.Errorf("Claim on a full server: claimed %v, error %v", claimed, err)
		}
	}
	for what, err := range map[string]error{
		"Complete": store.Complete(ctx, mine.Key, mine.Token, testAnswer("done"), time.Hour),
		"Extend":   store.Extend(ctx, mine.Key, mine.Token, time.Hour, false),
	} {
		if err == nil || errors.Is(err, onceward.ErrClaimLost) {
			t.Errorf("%s on a full server: %v", what, err)
		}
	}
	if err := store.Release(ctx, given.Key, given.Token); err != nil {
		t.Errorf("Release, which frees room: %v", err)
	}
	if err := client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	records, err := store.List(ctx, onceward.Query{})
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records afterwards, want the two that were not given back (error %v)", len(records), err)
	}
	for _, rec := range records {
		if rec.State != onceward.InProgress || rec.Attempt != 1 || rec.Token != mine.Token {
			t.Errorf("a record that was refused a change is %+v", rec)
		}
	}
	if err := store.Complete(ctx, mine.Key, mine.Token, testAnswer("done"), time.Hour); err != nil {
		t.Errorf("Complete when there is room again: %v", err)
	}
}

// A rolling deploy: a record of a later format is left alone and told apart.
func TestARecordOfALaterVersionIsLeftAlone(t *testing.T) {
	client := redisClient(t, servers.Redis(t))
	store := openRedis(t, client, redisstore.Config{})
	ctx := t.Context()
	c := redisClaim("user", "key", 1)
	c.Lease = 0
	mustClaim(t, store, c)
	name := client.Keys(ctx, "*").Val()[0]
	client.HSet(ctx, name, "v", 2)
	before := fmt.Sprint(client.HGetAll(ctx, name).Val())
	next := c
	next.TakeOver, next.Token[0] = true, 9
	_, claimed, claimErr := store.Claim(ctx, next)
	_, found, lookErr := store.Look(ctx, c.Key)
	for what, err := range map[string]error{
		"Claim":    claimErr,
		"Look":     lookErr,
		"Extend":   store.Extend(ctx, c.Key, c.Token, time.Hour, true),
		"Complete": store.Complete(ctx, c.Key, c.Token, testAnswer("done"), time.Hour),
		"Release":  store.Release(ctx, c.Key, c.Token),
	} {
		if !errors.Is(err, onceward.ErrEncoding) {
			t.Errorf("%s: %v, want ErrEncoding", what, err)
		}
	}
	if after := fmt.Sprint(client.HGetAll(ctx, name).Val()); claimed || found || after != before {
		t.Errorf("claimed %v, found %v; the record was %q and is %q", claimed, found, before, after)
	}
}

// Expiry is judged by the fields also where Redis has not deleted: here because
// somebody has taken the keys' own expiry away.
func TestExpiryDoesNotHangOnRedisDeleting(t *testing.T) {
	client := redisClient(t, servers.Redis(t))
	store := openRedis(t, client, redisstore.Config{})
	ctx := t.Context()
	done, abandoned := redisClaim("user", "done", 1), redisClaim("user", "abandoned", 1)
	abandoned.Lease, abandoned.Keep = 0, time.Second
	for _, c := range []onceward.Claim{done, abandoned} {
		mustClaim(t, store, c)
	}
	if err := store.Complete(ctx, done.Key, done.Token, testAnswer("done"), time.Second); err != nil {
		t.Fatal(err)
	}
	for _, name := range client.Keys(ctx, "*").Val() {
		if kept, err := client.Persist(ctx, name).Result(); err != nil || !kept {
			t.Fatalf("%s had no expiry: %v, %v", name, kept, err)
		}
	}
	time.Sleep(1100 * time.Millisecond)
	if n := client.DBSize(ctx).Val(); n != 2 {
		t.Fatalf("%d keys, want the two that nobody deletes", n)
	}
	if records, err := store.List(ctx, onceward.Query{}); err != nil || len(records) != 0 {
		t.Errorf("List shows %d absent records, error %v", len(records), err)
	}
	for _, c := range []onceward.Claim{done, abandoned} {
		if _, found, err := store.Look(ctx, c.Key); err != nil || found {
			t.Errorf("Look finds an absent record (error %v)", err)
		}
		if err := store.Complete(ctx, c.Key, c.Token, testAnswer("late"), time.Hour); !errors.Is(err, onceward.ErrClaimLost) {
			t.Errorf("Complete of an absent record: %v", err)
		}
		next := c
		next.Fingerprint.Version, next.Token[0], next.Keep = 9, 9, time.Hour
		mustClaim(t, store, next)
	}
	for _, name := range client.Keys(ctx, "*").Val() {
		if left := client.PTTL(ctx, name).Val(); left <= 0 {
			t.Errorf("the new record has no expiry: %v", left)
		}
	}
}

// Each state has the expiry that it should have, and a record that Redis has
// deleted is gone without a sweep.
func TestRedisDeletesByItself(t *testing.T) {
	client := redisClient(t, "redis://"+servers.StartRedis(t, "databases", "1").Addr)
	store := openRedis(t, client, redisstore.Config{})
	ctx := t.Context()
	c := redisClaim("user", "key", 1)
	c.Lease, c.Keep = time.Minute, time.Hour
	ttl := func() time.Duration {
		t.Helper()
		return client.PTTL(ctx, client.Keys(ctx, "*").Val()[0]).Val()
	}
	near := func(want time.Duration, when string) {
		t.Helper()
		if got := ttl(); got > want || got < want-30*time.Second {
			t.Errorf("%s the key goes in %v, want %v", when, got, want)
		}
	}
	mustClaim(t, store, c)
	near(time.Minute+time.Hour, "after Claim")
	if err := store.Extend(ctx, c.Key, c.Token, 2*time.Hour, false); err != nil {
		t.Fatal(err)
	}
	near(3*time.Hour, "after Extend")
	if err := store.Extend(ctx, c.Key, c.Token, 0, true); err != nil {
		t.Fatal(err)
	}
	if got := ttl(); got != -1 {
		t.Errorf("held, the key goes in %v, want never", got)
	}
	if err := store.Complete(ctx, c.Key, c.Token, testAnswer("done"), 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	near(2*time.Minute, "after Complete")
	forever := redisClaim("user", "forever", 1)
	forever.Keep = -1
	client.FlushDB(ctx)
	mustClaim(t, store, forever)
	if got := ttl(); got != -1 {
		t.Errorf("kept for ever, the key goes in %v", got)
	}
	client.FlushDB(ctx)
	c.Lease, c.Keep = time.Millisecond, time.Millisecond
	mustClaim(t, store, c)
	for deadline := time.Now().Add(20 * time.Second); client.DBSize(ctx).Val() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("Redis has not deleted an absent record")
		}
	}
}

// B094 for Redis: what churns leaves nothing behind but what counts.
func TestChurnLeavesNothingBehind(t *testing.T) {
	client := redisClient(t, "redis://"+servers.StartRedis(t, "databases", "1").Addr)
	store := openRedis(t, client, redisstore.Config{})
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := range 100 {
				c := redisClaim("user", fmt.Sprintf("%d-%d", w, i), 1)
				if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
					t.Errorf("claimed %v, error %v", claimed, err)
				}
				var err error
				if i%2 == 0 {
					err = store.Complete(t.Context(), c.Key, c.Token, testAnswer("done"), time.Millisecond)
				} else {
					err = store.Release(t.Context(), c.Key, c.Token)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	for deadline := time.Now().Add(20 * time.Second); client.DBSize(t.Context()).Val() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d keys are left", client.DBSize(t.Context()).Val())
		}
	}
}
