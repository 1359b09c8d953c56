package histories

import (
	"testing"
	"time"
)

// A history is told in lines: when a call began and ended, in milliseconds, what
// was asked, and what was heard.
type told struct {
	from, to int64
	call     Call
	answer   Answer
}

func claim(token uint64, lease time.Duration) Call {
	return Call{Kind: Claim, Token: token, Print: 1, Lease: lease, Keep: time.Hour, TakeOver: true}
}

func is(state Seen) Seen { state.Print = 1; return state }

// running and answered are what a claim says of another's record.
func running(token uint64, attempt int, left time.Duration) Answer {
	return Answer{Result: Taken, Seen: is(Seen{Token: token, Attempt: attempt, Left: left})}
}

func answered(token uint64, attempt int, body string) Answer {
	return Answer{Result: Taken, Seen: is(Seen{Completed: true, Token: token, Attempt: attempt, Body: body})}
}

func granted(token uint64, attempt int, left time.Duration) Answer {
	a := running(token, attempt, left)
	a.Result = Claimed
	return a
}

func complete(token uint64, body string) Call {
	return Call{Kind: Complete, Token: token, Body: body, Retain: time.Hour}
}

var (
	done    = Answer{Result: Done}
	lost    = Answer{Result: Lost}
	unknown = Answer{}
)

func TestWhatTheContractAllows(t *testing.T) {
	const a, b, c = 1, 2, 3
	hour, second := time.Hour, time.Second
	release := func(token uint64) Call { return Call{Kind: Release, Token: token} }
	extend := func(token uint64, lease time.Duration) Call {
		return Call{Kind: Extend, Token: token, Lease: lease}
	}
	for _, test := range []struct {
		name    string
		fits    bool
		history []told
	}{
		{"claim, complete, replay", true, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, complete(a, "A"), done},
			{4, 5, claim(b, hour), answered(a, 1, "A")},
		}},
		{"an answer that nobody gave", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, complete(a, "A"), done},
			{4, 5, claim(b, hour), answered(a, 1, "B")},
		}},
		{"two winners", false, []told{
			{0, 9, claim(a, hour), granted(a, 1, hour)},
			{1, 8, claim(b, hour), granted(b, 1, hour)},
		}},
		{"a confirmed answer is forgotten", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, complete(a, "A"), done},
			{4, 5, claim(b, hour), granted(b, 1, hour)},
		}},
		{"an answer before it was given", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, claim(b, hour), answered(a, 1, "A")},
			{4, 5, complete(a, "A"), done},
		}},
		{"an answer while it is given", true, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 7, complete(a, "A"), done},
			{3, 4, claim(b, hour), answered(a, 1, "A")},
		}},
		{"seen, and then unseen", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 9, complete(a, "A"), done},
			{3, 4, claim(b, hour), answered(a, 1, "A")},
			{5, 6, claim(b, hour), running(a, 1, hour)},
		}},
		{"a lost claim that was never made", true, []told{
			{0, 1, claim(a, hour), unknown},
			{2, 3, claim(b, hour), granted(b, 1, hour)},
		}},
		{"a lost claim that was made at once", true, []told{
			{0, 1, claim(a, hour), unknown},
			{2, 3, claim(b, hour), running(a, 1, hour)},
		}},
		{"a lost claim that was made later", true, []told{
			{0, 1, claim(a, hour), unknown},
			{2, 3, claim(b, hour), granted(b, 1, hour)},
			{4, 5, release(b), done},
			{6, 7, claim(c, hour), running(a, 1, hour)},
		}},
		{"a lost claim before it was made", false, []told{
			{0, 1, claim(b, hour), running(a, 1, hour)},
			{2, 3, claim(a, hour), unknown},
		}},
		{"a lost claim that is repeated finds itself", true, []told{
			{0, 1, claim(a, hour), unknown},
			{2, 3, claim(a, hour), granted(a, 1, hour)},
			{4, 5, claim(b, hour), running(a, 1, hour)},
		}},
		{"the own token is refused", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, claim(a, hour), running(a, 1, hour)},
		}},
		{"a lost answer that counts", true, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, complete(a, "A"), unknown},
			{4, 5, claim(b, hour), running(a, 1, hour)},
			{6, 7, claim(b, hour), answered(a, 1, "A")},
		}},
		{"a second answer replaces the first", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, complete(a, "A"), done},
			{4, 5, complete(a, "B"), done},
			{6, 7, claim(b, hour), answered(a, 1, "B")},
		}},
		{"another's release", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, release(b), done},
			{4, 5, claim(b, hour), granted(b, 1, hour)},
		}},
		{"another's answer", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, complete(b, "B"), done},
		}},
		{"the owner is told that he lost", false, []told{
			{0, 1, claim(a, hour), granted(a, 1, hour)},
			{2, 3, complete(a, "A"), lost},
		}},
		{"taken over after its lease", true, []told{
			{0, 1, claim(a, second), granted(a, 1, second)},
			{1002, 1003, claim(b, hour), granted(b, 2, hour)},
			{1004, 1005, complete(a, "A"), lost},
			{1006, 1007, complete(b, "B"), done},
		}},
		{"taken over before its lease is over", false, []told{
			{0, 1, claim(a, second), granted(a, 1, second)},
			{900, 901, claim(b, hour), granted(b, 2, hour)},
		}},
		{"not taken over long after its lease", false, []told{
			{0, 1, claim(a, second), granted(a, 1, second)},
			{1100, 1101, claim(b, hour), running(a, 1, -99*time.Millisecond)},
		}},
		{"taken over, perhaps in time", true, []told{
			{0, 600, claim(a, second), granted(a, 1, second)},
			{1200, 1700, claim(b, hour), granted(b, 2, hour)},
		}},
		{"a late owner whom nobody displaced", true, []told{
			{0, 1, claim(a, 0), granted(a, 1, 0)},
			{500, 501, complete(a, "A"), done},
			{502, 503, claim(b, hour), answered(a, 1, "A")},
		}},
		{"displaced, and then completes", false, []told{
			{0, 1, claim(a, 0), granted(a, 1, 0)},
			{100, 101, claim(b, hour), granted(b, 2, hour)},
			{102, 103, complete(a, "A"), done},
		}},
		{"extended in time", true, []told{
			{0, 1, claim(a, second), granted(a, 1, second)},
			{800, 801, extend(a, second), done},
			{1200, 1201, claim(b, hour), running(a, 1, 600*time.Millisecond)},
		}},
		{"extended, and the time left is the old one's", false, []told{
			{0, 1, claim(a, second), granted(a, 1, second)},
			{500, 501, extend(a, second), done},
			{700, 701, claim(b, hour), running(a, 1, 300*time.Millisecond)},
		}},
		{"an extension that was lost may have happened", true, []told{
			{0, 1, claim(a, second), granted(a, 1, second)},
			{800, 801, extend(a, second), unknown},
			{1200, 1201, claim(b, hour), running(a, 1, 600*time.Millisecond)},
		}},
		{"or never", true, []told{
			{0, 1, claim(a, second), granted(a, 1, second)},
			{800, 801, extend(a, second), unknown},
			{1200, 1201, claim(b, hour), granted(b, 2, hour)},
		}},
		{"a take-over that is not counted", false, []told{
			{0, 1, claim(a, 0), granted(a, 1, 0)},
			{100, 101, claim(b, hour), granted(b, 1, hour)},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var ops []*Op
			for i, line := range test.history {
				o := &Op{Call: line.call, Answer: line.answer}
				o.Client, o.At, o.Until = i, line.from*1e6, line.to*1e6
				ops = append(ops, o)
			}
			v := judge(t, ops)
			if fits := len(v.Wrong) == 0; fits != test.fits || len(v.Undecided) > 0 {
				t.Errorf("it fits: %v, want %v", fits, test.fits)
				for _, o := range ops {
					t.Log(o)
				}
			}
		})
	}
}
