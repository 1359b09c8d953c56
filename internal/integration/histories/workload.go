package histories

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
)

// Plan says what one process asks of a store.
type Plan struct {
	Seed    uint64
	Process int     // the number of the process; its tokens and clients bear it
	Scope   string  // of all keys; a run has its own on a shared server
	From    int     // the first key's number
	Keys    int     // how many there are
	Window  int     // how many of them are in use at a time; the fewer, the hotter
	Ops     int     // calls in all, roughly
	Made    int     // so many of them have been made, by a process that died
	Clients int     // goroutines
	Lose    float64 // the share of answers that get lost, 0 to 1
	// Calm: nobody acts under another's token, or under one that was refused. Many
	// who do so at a time on one key leave more orders than can be searched.
	Calm bool
}

// maxClients parts the numbers of the clients of two processes.
const maxClients = 1000

// Run makes the plan's calls and returns when all clients are done. It stops
// early when ctx ends. The error tells of what can be no store's fault.
func (p Plan) Run(ctx context.Context, store onceward.Store, r *Recorder) error {
	var made atomic.Int64
	made.Store(int64(p.Made))
	sweeping, stop := context.WithCancel(ctx)
	var sweeper, clients sync.WaitGroup
	if s, ok := store.(onceward.Sweeper); ok {
		sweeper.Go(func() {
			for sweeping.Err() == nil {
				_, _ = s.Sweep(sweeping, 20) // it may fail; it may not be seen
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	lossy := NewLossy(store, p.Lose, p.Seed+uint64(p.Process))
	for i := range p.Clients {
		c := &client{
			plan: &p, store: lossy, record: r, made: &made,
			number: p.Process*maxClients + i,
			rng:    rand.New(rand.NewPCG(p.Seed, uint64(p.Process*maxClients+i))),
		}
		clients.Go(func() {
			for ctx.Err() == nil && made.Load() < int64(p.Ops) {
				c.act(ctx)
			}
		})
	}
	clients.Wait()
	stop()
	sweeper.Wait()
	return ctx.Err()
}

// Look asks for each of the plan's keys once more, as somebody who names another
// request and so changes nothing that is there. What was confirmed must show.
func (p Plan) Look(ctx context.Context, store onceward.Store, r *Recorder) {
	c := &client{
		plan: &p, store: store, record: r, made: new(atomic.Int64),
		number: p.Process * maxClients, rng: rand.New(rand.NewPCG(p.Seed, 0)),
	}
	for key := range p.Keys {
		look := c.bid(p.From + key)
		look.Print, look.Lease, look.Keep = 9, 0, time.Hour
		c.insist(ctx, look)
	}
}

// client is one goroutine's side of a history.
type client struct {
	plan   *Plan
	store  onceward.Store
	record *Recorder
	made   *atomic.Int64
	number int
	rng    *rand.Rand
	tokens uint64
	owned  []Call // claims of mine that I have not ended
	met    []Call // others' claims: their key and token
}

// pick is one of the keys that are in use now.
func (c *client) pick() int {
	p := c.plan
	done := min(1, float64(c.made.Load())/float64(p.Ops))
	first := int(done * float64(p.Keys-p.Window))
	return p.From + first + c.rng.IntN(p.Window)
}

func (c *client) chance(percent int) bool { return c.rng.IntN(100) < percent }

// bid is a new claim of key under a token of its own.
func (c *client) bid(key int) Call {
	c.tokens++
	return Call{
		Client: c.number, Key: key, Kind: Claim, Print: 1,
		Token: uint64(c.number)<<32 | c.tokens,
		Lease: pickOf(c.rng, leases), Keep: pickOf(c.rng, keeps), TakeOver: c.chance(70),
	}
}

func pickOf(rng *rand.Rand, of []time.Duration) time.Duration { return of[rng.IntN(len(of))] }

// The durations that clients ask for: none, so short that it ends while they
// work, and so long that it never does.
var (
	leases  = []time.Duration{0, 0, 0, -time.Millisecond, 15 * time.Millisecond, 40 * time.Millisecond, time.Hour, time.Hour}
	keeps   = []time.Duration{time.Hour, time.Hour, time.Hour, -1, 0, 25 * time.Millisecond}
	retains = []time.Duration{time.Hour, 0, 0, 20 * time.Millisecond}
)

// act is one thing that a client does.
func (c *client) act(ctx context.Context) {
	switch n := c.rng.IntN(100); {
	case n < 70:
		c.request(ctx)
	case n < 80 && len(c.owned) > 0:
		c.late(ctx)
	case n < 90 && len(c.met) > 0 && !c.plan.Calm:
		c.meddle(ctx)
	default:
		look := c.bid(c.pick())
		look.Print = 2
		c.insist(ctx, look)
	}
}

// request is what a guard does: claim, renew, complete or release.
func (c *client) request(ctx context.Context) {
	bid := c.bid(c.pick())
	answer := c.insist(ctx, bid)
	if answer.Result == Taken && answer.Seen.Token != bid.Token {
		other := bid
		other.Token = answer.Seen.Token
		c.met = append(c.met, other)[max(0, len(c.met)-7):]
	}
	if answer.Result != Claimed {
		if !c.plan.Calm && c.chance(20) { // refused, and acts as if it were not
			c.end(ctx, bid)
		}
		return
	}
	if c.chance(10) { // the answer was heard, and it is asked again all the same
		c.insist(ctx, bid)
	}
	if c.chance(30) {
		c.insist(ctx, c.extend(bid))
	}
	if c.chance(5) { // a slow handler
		time.Sleep(20 * time.Millisecond)
	}
	switch {
	case c.chance(20): // this handler's process might as well be dead
		c.owned = append(c.owned, bid)[max(0, len(c.owned)-7):]
	case c.chance(25):
		c.insist(ctx, c.release(bid))
	default:
		done := c.complete(bid)
		c.insist(ctx, done)
		if c.chance(15) { // once more, with another answer, which must not be kept
			done.Body += " again"
			c.insist(ctx, done)
		}
		if c.chance(15) { // a repeat of the claim after its end
			c.insist(ctx, bid)
		}
	}
}

// late is an owner who comes back to an old claim.
func (c *client) late(ctx context.Context) {
	i := c.rng.IntN(len(c.owned))
	bid := c.owned[i]
	c.owned = append(c.owned[:i], c.owned[i+1:]...)
	c.end(ctx, bid)
}

// meddle is somebody who has come by another's token: what he asks is as good as
// the owner's word, and worth nothing once the owner was displaced.
func (c *client) meddle(ctx context.Context) {
	c.end(ctx, c.met[c.rng.IntN(len(c.met))])
}

func (c *client) end(ctx context.Context, bid Call) {
	switch c.rng.IntN(3) {
	case 0:
		c.insist(ctx, c.extend(bid))
	case 1:
		c.insist(ctx, c.release(bid))
	default:
		c.insist(ctx, c.complete(bid))
	}
}

func (c *client) extend(bid Call) Call {
	return Call{Client: c.number, Key: bid.Key, Kind: Extend, Token: bid.Token, Lease: pickOf(c.rng, leases), Hold: c.chance(10)}
}

func (c *client) release(bid Call) Call {
	return Call{Client: c.number, Key: bid.Key, Kind: Release, Token: bid.Token}
}

func (c *client) complete(bid Call) Call {
	c.tokens++
	return Call{
		Client: c.number, Key: bid.Key, Kind: Complete, Token: bid.Token, Retain: pickOf(c.rng, retains),
		Body: fmt.Sprintf("%x by %d-%d", bid.Token, c.number, c.tokens),
	}
}

// insist makes the call, and again under the same token while nobody hears its
// answer; now and then it gives up, as a process does that dies.
func (c *client) insist(ctx context.Context, call Call) Answer {
	for try := 0; ; try++ {
		c.made.Add(1)
		n := c.record.Call(call)
		answer := c.ask(ctx, call)
		c.record.Answer(n, answer)
		if answer.Result != Unknown || try == 5 || ctx.Err() != nil || c.chance(20) {
			return answer
		}
	}
}

// callTimeout bounds one call; the store may go on with it.
const callTimeout = 10 * time.Second

func (c *client) ask(ctx context.Context, call Call) (a Answer) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	key, tok := onceward.NewKey(c.plan.Scope, fmt.Sprint(call.Key)), token(call.Token)
	var err error
	a.Result = Done
	switch call.Kind {
	case Claim:
		var rec onceward.Record
		var claimed bool
		rec, claimed, err = c.store.Claim(ctx, onceward.Claim{
			Key: key, Fingerprint: onceward.Fingerprint{Version: 1, Sum: [32]byte{byte(call.Print)}},
			Method: "POST", Path: "/orders", Token: tok,
			Lease: call.Lease, Keep: call.Keep, TakeOver: call.TakeOver,
		})
		a.Result = Taken
		if claimed {
			a.Result = Claimed
		}
		if err == nil {
			a.Seen = seen(rec, key)
		}
	case Extend:
		err = c.store.Extend(ctx, key, tok, call.Lease, call.Hold)
	case Complete:
		err = c.store.Complete(ctx, key, tok, &onceward.Response{Status: 201, Body: []byte(call.Body)}, call.Retain)
	case Release:
		err = c.store.Release(ctx, key, tok)
	}
	switch {
	case errors.Is(err, onceward.ErrClaimLost):
		return Answer{Result: Lost}
	case err != nil:
		return Answer{Error: err.Error()}
	}
	return a
}

// token spreads a number over a store's token.
func token(n uint64) (t onceward.Token) {
	binary.BigEndian.PutUint64(t[8:], n)
	binary.BigEndian.PutUint64(t[:8], n*0x9E3779B97F4A7C15)
	return t
}

// seen is what the model looks at. What can be no record of this history fits no
// state of it.
func seen(rec onceward.Record, key onceward.Key) Seen {
	n := binary.BigEndian.Uint64(rec.Token[8:])
	s := Seen{Token: n, Print: int(rec.Fingerprint.Sum[0]), Attempt: rec.Attempt}
	switch rec.State {
	case onceward.InProgress:
		s.Held, s.Left = rec.Held, rec.LeaseLeft
	case onceward.Completed:
		s.Completed = true
		if rec.Response != nil && rec.Response.Status == 201 {
			s.Body = string(rec.Response.Body)
		}
	default:
		s.Print = -1
	}
	if rec.Key != key || rec.Token != token(n) {
		s.Print = -1
	}
	return s
}
