//go:build linux

package sweep

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// wait has a victim stand still at a step until the parent lets it go on.
const wait = "wait"

const (
	rowOutageShort = "loses the store after the work, for less than a lease"
	rowOutageLong  = "loses the store after the work, for longer than a lease"
)

// The work is done, and its answer cannot be kept because the store is gone for a
// while. The client is told the truth, executed;unrecorded, and under Atomic nothing
// before the commit. A store that is back in time has the answer; otherwise it is
// as if the process had died.
func TestAStoreThatIsLostAfterTheWork(t *testing.T) {
	for _, pl := range places() {
		if pl.kind != message {
			continue // it is in the process, or in a file
		}
		for _, mode := range pl.modes {
			for _, row := range []string{rowOutageShort, rowOutageLong} {
				t.Run(pl.name+"/"+mode+"/"+row, func(t *testing.T) {
					t.Parallel()
					outage(t, pl, mode, row)
				})
			}
		}
	}
}

func outage(t *testing.T, pl place, mode, row string) {
	long := row == rowOutageLong
	l := openLanes(t, pl, mode, 1)[0]
	if !long {
		l.lease = 10 * time.Second
	}
	addr, messages := l.site.upstream()
	px, err := startProxy(addr, messages)
	if err != nil {
		t.Fatal(err)
	}
	defer px.close()
	victim, err := l.start("victim", point{Fault: wait, Step: beforeComplete}, px.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer victim.kill()
	const key = "outage"
	first := make(chan answer, 1)
	go func() { first <- send(t.Context(), victim.url, key) }()
	<-victim.reached
	px.setDown(true)
	if resp, err := client.Post(victim.url+"/go", "", http.NoBody); err != nil {
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	if !long {
		time.Sleep(100 * time.Millisecond)
		px.setDown(false)
	}
	a := <-first
	if long {
		time.Sleep(l.lease + 500*time.Millisecond)
		px.setDown(false)
	}
	r := result{}
	switch {
	case mode == atomic && (a.acknowledged() || a.err != nil) && long:
		r.fault("without a commit the client was told %v", a)
	case mode != atomic && !a.acknowledged():
		r.fault("the work was done and the client was told %v", a)
	case mode != atomic && long && !a.unrecorded:
		r.fault("the answer was not kept and the client was told %v", a)
	}
	last, tries, waited := repeat(t.Context(), l.healthy.url, key, l.freedWithin())
	r.waited, r.wedged = waited, !last.final()
	again, more, _ := repeat(t.Context(), l.healthy.url, key, l.freedWithin())
	answers := append(append([]answer{a}, tries...), more...)
	if !long && mode != atomic && again.text != a.text {
		r.fault("the answer that was kept late is %v", again)
	}
	if err := l.judge(t.Context(), key, matrix[row][mode], answers, &r); err != nil {
		r.fault("%v", err)
	}
	for _, f := range r.faults {
		t.Error(f)
	}
	if len(r.faults) > 0 {
		t.Logf("the victim wrote\n%s", &victim.log)
	}
}

// setDown cuts all connections and refuses new ones, or no longer does.
func (p *proxy) setDown(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.cut()
	}
}

// pause is a victim's part of wait.
func (a *aim) pause() error {
	select {
	case <-a.resume:
		return nil
	case <-time.After(30 * time.Second):
		return errors.New("nobody lets it go on")
	}
}

// goOn answers the parent who lets it.
func (a *aim) goOn(w http.ResponseWriter, _ *http.Request) {
	close(a.resume)
	fmt.Fprintln(w, "it goes on")
}
