package frameworks

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	v1 "github.com/onceward/onceward/examples/frameworks/ordersv1"
)

// A client with nothing but gRPC's own retry policy: a repeat that comes while the
// first call runs waits by itself, as long as it is told to, and gets the answer.
func TestGRPCsOwnRetriesWaitForTheFirstCall(t *testing.T) {
	t.Parallel()
	program := start(t, "grpc", "-store", "sqlite:"+filepath.Join(t.TempDir(), "orders.db"))
	conn, err := grpc.NewClient(strings.TrimPrefix(program.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{"service": "orders.v1.OrderService"}], "retryPolicy": {
					"maxAttempts": 5, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	create := func() (*v1.Order, string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", "k", "x-chaos", "sleep_ms=2500")
		var header metadata.MD
		resp, err := v1.NewOrderServiceClient(conn).CreateOrder(ctx, &v1.CreateOrderRequest{Item: "tea", Qty: 1}, grpc.Header(&header))
		outcome, _, _ := strings.Cut(strings.Join(header["idempotency-status"], ","), ";")
		return resp.GetOrder(), outcome, err
	}
	type first struct {
		order   *v1.Order
		outcome string
		err     error
	}
	c := make(chan first, 1)
	go func() {
		o, outcome, err := create()
		c <- first{o, outcome, err}
	}()
	time.Sleep(700 * time.Millisecond)
	again, outcome, err := create()
	one := <-c
	if one.err != nil || err != nil || again.String() != one.order.String() {
		t.Fatalf("answered %v %v, the first %v %v", again, err, one.order, one.err)
	}
	if outcomes := one.outcome + " " + outcome; outcomes != "executed replayed" {
		t.Errorf("outcomes: %s", outcomes)
	}
}
