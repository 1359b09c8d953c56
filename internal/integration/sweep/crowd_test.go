//go:build linux

package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// Several Atomic requests are under way when the process is killed; on SQLite they
// share a commit. Each is there whole or not at all, and is carried out once.
func TestAKilledCrowdOfAtomicRequestsIsCarriedOutOnceEach(t *testing.T) {
	for _, pl := range places() {
		if slices.Contains(pl.modes, atomic) {
			t.Run(pl.name, func(t *testing.T) {
				t.Parallel()
				killCrowds(t, pl)
			})
		}
	}
}

const crowd = 6

func killCrowds(t *testing.T, pl place) {
	n, rounds := 2, 3
	if whole {
		n, rounds = 6, 60
	}
	lanes := openLanes(t, pl, atomic, n)
	once, err := lanes[0].measure(t.Context(), kill)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	points := make(chan point, n*rounds)
	for range n * rounds {
		// They have some statements in common, so that this is not always reached.
		points <- point{Fault: kill, Kind: pl.kind, N: 1 + random.IntN(once*crowd*3/4), After: random.IntN(2) == 0}
	}
	close(points)
	var mu sync.Mutex
	reached, halves := 0, 0
	var running sync.WaitGroup
	for _, l := range lanes {
		running.Go(func() {
			for at := range points {
				was, done, err := l.killCrowd(t.Context(), at)
				mu.Lock()
				if err != nil {
					t.Errorf("%v of a crowd: %v", at, err)
				}
				reached += number(was)
				halves += number(was && 0 < done && done < crowd)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	fmt.Printf("%s: a crowd of %d Atomic requests was killed at %d points; at %d of them some were done and others not\n", pl.name, crowd, reached, halves)
	if reached == 0 {
		t.Error("no point was reached")
	}
}

// killCrowd strikes a victim that has several requests, and says how many were done
// by then.
func (l *lane) killCrowd(ctx context.Context, at point) (reached bool, done int, err error) {
	l.runs++
	victim, px, err := l.startVictim(fmt.Sprintf("victim-%d", l.runs), at)
	if err != nil {
		return false, 0, err
	}
	defer victim.kill()
	struck := victim.reached
	if px != nil {
		defer px.close()
		struck = l.arm(px, victim, at, nil)
	}
	keys, first := make([]string, crowd), make([]answer, crowd)
	var sending sync.WaitGroup
	for i := range keys {
		keys[i] = fmt.Sprintf("crowd-%d-%d", l.runs, i)
		sending.Go(func() { first[i] = send(ctx, victim.url, keys[i]) })
	}
	sending.Wait()
	select {
	case <-struck:
		reached = true
	case <-time.After(50 * time.Millisecond):
	}
	victim.kill()
	if err := l.site.settle(ctx, victim.plan.Name, true); err != nil {
		return reached, 0, err
	}
	for i, key := range keys {
		m, err := l.look(ctx, key)
		if err != nil {
			return reached, done, err
		}
		if m != (moment{absent, 0}) && m != (moment{completed, 1}) {
			return reached, done, fmt.Errorf("the record was %s and there were %d effects", m.record, m.effects)
		}
		if first[i].kept() && m.record != completed {
			return reached, done, fmt.Errorf("the client was told %v, and the record is %s", first[i], m.record)
		}
		done += m.effects
		last, _, _ := repeat(ctx, l.healthy.url, key, l.freedWithin())
		again, _, _ := repeat(ctx, l.healthy.url, key, l.freedWithin())
		switch {
		case !last.kept() || again.status != "replayed":
			return reached, done, fmt.Errorf("the repeats were told %v and %v", last, again)
		case again.text != last.text || first[i].kept() && first[i].text != last.text:
			return reached, done, fmt.Errorf("three answers differ: %v, %v, %v", first[i], last, again)
		}
		if n, err := l.site.effects(ctx, key); err != nil || n != 1 {
			return reached, done, fmt.Errorf("%d effects, %v", n, err)
		}
	}
	return reached, done, nil
}
