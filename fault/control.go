package fault

import (
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"time"
)

// Control steers a [Proxy] or a [Transport]: it holds the plan, the script, the
// mode and the log, and chooses each request's fault. All methods may be called
// at any time from any goroutine.
//
// The order of choice: a mode other than pass rules everything, every method
// and path, as a wifi that is gone does; then the script; then the mode pass;
// then the plan.
type Control struct {
	mu       sync.Mutex
	seed     uint64
	plan     Plan
	counters []uint64 // requests that each of the plan's rules has matched
	script   Script
	mode     string // as it was set; empty: the plan decides
	fixed    Fault  // what mode says
	changed  chan struct{}
	log      journal
	// A Proxy sets these; a Transport has neither.
	target string
	cut    func(except net.Conn) // resets the open connections
}

// Change is what [Control.Set] and the control API take. What is nil stays as
// it is.
type Change struct {
	// Plan replaces the plan and starts its rules' counters at 0 again.
	Plan *string `json:"plan,omitempty"`
	// Mode is one fault for every request ("offline", "blackhole", "slow:2s"),
	// "pass" for none whatever the plan says, or "plan" to follow the plan
	// again.
	Mode *string `json:"mode,omitempty"`
	// Seed replaces the seed and starts the counters at 0 again.
	Seed *uint64 `json:"seed,omitempty"`
	// Script replaces what is left of the script.
	Script *string `json:"script,omitempty"`
	// Cut resets every client connection that is open now, except, over HTTP,
	// the one that asks.
	Cut bool `json:"cut,omitempty"`
}

// State is what [Control.State] and the control API tell.
type State struct {
	Target string `json:"target,omitempty"`
	Mode   string `json:"mode"` // "plan" when the plan decides
	Plan   string `json:"plan"`
	Seed   uint64 `json:"seed"`
	Script string `json:"script"` // what is left of it
	// Requests counts all that came; Open are those not yet ended.
	Requests uint64 `json:"requests"`
	Open     int    `json:"open"`
	// Counts says how many requests met each mode since the log was cleared,
	// Changing the same for POST, PUT, PATCH and DELETE alone.
	Counts   map[string]int `json:"counts"`
	Changing map[string]int `json:"changing"`
	// Kept and Dropped are the log's entries: those it holds and those that
	// made room.
	Kept    int    `json:"kept"`
	Dropped uint64 `json:"dropped"`
}

func newControl(plan Plan, seed uint64, size int, out io.Writer) (*Control, error) {
	for _, r := range plan.Rules {
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	c := &Control{
		seed: seed, plan: plan, counters: make([]uint64, len(plan.Rules)),
		changed: make(chan struct{}),
		log:     journal{max: size, out: out},
	}
	c.log.clear()
	return c, nil
}

// Set makes the change, all of it or, with an error, nothing.
func (c *Control) Set(ch Change) error { return c.set(ch, nil) }

func (c *Control) set(ch Change, asker net.Conn) error {
	var plan Plan
	var script Script
	var fixed Fault
	var err error
	if ch.Plan != nil {
		if plan, err = ParsePlan(*ch.Plan); err != nil {
			return err
		}
	}
	if ch.Script != nil {
		if script, err = ParseScript(*ch.Script); err != nil {
			return err
		}
	}
	if ch.Mode != nil && *ch.Mode != "plan" {
		if fixed, err = ParseFault(*ch.Mode); err != nil {
			return fmt.Errorf(`%w; or "plan", to follow the plan`, err)
		}
	}
	c.mu.Lock()
	if ch.Plan != nil {
		c.plan = plan
	}
	if ch.Seed != nil {
		c.seed = *ch.Seed
	}
	if ch.Plan != nil || ch.Seed != nil {
		c.counters = make([]uint64, len(c.plan.Rules))
	}
	if ch.Script != nil {
		c.script = script
	}
	if ch.Mode != nil {
		if c.mode = *ch.Mode; c.mode == "plan" {
			c.mode = ""
		}
		c.fixed = fixed
	}
	if ch.Plan != nil || ch.Mode != nil {
		// Whoever waits in a black hole is let go.
		close(c.changed)
		c.changed = make(chan struct{})
	}
	cut := c.cut
	c.mu.Unlock()
	if ch.Cut && cut != nil {
		cut(asker)
	}
	return nil
}

// SetPlan replaces the plan: Set with [Change].Plan.
func (c *Control) SetPlan(plan string) error { return c.Set(Change{Plan: &plan}) }

// SetMode sets one fault for every request: Set with [Change].Mode.
func (c *Control) SetMode(mode string) error { return c.Set(Change{Mode: &mode}) }

// SetScript gives the next requests their faults: Set with [Change].Script.
func (c *Control) SetScript(script string) error { return c.Set(Change{Script: &script}) }

// State returns the state as it is now.
func (c *Control) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	mode := c.mode
	if mode == "" {
		mode = "plan"
	}
	return State{
		Target: c.target, Mode: mode, Plan: c.plan.String(), Seed: c.seed, Script: c.script.String(),
		Requests: c.log.n, Open: c.log.open,
		Counts: maps.Clone(c.log.counts), Changing: maps.Clone(c.log.changed),
		Kept: len(c.log.entries), Dropped: c.log.dropped,
	}
}

// Log returns the entries in the order of arrival. A request whose client has
// seen the end of its answer, or the end of its connection, is in it with its
// fate.
func (c *Control) Log() []Entry { return c.LogAfter(0) }

// LogAfter returns the entries that came after the entry number n.
func (c *Control) LogAfter(n uint64) []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.after(n)
}

// ClearLog forgets the entries and the counts. The numbers go on.
func (c *Control) ClearLog() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.clear()
}

// logErr is the first error of writing to Config.LogTo.
func (c *Control) logErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.outErr
}

// record is one request under way.
type record struct {
	Entry
	fault   Fault
	changed <-chan struct{} // closed at the next change of plan or mode
	control *Control
	slot    *Entry
	begun   time.Time
	settled bool // the fate is known and the request no longer counts as open
}

// begin chooses the fault for the request that e describes and puts it in the
// log. Both happen under one lock: the log's order is the order of choice.
func (c *Control) begin(e Entry, reused bool) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &record{Entry: e, control: c, changed: c.changed, begun: time.Now()}
	r.fault = c.choose(&r.Entry, reused)
	if r.fault.Mode == ResetOnce && !reused {
		r.fault.Mode = Pass
	}
	r.Mode = r.fault.String()
	r.slot = c.log.begin(&r.Entry, r.fault.names())
	return r
}

func (c *Control) choose(e *Entry, reused bool) Fault {
	if c.mode != "" && c.fixed != (Fault{Mode: Pass}) {
		e.By = "mode"
		return c.fixed
	}
	if f, ok := c.script.next(e.Method, e.Path, reused); ok {
		e.By = "script"
		return f
	}
	if c.mode != "" {
		e.By = "mode"
		return c.fixed
	}
	i := c.plan.find(e.Method, e.Path)
	if i < 0 {
		return Fault{}
	}
	rule := c.plan.Rules[i]
	e.By, e.Rule, e.Index = "plan", rule.Match.String(), c.counters[i]
	c.counters[i]++
	return rule.Pick(c.seed, e.Index)
}

// malformed logs what could not be read as a request.
func (c *Control) malformed(e Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.log.begin(&e, nil)
	e.Fate = Malformed
	*slot = e
	c.log.open--
	c.log.end(e)
}

// publish shows the entry as it is now. It is called just before the last byte
// of an answer, so that whoever has that byte finds the fate in the log.
func (r *record) publish() {
	r.Millis = time.Since(r.begun).Milliseconds()
	r.control.mu.Lock()
	defer r.control.mu.Unlock()
	*r.slot = r.Entry
	if !r.settled && r.Fate != Open {
		r.settled = true
		r.control.log.open--
	}
}

// end shows the entry for good.
func (r *record) end() {
	r.publish()
	r.control.mu.Lock()
	defer r.control.mu.Unlock()
	r.control.log.end(r.Entry)
}
