package redisstore

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
)

func TestWhatAServerSaysOfItselfDecides(t *testing.T) {
	fine := "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\ncluster_enabled:0\r\n"
	for _, c := range []struct {
		name, text string
		cluster    bool
		want       error
		warning    string // in the log; "" wants an empty one
	}{
		{name: "Redis 7", text: fine},
		{name: "Valkey 8", text: "# Server\r\n" + fine + "server_name:valkey\r\nvalkey_version:8.1.0\r\n"},
		{name: "Redis 5", text: strings.Replace(fine, "7.0.15", "5.0.0", 1)},
		{name: "Redis 4", text: strings.Replace(fine, "7.0.15", "4.0.14", 1), want: ErrTooOld},
		{name: "Redis 10", text: strings.Replace(fine, "7.0.15", "10.1.0", 1)},
		{name: "no version", text: strings.Replace(fine, "redis_version", "version", 1), warning: "version"},
		{name: "allkeys-lru", text: strings.Replace(fine, "noeviction", "allkeys-lru", 1), want: ErrEvicting},
		{name: "volatile-ttl", text: strings.Replace(fine, "noeviction", "volatile-ttl", 1), want: ErrEvicting},
		{name: "no policy", text: strings.Replace(fine, "maxmemory_policy", "x", 1), warning: "maxmemory-policy"},
		{name: "no append-only file", text: strings.Replace(fine, "aof_enabled:1", "aof_enabled:0", 1), warning: "appendonly"},
		{name: "a Cluster's node", text: strings.Replace(fine, "cluster_enabled:0", "cluster_enabled:1", 1), cluster: true},
		{name: "nothing", text: "", warning: "version"},
	} {
		var log bytes.Buffer
		err := judge(parseInfo(c.text), c.cluster, slog.New(slog.NewTextHandler(&log, nil)))
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if said := log.String(); !strings.Contains(said, c.warning) || c.warning == "" && said != "" {
			t.Errorf("%s: the log says %q, want %q in it", c.name, said, c.warning)
		}
	}
	node := parseInfo(strings.Replace(fine, "cluster_enabled:0", "cluster_enabled:1", 1))
	if err := judge(node, false, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "ClusterClient") {
		t.Errorf("a plain client on a Cluster's node: %v, want an error that names the right client", err)
	}
}

func TestNewNamesTheClientThatItNeeds(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for _, client := range []redis.UniversalClient{nil, ring} {
		if _, err := New(t.Context(), client, Config{}); err == nil {
			t.Errorf("New with a %T succeeds", client)
		}
	}
}

func TestWhichErrorsMeanThatInfoIsClosed(t *testing.T) {
	for text, want := range map[string]bool{
		"NOPERM this user has no permissions to run the 'info' command": true,
		"ERR unknown command 'INFO'":                                    true,
		"LOADING Redis is loading the dataset in memory":                false,
		"NOAUTH Authentication required.":                               false,
		"WRONGPASS invalid username-password pair or user is disabled.": false,
	} {
		if got := closed(reply(text)); got != want {
			t.Errorf("closed(%s) is %v", text, got)
		}
	}
	if closed(nil) || closed(io.EOF) {
		t.Error("no error, or a broken connection, counts as closed")
	}
}

// reply is an error as a server sends it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestRedirectionsAreRead(t *testing.T) {
	for text, want := range map[string]struct {
		addr       string
		asking, ok bool
	}{
		"MOVED 3999 127.0.0.1:6381": {"127.0.0.1:6381", false, true},
		"ASK 3999 [::1]:6381":       {"[::1]:6381", true, true},
		"MOVED":                     {},
		"ERR MOVED 1 x":             {},
		"NOSCRIPT No matching":      {},
	} {
		addr, asking, ok := redirection(reply(text))
		if addr != want.addr || asking != want.asking || ok != want.ok {
			t.Errorf("%q: %q, asking %v, %v", text, addr, asking, ok)
		}
	}
	if _, _, ok := redirection(io.EOF); ok {
		t.Error("a broken connection is a redirection")
	}
}

func TestNamesAreReadBack(t *testing.T) {
	for _, prefix := range []string{"idempotency:", "", "{one slot}:", "*[a-z]?"} {
		s := &Store{prefix: prefix}
		want := onceward.NewKey("user", "key")
		name := s.name(want)
		if got, ok := s.keyOf(name); !ok || got != want {
			t.Errorf("%s is not read back", name)
		}
		for _, strange := range []string{"", prefix, "x" + name, name + "x", name[:len(name)-1] + "!", strings.Replace(name, ".", "-", 1), prefix + strings.Repeat("{", nameLength)} {
			if key, ok := s.keyOf(strange); ok {
				t.Errorf("%q is read as the key %x", strange, key.ID)
			}
		}
	}
}

// Whatever the name, reading it gives a key that has this name, or nothing.
func FuzzName(f *testing.F) {
	s := &Store{prefix: "p:"}
	f.Add(s.name(onceward.NewKey("a", "b")))
	f.Add("p:{" + strings.Repeat("A", 43) + "." + strings.Repeat("B", 43) + "}")
	f.Fuzz(func(t *testing.T, name string) {
		if key, ok := s.keyOf(name); ok && s.name(key) != name {
			t.Errorf("%q is read as a key whose name is %q", name, s.name(key))
		}
	})
}

func asFields(t testing.TB, resp *onceward.Response) fields {
	t.Helper()
	args, err := answerFields(nil, resp)
	if err != nil {
		t.Fatal(err)
	}
	f := fields{}
	for i := 0; i < len(args); i += 2 {
		f[args[i].(string)] = string(args[i+1].([]byte))
	}
	return f
}

func completed(answer fields) fields {
	f := fields{
		"st": "201", "fp": strings.Repeat("f", 33), "tk": strings.Repeat("t", 16), "rq": "POST /a b",
		"at": "1000", "kp": "500",
	}
	maps.Copy(f, answer)
	return f
}

func TestAnAnswerOfAnyLengthIsPutTogetherAgain(t *testing.T) {
	for _, n := range []int{0, 1, 62, 63, 64, 126, 127, 503, 504, 505, 5000} {
		header := http.Header{"X-Long": {strings.Repeat("h", n)}}
		resp := &onceward.Response{Status: 201, Header: header, Body: bytes.Repeat([]byte("b"), n), BodyOmitted: n == 0}
		f := asFields(t, resp)
		for name, value := range f {
			if len(value) > pieceLength && len(value) <= pieceLength*maxPieces {
				t.Errorf("%d bytes: the piece %s has %d", n, name, len(value))
			}
		}
		rec, err := completed(f).record(onceward.Key{}, 1200)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		got := rec.Response
		if got.Status != 201 || !reflect.DeepEqual(got.Header, header) || !bytes.Equal(got.Body, resp.Body) || got.BodyOmitted != resp.BodyOmitted {
			t.Errorf("%d bytes: came back with %d and status %d", n, len(got.Body), got.Status)
		}
		if rec.Age != 200*time.Millisecond || rec.Method != "POST" || rec.Path != "/a b" || rec.State != onceward.Completed {
			t.Errorf("%d bytes: the record is %+v", n, rec)
		}
	}
}

func TestADamagedRecordIsAnEncodingError(t *testing.T) {
	whole := completed(asFields(t, &onceward.Response{Status: 204}))
	for name := range whole {
		if name == "st" || name == "kp" {
			continue // they decide in the scripts; what is read here does not need them
		}
		f := maps.Clone(whole)
		f[name] = "?"
		if _, err := f.record(onceward.Key{}, 0); !errors.Is(err, onceward.ErrEncoding) {
			t.Errorf("%s is damaged: %v, want ErrEncoding", name, err)
		}
	}
	for _, extra := range []string{"n", "le"} {
		f := maps.Clone(whole)
		f[extra] = "?"
		if _, err := f.record(onceward.Key{}, 0); !errors.Is(err, onceward.ErrEncoding) {
			t.Errorf("%s is damaged: %v, want ErrEncoding", extra, err)
		}
	}
}

// Reading a record never panics, and what cannot be read says so.
func FuzzRecord(f *testing.F) {
	whole := completed(asFields(f, &onceward.Response{Status: 201, Header: http.Header{"A": {"b"}}, Body: []byte("c")}))
	f.Add(whole["fp"], whole["tk"], whole["rq"], "2", "1000", "", whole["hd"], "c")
	f.Add(whole["fp"], whole["tk"], "POST", "", "", "5", "", "")
	f.Fuzz(func(t *testing.T, fp, tk, rq, n, at, le, hd, bd string) {
		r := fields{"fp": fp, "tk": tk, "rq": rq, "at": at, "hd": hd, "bd": bd}
		if n != "" {
			r["n"] = n
		}
		if le != "" {
			r["le"] = le
		}
		rec, err := r.record(onceward.Key{}, 1000)
		if err != nil && !errors.Is(err, onceward.ErrEncoding) {
			t.Errorf("%v does not wrap ErrEncoding", err)
		}
		if err == nil && (rec.State == onceward.Completed) != (rec.Response != nil) {
			t.Errorf("state %v, response %v", rec.State, rec.Response)
		}
	})
}

func TestWhenAListedRecordIsAbsent(t *testing.T) {
	for _, c := range []struct {
		name string
		f    fields
		want bool
	}{
		{"leased", fields{"st": "in-progress", "le": "1500", "kp": "0"}, false},
		{"kept to this very moment", fields{"st": "in-progress", "le": "500", "kp": "500"}, false},
		{"kept long enough", fields{"st": "in-progress", "le": "500", "kp": "499"}, true},
		{"kept for ever", fields{"st": "in-progress", "le": "1", "kp": "-1"}, false},
		{"held", fields{"st": "held", "le": "1", "kp": "1"}, false},
		{"completed", fields{"st": "201", "at": "500", "kp": "501"}, false},
		{"retention over", fields{"st": "201", "at": "500", "kp": "500"}, true},
	} {
		if got := c.f.absent(1000); got != c.want {
			t.Errorf("%s: absent is %v", c.name, got)
		}
	}
}

func TestSeenKeysAreAHint(t *testing.T) {
	s := new(seen)
	a, b := onceward.NewKey("user", "a"), onceward.NewKey("user", "b")
	if s.has(a) || s.has(onceward.Key{}) {
		t.Error("a key is seen before it was added")
	}
	s.add(a)
	if s.drop(b); !s.has(a) || s.has(b) {
		t.Error("the hint is another key's")
	}
	if s.drop(a); s.has(a) {
		t.Error("a key is seen after it was dropped")
	}
}

func TestMillisecondsAreRoundedUpAndBounded(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, -1: 0, -time.Millisecond: -1, time.Hour: 3_600_000,
	} {
		if got := milli(d); got != want {
			t.Errorf("milli(%v) is %d, want %d", d, got, want)
		}
	}
	// Two of the longest and the present time are still exact in Lua's numbers.
	if sum := 2*milli(math.MaxInt64) + time.Now().UnixMilli(); sum > 1<<53 || milli(math.MinInt64) < -1<<52 {
		t.Errorf("the longest times add up to %d", sum)
	}
}
