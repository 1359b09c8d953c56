//go:build linux

package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// lease is a victim's. It is renewed at one third.
	lease = time.Second
	// margin is what a busy machine may need beyond a lease, or beyond what stands
	// for one, until a repeat is told how things are. That nobody waits longer than a
	// lease is judged by the store's clock (lane.takeOver), not by this.
	margin = 3 * time.Second
)

// lane goes through points one after another, with a store of its own and a healthy
// process that takes the repeats.
type lane struct {
	place   place
	mode    string
	site    site
	lease   time.Duration
	healthy *process
	runs    int
}

// openLanes opens n lanes.
func openLanes(t *testing.T, pl place, mode string, n int) []*lane {
	t.Helper()
	lanes, failed := make([]*lane, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range lanes {
		l := &lane{place: pl, mode: mode, site: pl.open(t), lease: lease}
		lanes[i] = l
		starting.Go(func() { l.healthy, failed[i] = l.start("healthy", point{}, "") })
	}
	starting.Wait()
	for i, l := range lanes {
		if failed[i] == nil {
			t.Cleanup(l.healthy.end)
		}
	}
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	return lanes
}

// The limits of those that are healthy, and of Atomic victims that are stopped:
// for as long as these the stopped one keeps its key. All others have time.
const (
	storeTime = time.Second
	workTime  = 2 * time.Second
)

// start starts a victim.
func (l *lane) start(name string, at point, via string) (*process, error) {
	p := l.site.plan(via)
	p.Store, p.Mode, p.Name, p.Point, p.Lease = l.place.name, l.mode, name, at, l.lease
	p.StoreTimeout, p.MaxTransaction = storeTime, workTime
	if at != (point{}) && (at.Fault != stop || l.mode != atomic) {
		p.StoreTimeout, p.MaxTransaction = 20*time.Second, 20*time.Second
	}
	return start(p)
}

// freedWithin is how long a repeat may have to wait. An Atomic request has no
// lease: where the server can end the transaction of a process that is stopped, it
// does so a second after that one's time is over.
func (l *lane) freedWithin() time.Duration {
	if l.mode == atomic {
		return storeTime + workTime + time.Second + margin
	}
	return l.lease + margin
}

// result is what came of a point.
type result struct {
	point   point
	reached bool
	moment  moment
	outcome outcome
	blocked bool          // the stopped process kept everybody from the store until it was woken
	wedged  bool          // the repeat was told nothing final in time, for no such reason
	waited  time.Duration // how long the repeat had to wait
	faults  []string
	log     string // what the victim wrote
}

func (r *result) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// run strikes a victim at a point and looks what comes of it.
func (l *lane) run(ctx context.Context, at point) (r result) {
	l.runs++
	r.point = at
	if err := l.try(ctx, at, &r); err != nil {
		r.fault("%v", err)
	}
	return r
}

func (l *lane) try(ctx context.Context, at point, r *result) error {
	name := fmt.Sprintf("victim-%d", l.runs)
	key := strings.NewReplacer(" ", "-").Replace(fmt.Sprintf("%s-%s", at, name))
	victim, px, err := l.startVictim(name, at)
	if err != nil {
		return err
	}
	defer func() {
		victim.kill()
		if px != nil {
			px.close()
		}
		r.log = victim.log.String()
	}()
	awake := make(chan struct{})
	struck := victim.reached
	if px != nil {
		struck = l.arm(px, victim, at, awake)
	}

	first := make(chan answer, 1)
	go func() { first <- send(ctx, victim.url, key) }()
	select {
	case <-struck:
	case a := <-first:
		first <- a
		select {
		case <-struck:
		case <-time.After(20 * time.Millisecond): // it may have been struck while it answered
			if px == nil && a.err == nil || px != nil && !px.reached() {
				return l.unharmed(ctx, key, a, r)
			}
			select {
			case <-struck:
			case <-time.After(10 * time.Second):
				return fmt.Errorf("the victim came to nothing before its point: %v", a)
			}
		}
	case <-time.After(30 * time.Second):
		return errors.New("the victim neither answered nor came to its point")
	}
	r.reached = true
	switch at.Fault {
	case kill:
		return l.killed(ctx, key, victim, first, r)
	case stop:
		return l.stopped(ctx, key, victim, first, awake, r)
	}
	return l.cut(ctx, key, victim, first, r)
}

// startVictim starts the process and, if messages are counted, its proxy.
func (l *lane) startVictim(name string, at point) (*process, *proxy, error) {
	if at.Step != "" || at.Kind != message {
		v, err := l.start(name, at, "")
		return v, nil, err
	}
	addr, messages := l.site.upstream()
	if at.Fault == stop {
		messages = chunks
	}
	px, err := startProxy(addr, messages)
	if err != nil {
		return nil, nil, err
	}
	v, err := l.start(name, at, px.addr())
	if err != nil {
		px.close()
		return nil, nil, err
	}
	return v, px, nil
}

// arm has the proxy strike the victim. A message that a stopped victim was struck
// before arrives when it is awake again: late, not never.
func (l *lane) arm(px *proxy, victim *process, at point, awake <-chan struct{}) (struck chan struct{}) {
	struck = make(chan struct{})
	switch at.Fault {
	case kill:
		px.arm(at.N, at.After, func() { victim.kill(); close(struck) }, nil)
	case stop:
		px.arm(at.N, at.After, func() { victim.halt(); close(struck) }, awake)
	case cut:
		px.arm(at.N, at.After, func() { px.cut(); close(struck) }, nil)
	}
	return struck
}

// unharmed judges a request that ended before its point.
func (l *lane) unharmed(ctx context.Context, key string, a answer, r *result) error {
	if a.status != "executed" || a.unrecorded {
		r.fault("without a blow the answer is %v", a)
	}
	n, err := l.site.effects(ctx, key)
	if err == nil && n != 1 {
		r.fault("without a blow there are %d effects", n)
	}
	return err
}

// look says what is durable now.
func (l *lane) look(ctx context.Context, key string) (m moment, err error) {
	if m.record, err = l.site.record(ctx, key); err != nil {
		return m, err
	}
	m.effects, err = l.site.effects(ctx, key)
	return m, err
}

func (l *lane) killed(ctx context.Context, key string, victim *process, first <-chan answer, r *result) (err error) {
	<-victim.exited
	want := outcome{effects: 1}
	// Under Atomic there is no other outcome. There half of the repeats come at once,
	// while the server may still be at what it has received.
	if l.mode != atomic || r.point.Kind != message || !r.point.After {
		if want, err = l.afterKill(ctx, key, victim, r); err != nil {
			return err
		}
	}
	answers := []answer{<-first}
	last, tries, waited := l.takeOver(ctx, key, l.freedWithin(), r)
	answers = append(answers, tries...)
	r.waited, r.wedged = waited, !last.final()
	_, tries, _ = repeat(ctx, l.healthy.url, key, l.freedWithin())
	answers = append(answers, tries...)
	return l.judge(ctx, key, want, answers, r)
}

// takeOver is repeat at the healthy process for a key whose owner is dead or stopped.
// No key stays wedged longer than its lease: whoever asks when the lease is over, by
// the store's own clock, is not told that it is still in progress.
func (l *lane) takeOver(ctx context.Context, key string, limit time.Duration, r *result) (last answer, tries []answer, waited time.Duration) {
	for begun := time.Now(); ; {
		lapsed, err := l.site.lapsed(ctx, key)
		if err != nil {
			r.fault("before a repeat: %v", err)
		}
		last = send(ctx, l.healthy.url, key)
		tries = append(tries, last)
		waited = time.Since(begun)
		if lapsed && last.err == nil && last.status == "in-progress" {
			r.fault("the lease was over, and a repeat sent after that is told %v", last)
		}
		if last.final() || waited > limit {
			return last, tries, waited
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// afterKill says what must come of what a dead victim has left.
func (l *lane) afterKill(ctx context.Context, key string, victim *process, r *result) (want outcome, err error) {
	if err := l.site.settle(ctx, victim.plan.Name, true); err != nil {
		return want, err
	}
	if r.moment, err = l.look(ctx, key); err != nil {
		return want, err
	}
	if l.place.name == "memory" { // it has forgotten everything
		return outcome{effects: r.moment.effects + 1}, nil
	}
	l.compareStep(r)
	return expected(l.mode, kill, r.moment, false)
}

// stopped has the victim stopped past its lease while another process takes the
// repeat, and then woken.
func (l *lane) stopped(ctx context.Context, key string, victim *process, first <-chan answer, awake chan struct{}, r *result) (err error) {
	if err := victim.halted(); err != nil {
		return err
	}
	if err := l.site.settle(ctx, victim.plan.Name, false); err != nil {
		return err
	}
	if r.moment, err = l.look(ctx, key); err != nil {
		return err
	}
	if l.place.name == "memory" {
		return l.stoppedAlone(ctx, key, victim, first, r)
	}
	l.compareStep(r)
	locked, err := l.site.locked(ctx)
	if err != nil {
		return err
	}
	// Stopped past its lease, whoever comes meanwhile.
	lapsed := time.After(lease + 200*time.Millisecond)
	limit := l.freedWithin()
	if locked {
		limit = lease + 500*time.Millisecond // it lasts until the process is woken
	}
	last, tries, waited := l.takeOver(ctx, key, limit, r)
	r.waited = waited
	switch {
	case !last.final() && locked:
		r.blocked = true
	case !last.final():
		r.wedged = true
	}
	<-lapsed
	close(awake)
	if err := victim.wake(); err != nil {
		return err
	}
	var answers []answer
	select {
	case a := <-first:
		answers = append(answers, a)
	case <-time.After(30 * time.Second):
		return errors.New("the woken victim does not answer")
	}
	answers = append(answers, tries...)
	want, err := expected(l.mode, stop, r.moment, r.blocked)
	if err != nil {
		return err
	}
	last, tries, _ = repeat(ctx, l.healthy.url, key, l.freedWithin())
	if answers = append(answers, tries...); !last.acknowledged() {
		r.fault("when the stopped process has gone on, the repeat is told %v", last)
	}
	// The woken process itself must say the same as all others.
	again, tries, _ := repeat(ctx, victim.url, key, l.freedWithin())
	if answers = append(answers, tries...); again.status != "replayed" {
		r.fault("a repeat at the woken process is told %v", again)
	}
	_, tries, _ = repeat(ctx, l.healthy.url, key, l.freedWithin())
	answers = append(answers, tries...)
	return l.judge(ctx, key, want, answers, r)
}

// stoppedAlone is stopped for a store that lives in the process: nobody else can
// take the repeat, and none that comes to it may start a second copy.
func (l *lane) stoppedAlone(ctx context.Context, key string, victim *process, first <-chan answer, r *result) error {
	time.Sleep(lease + 200*time.Millisecond)
	if err := victim.wake(); err != nil {
		return err
	}
	last, tries, waited := repeat(ctx, victim.url, key, l.freedWithin())
	r.waited, r.wedged = waited, !last.final()
	answers := append([]answer{<-first}, tries...)
	_, tries, _ = repeat(ctx, victim.url, key, l.freedWithin())
	answers = append(answers, tries...)
	return l.judge(ctx, key, outcome{effects: 1}, answers, r)
}

// compareStep: a step is a place in the request, so what is durable there is known.
func (l *lane) compareStep(r *result) {
	if r.point.Step == "" {
		return
	}
	if want := momentOf(l.mode, r.point.Step); r.moment != want {
		r.fault("the record was %s and there were %d effects, want %s and %d", r.moment.record, r.moment.effects, want.record, want.effects)
	}
}

// judge compares what there is in the end with what the matrix says. The last of
// the answers came to a repeat of a request whose fate was known.
func (l *lane) judge(ctx context.Context, key string, want outcome, answers []answer, r *result) (err error) {
	last := answers[len(answers)-1]
	r.outcome.unknown = last.status == "outcome-unknown"
	if r.outcome.effects, err = l.site.effects(ctx, key); err != nil {
		return err
	}
	if r.outcome != want {
		r.fault("%v, want %v", r.outcome, want)
	}
	if r.wedged {
		r.fault("the repeat was told nothing final for %v", r.waited.Round(time.Millisecond))
	}
	if last.status != "replayed" && !want.unknown {
		r.fault("a further repeat is told %v", last)
	}
	if first := slices.IndexFunc(answers, answer.kept); first >= 0 {
		for _, a := range answers {
			if a.kept() && a.text != answers[first].text {
				r.fault("two answers differ: %v and %v", answers[first], a)
			}
		}
	}
	if len(r.faults) > 0 {
		for i, a := range answers {
			if i == 0 || a != answers[i-1] {
				r.fault("answer %d of %d: %v", i+1, len(answers), a)
			}
		}
	}
	return nil
}

func (o outcome) String() string {
	if o.unknown {
		return fmt.Sprintf("%d effects, outcome unknown", o.effects)
	}
	return fmt.Sprintf("%d effects", o.effects)
}
