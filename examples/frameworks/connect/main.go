// Command connect is the shop of examples/orders as remote procedure calls by
// connect-go, which speaks Connect, gRPC and gRPC-Web.
package main

import (
	"context"
	"net/http"
	"runtime/debug"

	"connectrpc.com/connect"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/frameworks/internal/shop"
	v1 "github.com/onceward/onceward/examples/frameworks/ordersv1"
	"github.com/onceward/onceward/examples/frameworks/ordersv1/ordersv1connect"
)

func main() {
	shop.Main("connect", shop.Mount{Name: "interceptor", Handler: app})
}

// docs: connect app
// app has its interceptors outermost first: who recovers, who authenticates, the
// guard. It needs no guard around it.
func app(p *shop.Program, _ func(http.Handler) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(ordersv1connect.NewOrderServiceHandler(service{p},
		connect.WithInterceptors(recovered(p), authenticate(p), once(p.Guard, func(ctx context.Context) (string, error) {
			if p.UserHeader == "" {
				return onceward.Unscoped(nil)
			}
			return p.User(ctx)
		}))))
	return mux
}

// docs: end

// recovered answers a panic, as connect.WithRecover does. The guard has freed the key
// by then.
func recovered(p *shop.Program) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (_ connect.AnyResponse, err error) {
			defer func() {
				if r := recover(); r != nil {
					p.Log.Error("panic", "procedure", req.Spec().Procedure, "panic", r, "stack", string(debug.Stack()))
					err = shopError(shop.AsError(nil))
				}
			}()
			return next(ctx, req)
		}
	}
}

// authenticate trusts a header, where a real service looks at a token.
func authenticate(p *shop.Program) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			resp, err := next(shop.WithUser(ctx, req.Header().Get(p.UserHeader)), req)
			if err == nil {
				shop.DieInstead(ctx, resp.Header().Get("Idempotency-Status"))
			}
			return resp, err
		}
	}
}

type service struct{ p *shop.Program }

func (s service) CreateOrder(ctx context.Context, req *connect.Request[v1.CreateOrderRequest]) (*connect.Response[v1.CreateOrderResponse], error) {
	user, err := s.p.User(ctx)
	if err != nil {
		return nil, shopError(err)
	}
	o, placed, err := s.p.Create(ctx, user, shop.Order{Item: req.Msg.Item, Qty: int(req.Msg.Qty), ExternalID: req.Msg.ExternalId})
	if err != nil {
		return nil, shopError(err)
	}
	resp := connect.NewResponse(&v1.CreateOrderResponse{Order: wire(o), Placed: placed})
	resp.Header().Set("Location", "/orders/"+o.ID)
	resp.Trailer().Set("Shop-Trailer", o.ID)
	return resp, nil
}

func (s service) ReplaceOrder(ctx context.Context, req *connect.Request[v1.ReplaceOrderRequest]) (*connect.Response[v1.ReplaceOrderResponse], error) {
	user, err := s.p.User(ctx)
	if err != nil {
		return nil, shopError(err)
	}
	o, _, err := s.p.Replace(ctx, user, req.Msg.Id, shop.Order{Item: req.Msg.Item, Qty: int(req.Msg.Qty)}, shop.IfRevision(req.Msg.IfRevision))
	if err != nil {
		return nil, shopError(err)
	}
	return connect.NewResponse(&v1.ReplaceOrderResponse{Order: wire(o)}), nil
}

func (s service) CancelOrder(ctx context.Context, req *connect.Request[v1.CancelOrderRequest]) (*connect.Response[v1.CancelOrderResponse], error) {
	user, err := s.p.User(ctx)
	if err != nil {
		return nil, shopError(err)
	}
	o, err := s.p.Cancel(ctx, user, req.Msg.Id, shop.IfRevision(req.Msg.IfRevision))
	if err != nil {
		return nil, shopError(err)
	}
	return connect.NewResponse(&v1.CancelOrderResponse{Order: wire(o)}), nil
}

func (s service) ListOrders(ctx context.Context, _ *connect.Request[v1.ListOrdersRequest]) (*connect.Response[v1.ListOrdersResponse], error) {
	orders, err := s.p.All(ctx)
	if err != nil {
		return nil, shopError(err)
	}
	list := &v1.ListOrdersResponse{}
	for _, o := range orders {
		list.Orders = append(list.Orders, wire(o))
	}
	return connect.NewResponse(list), nil
}

func wire(o shop.Order) *v1.Order {
	return &v1.Order{Id: o.ID, User: o.User, ExternalId: o.ExternalID, Item: o.Item, Qty: int32(o.Qty), Status: o.Status, Revision: o.Revision}
}

// shopError says an error of the shop in Connect's words.
func shopError(err error) error {
	e := shop.AsError(err)
	return connect.NewError(connect.Code(e.Code()), e)
}
