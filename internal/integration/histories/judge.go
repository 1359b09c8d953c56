package histories

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// model is the contract as Porcupine takes it, searched with a guide or nil.
func model(g *guide) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, input, _ any) []any {
			next := g.step(s.(state), input.(*Op))
			boxed := make([]any, len(next))
			for i := range next {
				boxed[i] = next[i]
			}
			return boxed
		},
		Equal:             func(a, b any) bool { return a.(state) == b.(state) },
		Hash:              func(s any) uint64 { return s.(state).hash() },
		DescribeOperation: func(input, _ any) string { return input.(*Op).String() },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
	return m.ToModel()
}

// Verdict is what [Judge] found.
type Verdict struct {
	Ops, Keys int
	Unknown   int      // calls whose answer nobody heard
	Wrong     []string // a story for each key whose calls fit no order
	Undecided []string // and for each that could not be decided in time
}

// patience is how long Porcupine may think about one key in one way.
const patience = time.Minute

// Judge looks, key by key, for an order of the calls that the contract allows.
// cuts are the moments at which a connection to the store's server was cut. The
// error tells of a history that cannot be judged.
func Judge(ops []*Op, cuts ...int64) (Verdict, error) {
	if err := steady(ops); err != nil {
		return Verdict{}, err
	}
	byKey := map[int][]*Op{}
	v := Verdict{Ops: len(ops)}
	slices.Sort(cuts)
	for _, o := range ops {
		byKey[o.Key] = append(byKey[o.Key], o)
		if o.Result == Unknown {
			v.Unknown++
		} else if i, _ := slices.BinarySearch(cuts, o.begun()); i < len(cuts) && cuts[i] <= o.ended() {
			first := &Op{Call: o.Call, Answer: Answer{Until: o.Until}, Repeated: true}
			byKey[o.Key] = append(byKey[o.Key], first)
		}
	}
	v.Keys = len(byKey)
	keys := make(chan int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for key := range keys {
				history := byKey[key]
				slices.SortFunc(history, func(a, b *Op) int { return cmp.Compare(a.begun(), b.begun()) })
				result := check(history)
				if result == porcupine.Ok {
					continue
				}
				mu.Lock()
				if result == porcupine.Illegal {
					v.Wrong = append(v.Wrong, story(key, history))
				} else {
					v.Undecided = append(v.Undecided, story(key, history))
				}
				mu.Unlock()
			}
		})
	}
	for key := range byKey {
		keys <- key
	}
	close(keys)
	wg.Wait()
	return v, nil
}

// check asks the question in several ways, each for a short time and then all of
// them for longer: which of them is quick differs from history to history, and one
// that is not may take for ever. A call that nobody heard the answer of may never
// have happened, and each of them doubles the orders that there are, so it is also
// asked without most of them, and with but one of those that left no trace; and
// see guide, which may be wrong. An order that is found in any way settles it. That
// there is none says only the last, which looks at everything.
func check(history []*Op) porcupine.CheckResult {
	history = thin(history)
	answered := without(history, Claim, Extend, Complete, Release)
	once := slices.DeleteFunc(slices.Clone(answered), func(o *Op) bool { return o.Repeated })
	noTrace := slices.DeleteFunc(slices.Clone(history), func(o *Op) bool { return slices.Contains(answered, o) })
	type way struct {
		calls []porcupine.Operation
		guide *guide
		share time.Duration // of the time: one in so many
	}
	var ways []way
	ask := func(history []*Op, share int) {
		calls := operations(history)
		ways = append(ways, way{calls, guideTo(history), time.Duration(share)}, way{calls, nil, time.Duration(share)})
	}
	ask(once, 1)
	ask(answered, 1)
	for _, o := range noTrace {
		ask(append(slices.Clone(answered), o), 2*len(noTrace))
	}
	ask(without(history, Claim, Complete), 1)
	ask(history, 1)
	var result porcupine.CheckResult
	for _, limit := range []time.Duration{patience / 600, patience / 60, patience / 6, patience} {
		for _, w := range ways {
			result = porcupine.CheckOperationsTimeout(model(w.guide), w.calls, limit/w.share)
			if result == porcupine.Ok {
				return result
			}
		}
		if result == porcupine.Illegal {
			break
		}
	}
	return result
}

func operations(history []*Op) []porcupine.Operation {
	all := make([]porcupine.Operation, len(history))
	for i, o := range history {
		all[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.begun(), Return: o.ended()}
	}
	return all
}

// without leaves out the unanswered calls of some kinds of which nobody ever saw
// an effect: no record with the claim's token, none with the answer.
func without(history []*Op, kinds ...Kind) []*Op {
	tokens, bodies := map[uint64]bool{}, map[string]bool{}
	for _, o := range history {
		switch o.Result {
		case Claimed, Taken:
			tokens[o.Seen.Token], bodies[o.Seen.Body] = true, true
		case Done:
			if o.Kind != Release {
				tokens[o.Token] = true
			}
		}
	}
	var kept []*Op
	for _, o := range history {
		seen := o.Kind == Claim && tokens[o.Token] || o.Kind == Complete && bodies[o.Body]
		if o.Result != Unknown || seen || !slices.Contains(kinds, o.Kind) {
			kept = append(kept, o)
		}
	}
	return kept
}

// steady refuses a history during which somebody set the wall clock, which
// stores that share a file measure with.
func steady(ops []*Op) error {
	if len(ops) == 0 {
		return fmt.Errorf("histories: there is nothing to judge")
	}
	low, high := ops[0].Wall, ops[0].Wall
	for _, o := range ops {
		low, high = min(low, o.Wall), max(high, o.Wall)
	}
	if high-low > slack/2 {
		return fmt.Errorf("histories: the wall clock was set by %v during the run: run it again", time.Duration(high-low))
	}
	return nil
}

// story tells a key's whole history.
func story(key int, history []*Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key %d:\n", key)
	start := history[0].begun()
	for _, o := range history {
		told := *o
		told.At -= start
		told.Until -= start
		fmt.Fprintf(&b, "  %v\n", &told)
	}
	return b.String()
}
