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

// step returns the states that may follow s when o happens.
func step(s state, o *Op) []state {
	var next []state
	now := o.now()
	gone, never := s.absence()
	if s.phase == absent || !never && gone.mayBeOver(now) {
		next = whenAbsent(o)
	}
	if s.phase != absent && (never || gone.mayRun(now)) {
		if !never {
			s.end.low = max(s.end.low, now.low-(gone.low-s.end.low))
		}
		next = append(next, whenPresent(s, o)...)
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
		keep: o.Keep, end: o.deadline(o.Lease),
	}
}

func whenPresent(s state, o *Op) []state {
	mine := s.token == o.Token
	switch o.Kind {
	case Claim:
		return whenClaimed(s, o, mine)
	case Extend:
		if s.phase != inProgress || !mine {
			return o.only(s, Lost)
		}
		s.end = o.deadline(o.Lease)
		s.held = s.held || o.Hold
		return o.only(s, Done)
	case Complete:
		switch {
		case !mine:
			return o.only(s, Lost)
		case s.phase == completed:
			return o.only(s, Done)
		}
		return o.only(state{
			phase: completed, token: s.token, print: s.print, attempt: s.attempt,
			end: o.deadline(o.Retain), body: o.Body,
		}, Done)
	default:
		if s.phase == inProgress && mine {
			s = state{}
		}
		return o.only(s, Done)
	}
}

func whenClaimed(s state, o *Op, mine bool) []state {
	switch {
	case s.phase == completed || s.print != o.Print:
		return o.taken(s)
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
		return o.taken(s)
	}
	var next []state
	now := o.now()
	if s.end.mayBeOver(now) {
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
		next = append(next, o.taken(s)...)
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
