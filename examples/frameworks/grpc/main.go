// Command grpc is the shop of examples/orders as remote procedure calls by
// grpc-go.
package main

import (
	"context"
	"net"
	"net/url"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/frameworks/internal/shop"
	v1 "github.com/onceward/onceward/examples/frameworks/ordersv1"
)

func main() {
	shop.Start("grpc", func(ctx context.Context, p *shop.Program, l net.Listener) error {
		server := newServer(p)
		return shop.Until(ctx, func() error { return server.Serve(l) }, func(context.Context) error {
			server.GracefulStop()
			return nil
		})
	})
}

// docs: grpc app
// newServer has its interceptors outermost first: who recovers, for grpc-go lets
// a panic end the process, who authenticates, the guard.
func newServer(p *shop.Program) *grpc.Server {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(recovered(p), authenticate(p), once(p.Guard, func(ctx context.Context) (string, error) {
		if p.UserHeader == "" {
			return onceward.Unscoped(nil)
		}
		return p.User(ctx)
	})))
	v1.RegisterOrderServiceServer(server, service{p: p})
	return server
}

// docs: end

func recovered(p *shop.Program) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if r := recover(); r != nil {
				p.Log.Error("panic", "method", info.FullMethod, "panic", r, "stack", string(debug.Stack()))
				err = shopError(shop.AsError(nil))
			}
		}()
		return handler(ctx, req)
	}
}

// authenticate trusts metadata, where a real service looks at a token.
func authenticate(p *shop.Program) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		one := func(name string) string {
			if values := metadata.ValueFromIncomingContext(ctx, name); name != "" && len(values) == 1 {
				return values[0]
			}
			return ""
		}
		ctx = shop.WithUser(ctx, one(p.UserHeader))
		if !p.Chaos {
			return handler(ctx, req)
		}
		ctx, err := shop.WithWish(ctx, url.Values{}, one("x-chaos"))
		if err != nil {
			return nil, shopError(err)
		}
		resp, err := handler(ctx, req)
		if err == nil {
			shop.DieInstead(ctx, "")
		}
		return resp, err
	}
}

type service struct {
	v1.UnimplementedOrderServiceServer
	p *shop.Program
}

func (s service) CreateOrder(ctx context.Context, req *v1.CreateOrderRequest) (*v1.CreateOrderResponse, error) {
	user, err := s.p.User(ctx)
	if err != nil {
		return nil, shopError(err)
	}
	o, placed, err := s.p.Create(ctx, user, shop.Order{Item: req.Item, Qty: int(req.Qty), ExternalID: req.ExternalId})
	if err != nil {
		return nil, shopError(err)
	}
	return &v1.CreateOrderResponse{Order: wire(o), Placed: placed}, nil
}

func (s service) ReplaceOrder(ctx context.Context, req *v1.ReplaceOrderRequest) (*v1.ReplaceOrderResponse, error) {
	user, err := s.p.User(ctx)
	if err != nil {
		return nil, shopError(err)
	}
	o, _, err := s.p.Replace(ctx, user, req.Id, shop.Order{Item: req.Item, Qty: int(req.Qty)}, shop.IfRevision(req.IfRevision))
	if err != nil {
		return nil, shopError(err)
	}
	return &v1.ReplaceOrderResponse{Order: wire(o)}, nil
}

func (s service) CancelOrder(ctx context.Context, req *v1.CancelOrderRequest) (*v1.CancelOrderResponse, error) {
	user, err := s.p.User(ctx)
	if err != nil {
		return nil, shopError(err)
	}
	o, err := s.p.Cancel(ctx, user, req.Id, shop.IfRevision(req.IfRevision))
	if err != nil {
		return nil, shopError(err)
	}
	return &v1.CancelOrderResponse{Order: wire(o)}, nil
}

func (s service) ListOrders(ctx context.Context, _ *v1.ListOrdersRequest) (*v1.ListOrdersResponse, error) {
	orders, err := s.p.All(ctx)
	if err != nil {
		return nil, shopError(err)
	}
	list := &v1.ListOrdersResponse{}
	for _, o := range orders {
		list.Orders = append(list.Orders, wire(o))
	}
	return list, nil
}

func wire(o shop.Order) *v1.Order {
	return &v1.Order{Id: o.ID, User: o.User, ExternalId: o.ExternalID, Item: o.Item, Qty: int32(o.Qty), Status: o.Status, Revision: o.Revision}
}

// shopError says an error of the shop in gRPC's words.
func shopError(err error) error {
	e := shop.AsError(err)
	return status.Error(codes.Code(e.Code()), e.Text)
}
