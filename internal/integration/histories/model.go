package histories

import (
	"fmt"
	"time"
)

// The contract of onceward.Store for one key, as a machine whose step says which
// states may follow when a call happens and gives the answer that it gave.
//
// Time is what makes it more than a table. Nobody knows at which moment between
// its beginning and its end a call happened, nor what the store's clock said
// then. So each deadline (a lease, a retention) is kept as the span of instants
// in which it must lie, and a call may find it over if it could have been over,
// and still running if it could have been running. Both may be possible: then
// the machine goes on in both. What is learnt narrows the span: a record that
// was reported with 3 s left has its deadline there, and one that was found
// alive was not over before the call began. The spans are never narrower than
// the truth, so a right store is never called wrong.
type state struct {
	phase   phase
	token   uint64
	print   int
	attempt int
	held    bool
	keep    time.Duration // as claimed; negative: for ever
	end     span          // in progress: of the lease; completed: of the retention
	body    string        // of the answer
	met     int           // so many refused claims have met this token in this phase
	leased  *Op           // what the lease comes from
	metHere int           // so many of them can have met it under this lease alone
}

type phase uint8

const (
	absent phase = iota
	inProgress
	completed
)

// span is an instant that is known to lie between two.
type span struct{ low, high int64 }

func (s span) plus(d time.Duration) span {
	return span{s.low + int64(d), min(forever, s.high+int64(d))}
}

func (s span) and(other span) (span, bool) {
	both := span{max(s.low, other.low), min(s.high, other.high)}
	return both, both.low <= both.high
}

// mayBeOver and mayRun say what a call that happened within now may have found
// of a deadline within s.
func (s span) mayBeOver(now span) bool { return now.high >= s.low }
func (s span) mayRun(now span) bool    { return now.low <= s.high }

// slack is how far a store's idea of a duration may be from ours: a rounding to
// milliseconds on either side, and a clock that is not read at the same instant.
const slack = int64(10 * time.Millisecond)

// wide is s with the slack of a store's clock around it.
func (s span) wide() span { return span{s.low - slack, min(forever, s.high+slack)} }

func (o *Op) now() span { return span{o.begun(), o.ended()} }

// deadline is where something ends that began with this call and lasts for d.
func (o *Op) deadline(d time.Duration) span { return o.now().plus(d).wide() }

// guide is what is known of a whole history and spares the search its dead ends.
// A token is claimed once, so its record is in progress for one stretch of time
// and completed for one, and has each of its leases for one: whoever met it did so
// within. None of them may therefore end before all have met it who ever do, and
// only with the answer that they saw. A claim that is repeated after its end makes
// a second stretch, and then the guide is wrong; so where nothing is found with
// it, the search is made again without.
type guide struct {
	running, answered map[uint64]int // how many refused claims meet a token
	body              map[uint64]string
	under             map[*Op]*Op // whose lease a refused claim met, if only one's fits
	meet              map[*Op]int // how many meet this one's lease alone
}

func guideTo(history []*Op) *guide {
	g := &guide{map[uint64]int{}, map[uint64]int{}, map[uint64]string{}, map[*Op]*Op{}, map[*Op]int{}}
	leases := map[uint64][]*Op{}
	claims := map[uint64]int{}
	for _, o := range history {
		if o.Kind == Claim && o.Result != Taken {
			claims[o.Token]++
			leases[o.Token] = append(leases[o.Token], o)
		}
		if o.Kind == Extend && o.Result != Lost {
			leases[o.Token] = append(leases[o.Token], o)
		}
	}
	for _, o := range history {
		token := o.Seen.Token
		switch {
		case o.Result != Taken:
			continue
		case o.Seen.Completed:
			g.answered[token]++
			g.body[token] = o.Seen.Body
			continue
		}
		g.running[token]++
		if claims[token] > 1 {
			continue // a repeat keeps the later of two ends
		}
		var fits []*Op
		for _, from := range leases[token] {
			if _, ok := from.deadline(from.Lease).and(o.deadline(o.Seen.Left)); ok {
				fits = append(fits, from)
			}
		}
		if len(fits) == 1 {
			g.under[o] = fits[0]
			g.meet[fits[0]]++
		}
	}
	return g
}

// mayEnd says whether s's phase may be over.
func (g *guide) mayEnd(s state) bool {
	switch {
	case g == nil || s.phase == absent:
		return true
	case s.phase == completed:
		return s.met == g.answered[s.token]
	}
	return s.met == g.running[s.token]
}

// mayRenew says whether s's lease may be replaced.
func (g *guide) mayRenew(s state) bool { return g == nil || s.metHere == g.meet[s.leased] }

// mayAnswer says whether body may be the answer of s's token.
func (g *guide) mayAnswer(s state, body string) bool {
	if g == nil {
		return true
	}
	known, ok := g.body[s.token]
	return g.mayEnd(s) && (!ok || known == body)
}

// counted is s when o has met it.
func (g *guide) counted(s state, o *Op) state {
	s.met++
	if g != nil && s.leased != nil && g.under[o] == s.leased {
		s.metHere++
	}
	return s
}

// step returns the states that may follow s when o happens. The guide may be nil.
func (g *guide) step(s state, o *Op) []state {
	var next []state
	now := o.now()
	gone, never := s.absence()
	if s.phase == absent || !never && gone.mayBeOver(now) && g.mayEnd(s) {
		next = whenAbsent(o)
	}
	if s.phase != absent && (never || gone.mayRun(now)) {
		if !never {
			s.end.low = max(s.end.low, now.low-(gone.low-s.end.low))
		}
		next = append(next, g.whenPresent(s, o)...)
	}
	return next
}

// absence is when the record counts as absent by itself.
func (s state) absence() (at span, never bool) {
	switch {
	case s.phase == completed:
		return s.end, false
	case s.held || s.keep < 0:
		return span{}, true
	}
	return s.end.plus(s.keep), false
}

func whenAbsent(o *Op) []state {
	switch o.Kind {
	case Claim:
		fresh := o.fresh(1)
		switch o.Result {
		case Unknown:
			return []state{fresh}
		case Claimed:
			return o.reports(fresh)
		}
		return nil
	case Release:
		return o.only(state{}, Done)
	}
	return o.only(state{}, Lost)
}

// fresh is the record that a Claim makes or takes over.
func (o *Op) fresh(attempt int) state {
	return state{
		phase: inProgress, token: o.Token, print: o.Print, attempt: attempt,
		keep: o.Keep, end: o.deadline(o.Lease), leased: o,
	}
}

func (g *guide) whenPresent(s state, o *Op) []state {
	mine := s.token == o.Token
	switch o.Kind {
	case Claim:
		return g.whenClaimed(s, o, mine)
	case Extend:
		if s.phase != inProgress || !mine {
			return o.only(s, Lost)
		}
		if !g.mayRenew(s) {
			return nil
		}
		s.end, s.leased, s.metHere = o.deadline(o.Lease), o, 0
		s.held = s.held || o.Hold
		return o.only(s, Done)
	case Complete:
		switch {
		case !mine:
			return o.only(s, Lost)
		case s.phase == completed:
			return o.only(s, Done)
		case !g.mayAnswer(s, o.Body):
			return nil
		}
		return o.only(state{
			phase: completed, token: s.token, print: s.print, attempt: s.attempt,
			end: o.deadline(o.Retain), body: o.Body,
		}, Done)
	default:
		if s.phase == inProgress && mine {
			if !g.mayEnd(s) {
				return nil
			}
			s = state{}
		}
		return o.only(s, Done)
	}
}

func (g *guide) whenClaimed(s state, o *Op, mine bool) []state {
	switch {
	case s.phase == completed || s.print != o.Print:
		return o.taken(g.counted(s, o))
	case mine:
		// The lease is renewed if the new one is longer: it ends at the later of
		// the two ends.
		again := o.deadline(o.Lease)
		s.end = span{max(s.end.low, again.low), max(s.end.high, again.high)}
		switch o.Result {
		case Unknown:
			return []state{s}
		case Claimed:
			return o.reports(s)
		}
		return nil
	case s.held || !o.TakeOver:
		return o.taken(g.counted(s, o))
	}
	var next []state
	now := o.now()
	if s.end.mayBeOver(now) && g.mayEnd(s) {
		fresh := o.fresh(s.attempt + 1)
		switch o.Result {
		case Unknown:
			next = append(next, fresh)
		case Claimed:
			next = append(next, o.reports(fresh)...)
		}
	}
	if s.end.mayRun(now) {
		s.end.low = max(s.end.low, now.low)
		next = append(next, o.taken(g.counted(s, o))...)
	}
	return next
}

// only is s if the call's answer is result or unknown.
func (o *Op) only(s state, result Result) []state {
	if o.Result != result && o.Result != Unknown {
		return nil
	}
	return []state{s}
}

func (o *Op) taken(s state) []state {
	switch o.Result {
	case Unknown:
		return []state{s}
	case Taken:
		return o.reports(s)
	}
	return nil
}

// reports is s, narrowed by what the call saw of it, unless it saw something
// else.
func (o *Op) reports(s state) []state {
	seen := o.Seen
	if seen.Completed != (s.phase == completed) || seen.Token != s.token || seen.Print != s.print || seen.Attempt != s.attempt {
		return nil
	}
	if s.phase == completed {
		if seen.Body != s.body {
			return nil
		}
		return []state{s}
	}
	if seen.Held != s.held {
		return nil
	}
	end, ok := s.end.and(o.deadline(seen.Left))
	if !ok {
		return nil
	}
	s.end = end
	return []state{s}
}

// hash is equal for equal states.
func (s state) hash() uint64 {
	h := uint64(s.phase)
	for _, part := range []uint64{s.token, uint64(s.attempt), uint64(s.end.low), uint64(s.end.high), uint64(s.met), uint64(len(s.body))} {
		h = (h ^ part) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return h
}

func (s state) String() string {
	end := fmt.Sprintf("%.3f–%.3f", float64(s.end.low)/1e6, float64(s.end.high)/1e6)
	switch s.phase {
	case inProgress:
		return fmt.Sprintf("in progress: token %x, request %d, attempt %d, held %v, lease ends %s", s.token, s.print, s.attempt, s.held, end)
	case completed:
		return fmt.Sprintf("completed with %q by token %x, until %s", s.body, s.token, end)
	}
	return "absent"
}
