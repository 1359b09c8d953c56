package frameworks

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	v1 "github.com/onceward/onceward/examples/frameworks/ordersv1"
)

// What holds without a key and beyond it, said of calls: requirements 64, 68 and 83.

func (c *shopClient) replace(key string, message *v1.ReplaceOrderRequest) reply {
	req := connect.NewRequest(message)
	set(req.Header(), "Idempotency-Key", key)
	resp, err := c.ReplaceOrder(context.Background(), req)
	if err != nil {
		return failed(err)
	}
	return worked(resp.Msg.Order, false, resp.Header(), resp.Trailer())
}

func (c *shopClient) cancel(key string, message *v1.CancelOrderRequest) reply {
	req := connect.NewRequest(message)
	set(req.Header(), "Idempotency-Key", key)
	resp, err := c.CancelOrder(context.Background(), req)
	if err != nil {
		return failed(err)
	}
	return worked(resp.Msg.Order, false, resp.Header(), resp.Trailer())
}

// atOnce runs calls together.
func atOnce(n int, do func(i int) reply) []reply {
	results := make([]reply, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i] = do(i) })
	}
	all.Wait()
	return results
}

func TestRequirement64TwentyCallsUnderTwoKeysAreOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		named := &v1.CreateOrderRequest{Item: "tea", Qty: 1, ExternalId: "basket-1"}
		results := atOnce(20, func(i int) reply { return c.until(call{key: fmt.Sprint("key-", i%2), order: named}) })
		there := c.wantEffects(1)[0]
		placed := map[string]bool{} // by key
		for i, r := range results {
			if r.want(t, 0, r.outcome).order.GetId() != there.Id {
				t.Errorf("answered %v, the shop has %v", r, there)
			}
			if r.placed {
				placed[fmt.Sprint("key-", i%2)] = true
			}
		}
		if len(placed) != 1 {
			t.Errorf("under these keys it was told that the order is new: %v", placed)
		}
		if again := c.create(call{key: "later", order: named}).want(t, 0, "executed"); again.placed {
			t.Errorf("a late repeat was told that it is new: %v", again)
		}
		other := &v1.CreateOrderRequest{Item: "jam", Qty: 1, ExternalId: "basket-1"}
		c.create(call{key: "other", order: other}).want(t, connect.CodeAlreadyExists, "executed")
		c.wantEffects(1)
	})
}

func TestRequirement68AStaleRevisionIsRefusedAndChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		first := c.create(call{key: "create"}).want(t, 0, "executed").order
		wish := func(qty int32, revision string) *v1.ReplaceOrderRequest {
			return &v1.ReplaceOrderRequest{Id: first.GetId(), Item: "tea", Qty: qty, IfRevision: revision}
		}
		second := c.replace("", wish(2, first.GetRevision())).want(t, 0, "").order
		if second.GetRevision() == first.GetRevision() {
			t.Fatalf("the revision stays %s", first.GetRevision())
		}
		// A refusal is the call's own: under a key it is kept.
		refused := c.replace("k", wish(3, first.GetRevision())).want(t, connect.CodeFailedPrecondition, "executed")
		if again := c.replace("k", wish(3, first.GetRevision())).want(t, connect.CodeFailedPrecondition, "replayed"); again.text != refused.text {
			t.Errorf("refused with %q, then with %q", refused.text, again.text)
		}
		c.cancel("", &v1.CancelOrderRequest{Id: first.GetId(), IfRevision: first.GetRevision()}).want(t, connect.CodeFailedPrecondition, "")
		c.replace("", wish(3, `no "revision`)).want(t, connect.CodeFailedPrecondition, "")
		// What is already so is no conflict: this caller's answer was lost.
		if again := c.replace("", wish(2, first.GetRevision())).want(t, 0, ""); again.order.GetRevision() != second.GetRevision() {
			t.Errorf("a repeat changed the order: %v, then %v", second, again.order)
		}
		// Of twenty who have read the same revision one may write.
		codes := map[connect.Code]int{}
		for _, r := range atOnce(20, func(i int) reply { return c.replace(fmt.Sprint("k", i), wish(int32(100+i), second.GetRevision())) }) {
			codes[r.code]++
		}
		if codes[0] != 1 || codes[connect.CodeFailedPrecondition] != 19 {
			t.Errorf("twenty at once were answered with the codes %v", codes)
		}
		if o := c.wantEffects(1)[0]; o.Qty < 100 || o.Status != "placed" {
			t.Errorf("the shop has %v", o)
		}
	})
}

func TestRequirement83CancelledTwentyTimesIsCancelledOnce(t *testing.T) {
	onEach(t, func(t *testing.T, c *shopClient) {
		first := c.create(call{key: "create"}).want(t, 0, "executed").order
		revisions := map[string]int{}
		for _, r := range atOnce(20, func(i int) reply {
			for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
				r := c.cancel(map[bool]string{true: fmt.Sprint("k", i%6)}[i < 12], &v1.CancelOrderRequest{Id: first.GetId()})
				if r.outcome != "in-progress" || time.Now().After(end) {
					return r
				}
			}
		}) {
			if r.want(t, 0, r.outcome).order.GetStatus() != "cancelled" {
				t.Errorf("cancelling was answered %v", r)
			}
			revisions[r.order.GetRevision()]++
		}
		if len(revisions) != 1 || revisions[first.GetRevision()] != 0 {
			t.Errorf("the order changed more than once: %v, it was placed as %s", revisions, first.GetRevision())
		}
		// A caller that had read the placed order, and whose answer was lost.
		c.cancel("", &v1.CancelOrderRequest{Id: first.GetId(), IfRevision: first.GetRevision()}).want(t, 0, "")
		if o := c.wantEffects(1)[0]; o.Status != "cancelled" {
			t.Errorf("the shop has %v", o)
		}
	})
}
