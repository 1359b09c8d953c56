package frameworks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	v1 "github.com/onceward/onceward/examples/frameworks/ordersv1"
	"github.com/onceward/onceward/examples/frameworks/ordersv1/ordersv1connect"
)

// Remote procedure calls: what the orders tests say of HTTP, said of calls. Requirement
// 76, for connect-go and grpc-go.

// protocols are who is called and how, and the columns of the second table of
// docs/frameworks.md.
var protocols = []struct {
	name, command string
	options       []connect.ClientOption
}{
	{"connect-go, Connect", "connect", []connect.ClientOption{connect.WithProtoJSON()}},
	{"connect-go, gRPC", "connect", []connect.ClientOption{connect.WithGRPC()}},
	{"connect-go, gRPC-Web", "connect", []connect.ClientOption{connect.WithGRPCWeb()}},
	{"grpc-go", "grpc", []connect.ClientOption{connect.WithGRPC()}},
}

// shopClient calls a program.
type shopClient struct {
	*process
	ordersv1connect.OrderServiceClient
}

// onEach runs a test with a fresh program in every protocol, its keys and orders
// in a file.
func onEach(t *testing.T, test func(t *testing.T, c *shopClient), flags ...string) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetUnencryptedHTTP2(true)
			process := start(t, p.command, append([]string{"-store", "sqlite:" + filepath.Join(t.TempDir(), "orders.db")}, flags...)...)
			t.Cleanup(transport.CloseIdleConnections)
			test(t, &shopClient{process, ordersv1connect.NewOrderServiceClient(&http.Client{Transport: transport}, process.url, p.options...)})
		})
	}
}

// call is one CreateOrder; the zero value of a field leaves it out.
type call struct {
	key, user, chaos string
	order            *v1.CreateOrderRequest // one tea by default
	timeout          time.Duration          // the client hangs up
}

// reply is what came back.
type reply struct {
	order    *v1.Order
	placed   bool
	code     connect.Code // 0: none, it worked
	text     string
	outcome  string // the first word of Idempotency-Status
	replayed bool
	header   http.Header
	trailer  http.Header
	err      *connect.Error
}

func (c *shopClient) create(r call) reply {
	ctx, cancel := context.WithTimeout(context.Background(), max(r.timeout, time.Minute*time.Duration(1-min(1, r.timeout))))
	defer cancel()
	message := r.order
	if message == nil {
		message = &v1.CreateOrderRequest{Item: "tea", Qty: 1}
	}
	req := connect.NewRequest(message)
	set(req.Header(), "Idempotency-Key", r.key, "X-User", r.user, "X-Chaos", r.chaos)
	resp, err := c.CreateOrder(ctx, req)
	if err != nil {
		return failed(err)
	}
	return worked(resp.Msg.Order, resp.Msg.Placed, resp.Header(), resp.Trailer())
}

func set(h http.Header, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			h.Set(pairs[i], pairs[i+1])
		}
	}
}

func worked(o *v1.Order, placed bool, header, trailer http.Header) reply {
	outcome, _, _ := strings.Cut(header.Get("Idempotency-Status"), ";")
	return reply{order: o, placed: placed, outcome: outcome, replayed: header.Get("Idempotency-Replayed") == "1" || outcome == "replayed", header: header, trailer: trailer}
}

func failed(err error) reply {
	var e *connect.Error
	if !errors.As(err, &e) {
		return reply{code: connect.CodeUnknown, text: err.Error()}
	}
	outcome, _, _ := strings.Cut(e.Meta().Get("Idempotency-Status"), ";")
	return reply{code: e.Code(), text: e.Message(), outcome: outcome, replayed: outcome == "replayed", header: e.Meta(), err: e}
}

func (r reply) String() string {
	return fmt.Sprintf("code %d %q %s %v", r.code, r.text, r.outcome, r.order)
}

// want checks code and outcome; code 0: it worked.
func (r reply) want(t *testing.T, code connect.Code, outcome string) reply {
	t.Helper()
	if r.code != code || r.outcome != outcome {
		t.Errorf("answered %v, want code %d %s", r, code, outcome)
	}
	if code == 0 && r.order.GetId() == "" {
		t.Errorf("answered %v, which is no order", r)
	}
	return r
}

// orders is what was really done.
func (c *shopClient) wantEffects(n int) []*v1.Order {
	c.t.Helper()
	resp, err := c.ListOrders(context.Background(), connect.NewRequest(&v1.ListOrdersRequest{}))
	if err != nil {
		c.t.Fatal(err)
	}
	if got := len(resp.Msg.Orders); got != n {
		c.t.Errorf("effects=%d, want %d: %v", got, n, resp.Msg.Orders)
	}
	return resp.Msg.Orders
}

// until repeats a call, as a client does, until an answer acknowledges it.
func (c *shopClient) until(r call) (got reply) {
	c.t.Helper()
	eventually(c.t, "an acknowledged answer", func() bool {
		got = c.create(r)
		return got.outcome == "executed" || got.outcome == "replayed"
	})
	return got
}

func TestOfTwentyCallsAtOnceOneRuns(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		results := make([]reply, 20)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() { results[i] = c.create(call{key: "k", chaos: "sleep_ms=100"}) })
		}
		all.Wait()
		n := map[string]int{}
		for _, r := range results {
			n[r.outcome]++
			if r.outcome == "in-progress" {
				r.want(t, connect.CodeUnavailable, "in-progress")
			}
		}
		if n["executed"] != 1 || n["executed"]+n["replayed"]+n["in-progress"] != 20 {
			t.Errorf("outcomes: %v, want 1 executed, the rest replayed or in-progress", n)
		}
		c.until(call{key: "k", chaos: "sleep_ms=100"}).want(t, 0, "replayed")
		c.wantEffects(1)
	})
}

// The pause is told, in the form that gRPC's own retry policies read.
func TestACallWhileTheFirstRunsIsToldWhenToComeBack(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		slow := call{key: "k", chaos: "sleep_ms=3000"}
		first := make(chan reply, 1)
		go func() { first <- c.create(slow) }()
		time.Sleep(time.Second)
		busy := c.create(slow).want(t, connect.CodeUnavailable, "in-progress")
		details := 0
		if busy.err != nil {
			for _, d := range busy.err.Details() {
				if d.Type() == "google.rpc.RetryInfo" {
					details++
				}
			}
		}
		if details != 1 || busy.header.Get("Grpc-Retry-Pushback-Ms") == "" {
			t.Errorf("%d details of RetryInfo, header %v", details, busy.header)
		}
		(<-first).want(t, 0, "executed")
		c.create(slow).want(t, 0, "replayed")
		c.wantEffects(1)
	})
}

func TestARepeatedCallGetsTheFirstOnesAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		// A map is encoded in another order each time.
		labels := map[string]string{}
		for i := range 20 {
			labels[fmt.Sprint("label-", i)] = fmt.Sprint(i)
		}
		r := call{key: `"a key"`, order: &v1.CreateOrderRequest{Item: "Купить тетрадь", Qty: 2, Labels: labels}}
		first := c.create(r).want(t, 0, "executed")
		if first.replayed || !first.placed {
			t.Errorf("the first was answered %v", first)
		}
		for range 5 {
			again := c.create(r).want(t, 0, "replayed")
			if again.order.String() != first.order.String() || !again.placed {
				t.Errorf("answered %v, the first %v", again.order, first.order)
			}
			for _, name := range []string{"Location", "Shop-Trailer"} { // connect-go shows them to an interceptor
				if again.header.Get(name) != first.header.Get(name) || again.trailer.Get(name) != first.trailer.Get(name) {
					t.Errorf("the repeat's %s is %q, the first was %q", name, again.header.Get(name)+again.trailer.Get(name), first.header.Get(name)+first.trailer.Get(name))
				}
			}
		}
		if o := c.wantEffects(1)[0]; o.Item != "Купить тетрадь" || o.Qty != 2 {
			t.Errorf("the shop has %v", o)
		}
	})
}

func TestWithoutAKeyNoCallIsARepeat(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		c.create(call{}).want(t, 0, "")
		c.create(call{}).want(t, 0, "")
		c.wantEffects(2)
		c.create(call{key: `""`}).want(t, connect.CodeInvalidArgument, "key-invalid")
		c.create(call{key: "k1, k2"}).want(t, connect.CodeInvalidArgument, "key-invalid")
		c.wantEffects(2)
	})
}

func TestAnotherCallUnderTheKeyIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		first := c.create(call{key: "k"}).want(t, 0, "executed")
		c.create(call{key: "k", order: &v1.CreateOrderRequest{Item: "tea", Qty: 9}}).want(t, connect.CodeFailedPrecondition, "key-reused")
		c.create(call{key: "k", order: &v1.CreateOrderRequest{Item: "tea", Qty: 1, Labels: map[string]string{"a": "b"}}}).want(t, connect.CodeFailedPrecondition, "key-reused")
		req := connect.NewRequest(&v1.CancelOrderRequest{Id: first.order.GetId()})
		set(req.Header(), "Idempotency-Key", "k")
		if _, err := c.CancelOrder(context.Background(), req); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("another procedure: %v", err)
		}
		c.create(call{key: "k"}).want(t, 0, "replayed")
		if o := c.wantEffects(1)[0]; o.Status != "placed" {
			t.Errorf("the shop has %v", o)
		}
	})
}

func TestAnotherCallersKeyIsAnotherKey(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		anna := c.create(call{key: "k", user: "anna"}).want(t, 0, "executed")
		boris := c.create(call{key: "k", user: "boris"}).want(t, 0, "executed")
		if anna.order.GetUser() != "anna" || boris.order.GetUser() != "boris" {
			t.Errorf("anna got %v, boris %v", anna.order, boris.order)
		}
		if again := c.create(call{key: "k", user: "anna"}).want(t, 0, "replayed"); again.order.String() != anna.order.String() {
			t.Errorf("anna got %v again", again.order)
		}
		c.create(call{key: "k"}).want(t, connect.CodeInternal, "") // nobody
		c.wantEffects(2)
	}, "-user-header", "X-User")
}

// The first call fails by the fault that it asks for; what the repeat gets, which
// asks for none, has been kept.
func TestAnErrorThatIsFinalIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		for status, code := range map[int]connect.Code{
			400: connect.CodeInvalidArgument, 404: connect.CodeNotFound, 412: connect.CodeFailedPrecondition, 416: connect.CodeOutOfRange, 422: connect.CodeAlreadyExists,
		} {
			key := fmt.Sprint("key-", status)
			first := c.create(call{key: key, chaos: fmt.Sprint("status=", status)}).want(t, code, "executed")
			again := c.create(call{key: key}).want(t, code, "replayed")
			if again.text != first.text {
				t.Errorf("answered %q, the first %q", again.text, first.text)
			}
		}
		c.wantEffects(0)
	})
}

func TestAnErrorOfTheMomentIsNotKept(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		effects := 0
		for status, code := range map[int]connect.Code{
			500: connect.CodeInternal, 503: connect.CodeUnavailable, 504: connect.CodeDeadlineExceeded, 429: connect.CodeResourceExhausted,
			409: connect.CodeAborted, 401: connect.CodeUnauthenticated, 403: connect.CodePermissionDenied, 418: connect.CodeUnknown, 501: connect.CodeUnimplemented, 499: connect.CodeCanceled,
		} {
			key := fmt.Sprint("key-", status)
			for range 2 {
				c.create(call{key: key, chaos: fmt.Sprint("status=", status)}).want(t, code, "released")
			}
			c.wantEffects(effects)
			c.create(call{key: key}).want(t, 0, "executed")
			c.create(call{key: key}).want(t, 0, "replayed")
			effects++
			c.wantEffects(effects)
		}
	})
}

func TestAfterAPanicTheCallRuns(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		c.create(call{key: "k", chaos: "panic=1"}).want(t, connect.CodeInternal, "")
		c.wantEffects(0)
		c.create(call{key: "k"}).want(t, 0, "executed")
		c.create(call{key: "k"}).want(t, 0, "replayed")
		c.wantEffects(1)
	})
}

func TestACallerThatHangsUpDoesNotStopTheWork(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		for i, moment := range []string{"sleep_ms=1500", "then_sleep_ms=1500"} {
			r := call{key: fmt.Sprint("key-", i), chaos: moment, timeout: 700 * time.Millisecond}
			if got := c.create(r); got.code != connect.CodeDeadlineExceeded {
				t.Errorf("the caller was to hang up: %v", got)
			}
			r.timeout = 0
			c.until(r).want(t, 0, "replayed")
			c.wantEffects(i + 1)
		}
	})
}

func TestAfterKill9ACallIsRepeatedOrReplayed(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		const named = "basket-1"
		for i, c9 := range []struct {
			death, outcome string
			effects        int // at once after the death
		}{
			{"die=before", "executed", 0},
			{"die=after", "executed", 1}, // nobody knows; the order's own name holds
			{"die=answer", "replayed", 1},
		} {
			order := &v1.CreateOrderRequest{Item: "tea", Qty: 1, ExternalId: fmt.Sprint(named, i)}
			r := call{key: fmt.Sprint("key-", i), order: order, chaos: c9.death}
			if got := c.create(r); got.code == 0 {
				t.Errorf("a process that died answered %v", got)
			}
			c.restart()
			c.wantEffects(i + c9.effects)
			r.chaos = ""
			c.until(r).want(t, 0, c9.outcome)
			c.wantEffects(i + 1)
		}
	}, "-lease", "1s")
}
