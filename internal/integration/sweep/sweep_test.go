//go:build linux

package sweep

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// whole says that every point is gone through. ONCEWARD_SWEEP_POINT names a single
// one, as a failure names it.
var (
	single = os.Getenv("ONCEWARD_SWEEP_POINT")
	whole  = single != "" || os.Getenv("ONCEWARD_SWEEP") == "all"
)

// group is the points of one store, mode and fault.
type group struct {
	place       place
	mode, fault string

	mu      sync.Mutex
	results []result
	count   int // of the statements or messages of a request
}

// B030: a process is killed at each step of a request and at each statement or
// network message to its database, and is stopped there past its lease and woken.
// What comes of it is what docs/semantics.md says, on every store in every mode; no
// key is wedged, and who was woken overwrites nothing.
func TestACrashAtAnyPointLeavesWhatTheMatrixSays(t *testing.T) {
	var table []*group
	begun := time.Now()
	t.Run("points", func(t *testing.T) {
		for _, pl := range places() {
			for _, mode := range pl.modes {
				for _, fault := range pl.faults() {
					if !whole && !pl.sampled(mode, fault) {
						continue
					}
					g := &group{place: pl, mode: mode, fault: fault}
					table = append(table, g)
					t.Run(pl.name+"/"+mode+"/"+fault, func(t *testing.T) {
						t.Parallel()
						g.run(t)
					})
				}
			}
		}
	})
	var b strings.Builder
	fmt.Fprintf(&b, "%-21s %-15s %-5s %6s | %9s %9s %9s %8s | %8s %7s %8s %6s\n",
		"store", "mode", "fault", "points", "effects=0", "effects=1", "effects=2", "unknown", "blocked", "wedged", "longest", "faults")
	points := 0
	for _, g := range table {
		if len(g.results) > 0 { // -run may have left it out
			g.print(&b)
			points += len(g.results)
		}
	}
	fmt.Printf("%s%d points in %v\n", &b, points, time.Since(begun).Round(time.Second))
}

func (g *group) print(b *strings.Builder) {
	var effects [3]int
	var unknown, blocked, wedged, faults int
	var longest time.Duration
	for _, r := range g.results {
		if r.outcome.effects < len(effects) {
			effects[r.outcome.effects]++
		}
		unknown += number(r.outcome.unknown)
		blocked += number(r.blocked)
		wedged += number(r.wedged)
		faults += number(len(r.faults) > 0)
		if !r.blocked {
			longest = max(longest, r.waited)
		}
	}
	fmt.Fprintf(b, "%-21s %-15s %-5s %6d | %9d %9d %9d %8d | %8d %7d %8s %6d\n", g.place.name, g.mode, g.fault, len(g.results),
		effects[0], effects[1], effects[2], unknown, blocked, wedged, longest.Round(10*time.Millisecond), faults)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// run goes through the group's points on several lanes.
func (g *group) run(t *testing.T) {
	n := 2
	if whole {
		n = 6 // most of the time each waits for a lease
	}
	if strings.HasPrefix(g.place.name, "redis-") {
		n = 1 // each lane has servers of its own, half a dozen
	}
	all := openLanes(t, g.place, g.mode, n)
	next := g.points(t, all[0])
	var running sync.WaitGroup
	for _, l := range all {
		running.Go(func() {
			for at, ok := next(); ok; at, ok = next() {
				g.note(t, l.run(t.Context(), at))
			}
		})
	}
	running.Wait()
	if len(g.results) == 0 && single == "" {
		t.Error("no point was reached")
	}
}

// note keeps a result. The first point that is not reached is the end of its kind.
func (g *group) note(t *testing.T, r result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range r.faults {
		t.Errorf("%v: %s", r.point, f)
	}
	if len(r.faults) > 0 {
		t.Logf("%v: the victim wrote\n%s", r.point, r.log)
	}
	if r.reached {
		g.results = append(g.results, r)
		return
	}
	if r.point.Step != "" {
		t.Errorf("%v: that step does not come", r.point)
	}
	g.count = min(g.count, r.point.N-1)
}

// points returns a function that gives out the points.
func (g *group) points(t *testing.T, l *lane) (next func() (point, bool)) {
	t.Helper()
	var list []point
	if g.fault != cut {
		for _, step := range steps {
			list = append(list, point{Fault: g.fault, Step: step})
		}
	}
	named, n := len(list), 0
	if g.place.kind != "" {
		var err error
		if n, err = l.measure(t.Context(), g.fault); err != nil {
			t.Fatal(err)
		}
		if n < 3 {
			t.Fatalf("a request has %d of the kind %q", n, g.place.kind)
		}
		// A request that is struck may have more of them: the list ends where one is
		// not reached.
		g.count = n + 50
		for i := 1; i <= g.count; i++ {
			for _, after := range []bool{false, true} {
				list = append(list, point{Fault: g.fault, Kind: g.place.kind, N: i, After: after})
			}
		}
	}
	if !whole {
		list = sample(t, list, named, n)
	}
	if single != "" {
		list = slices.DeleteFunc(list, func(p point) bool { return p.String() != single })
	}
	i := 0
	return func() (point, bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if i == len(list) || list[i].Step == "" && list[i].N > g.count {
			return point{}, false
		}
		i++
		return list[i-1], true
	}
}

// sample takes two of the named points and two of the n pairs of others.
func sample(t *testing.T, list []point, named, n int) []point {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("the sample's seed is %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var taken []point
	for _, i := range r.Perm(named)[:min(named, 2)] {
		taken = append(taken, list[i])
	}
	for _, i := range r.Perm(2 * n)[:min(2*n, 2)] {
		taken = append(taken, list[named+i])
	}
	return taken
}

// measure says how many statements, or messages, a request that nobody strikes
// has. It sends two: the first may bring with it what is done once for a server.
func (l *lane) measure(ctx context.Context, fault string) (n int, err error) {
	if _, err = l.measureOnce(ctx, fault); err != nil {
		return 0, err
	}
	return l.measureOnce(ctx, fault)
}

func (l *lane) measureOnce(ctx context.Context, fault string) (n int, err error) {
	l.runs++
	at := point{Fault: fault, Kind: l.place.kind}
	victim, px, err := l.startVictim(fmt.Sprintf("victim-%d", l.runs), at)
	if err != nil {
		return 0, err
	}
	defer victim.kill()
	if px != nil {
		defer px.close()
		px.arm(0, false, nil, nil)
	}
	key := fmt.Sprintf("measured-%s-%d", fault, l.runs)
	if a := send(ctx, victim.url, key); a.status != "executed" {
		return 0, fmt.Errorf("a request is answered with %v\n%s", a, &victim.log)
	}
	if px != nil {
		return px.messages(), nil
	}
	resp, err := client.Get(victim.url + "/statements")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %w", resp.Status, err)
	}
	return count(string(text)), nil
}
