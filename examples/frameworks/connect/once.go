package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward"
)

// docs: connect
// once makes a guard an interceptor. Around the handlers, as a net/http
// middleware, it would be right for Connect's own protocol alone: gRPC says 200
// and tells in a trailer what went wrong, which no stored answer has. Here a call
// is a message and an error, whatever carries it.
func once(guard *onceward.Guard, scope func(context.Context) (string, error)) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			lines := req.Header().Values("Idempotency-Key")
			if len(lines) == 0 || req.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects {
				return next(ctx, req)
			}
			call, err := callOf(ctx, lines, scope, req)
			if err != nil {
				return nil, err
			}
			var first connect.AnyResponse
			kept, replayed, err := onceward.Do(ctx, guard, call, func(ctx context.Context) (message, error) {
				var err error
				if first, err = next(ctx, req); err != nil {
					return message{}, final(err)
				}
				body, err := proto.Marshal(first.Any().(proto.Message))
				return message{body, first.Header(), first.Trailer()}, err
			})
			if err != nil {
				return nil, marked(failure(err), call.Key, replayed, err)
			}
			if !replayed {
				first.Header().Set("Idempotency-Status", fmt.Sprintf("executed;key=%q", call.Key))
				return first, nil
			}
			method := req.Spec().Schema.(protoreflect.MethodDescriptor)
			again := connect.NewResponse(dynamicpb.NewMessage(method.Output()))
			if err := proto.Unmarshal(kept.Body, again.Msg); err != nil {
				return nil, connect.NewError(connect.CodeInternal, errors.New("the kept answer is of another version"))
			}
			copyHeader(again.Header(), kept.Header)
			copyHeader(again.Trailer(), kept.Trailer)
			again.Header().Set("Idempotency-Status", fmt.Sprintf("replayed;key=%q", call.Key))
			again.Header().Set("Idempotency-Replayed", "1")
			return again, nil
		}
	}
}

// final makes an error that the same call would get again a result. The other
// codes speak of the moment, or of nobody knows what: those free the key.
func final(err error) error {
	var e *connect.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
	default:
		return err
	}
	r := refusal{Code: e.Code(), Message: e.Message(), Meta: e.Meta()}
	for _, d := range e.Details() {
		r.Details = append(r.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	data, jsonErr := json.Marshal(r)
	if jsonErr != nil {
		return jsonErr
	}
	return &onceward.FinalError{Code: e.Code().String(), Message: e.Message(), Data: data}
}

// docs: end

// callOf names a call: whose it is, which, and what.
func callOf(ctx context.Context, lines []string, scope func(context.Context) (string, error), req connect.AnyRequest) (onceward.Call, error) {
	if len(lines) > 1 {
		return onceward.Call{}, connect.NewError(connect.CodeInvalidArgument, errors.New("one Idempotency-Key, please"))
	}
	key, err := onceward.ParseKey(lines[0])
	if err != nil {
		return onceward.Call{}, marked(connect.NewError(connect.CodeInvalidArgument, err), "", false, err)
	}
	whose, err := scope(ctx)
	if err != nil {
		return onceward.Call{}, connect.NewError(connect.CodeInternal, errors.New("internal error")) // the guard's interceptor stands before authentication
	}
	// Bytes as the client sent them would do for a client that repeats bytes; a map
	// that is encoded again is in another order each time.
	input, err := proto.MarshalOptions{Deterministic: true}.Marshal(req.Any().(proto.Message))
	return onceward.Call{Scope: whose, Key: key, Name: req.Spec().Procedure, Input: input}, err
}

// message is an answer, and refusal an error, as they are kept.
type message struct {
	Body            []byte
	Header, Trailer http.Header
}

type refusal struct {
	Code    connect.Code
	Message string
	Details []*anypb.Any
	Meta    http.Header
}

// failure says an error of Do in Connect's words.
func failure(err error) *connect.Error {
	var kept *onceward.FinalError
	var own *connect.Error
	var r refusal
	switch {
	case errors.As(err, &kept) && json.Unmarshal(kept.Data, &r) == nil:
		e := connect.NewError(r.Code, errors.New(r.Message))
		for _, d := range r.Details {
			if detail, err := connect.NewErrorDetail(d); err == nil {
				e.AddDetail(detail)
			}
		}
		copyHeader(e.Meta(), r.Meta)
		return e
	case errors.As(err, &own):
		return own
	case errors.Is(err, onceward.ErrInProgress) && errors.Is(err, context.DeadlineExceeded): // the caller's
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	case errors.Is(err, onceward.ErrInProgress), errors.Is(err, onceward.ErrUnavailable):
		e := connect.NewError(connect.CodeUnavailable, err)
		if wait := onceward.RetryAfter(err); wait > 0 {
			if detail, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
				e.AddDetail(detail)
			}
			e.Meta().Set("Retry-After", fmt.Sprint(int(wait.Seconds())))
			e.Meta().Set("Grpc-Retry-Pushback-Ms", fmt.Sprint(wait.Milliseconds()))
		}
		return e
	case errors.Is(err, onceward.ErrKeyReused), errors.Is(err, onceward.ErrKeyExpired), errors.Is(err, onceward.ErrOutcomeUnknown):
		return connect.NewError(connect.CodeFailedPrecondition, err)
	case errors.Is(err, onceward.ErrResultOmitted):
		return connect.NewError(connect.CodeAlreadyExists, err)
	case errors.Is(err, onceward.ErrTooLarge):
		return connect.NewError(connect.CodeResourceExhausted, err)
	case errors.Is(err, onceward.ErrKeyMissing), errors.Is(err, onceward.ErrKeyInvalid):
		return connect.NewError(connect.CodeInvalidArgument, err)
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	return connect.NewError(connect.CodeUnknown, err)
}

// marked tells in Idempotency-Status what the guard has decided.
func marked(e *connect.Error, key string, replayed bool, err error) *connect.Error {
	outcome := "released"
	switch {
	case replayed:
		outcome = "replayed"
		e.Meta().Set("Idempotency-Replayed", "1")
	case errors.As(err, new(*onceward.FinalError)):
		outcome = "executed"
	case errors.Is(err, onceward.ErrOutcomeUnknown):
		outcome = "outcome-unknown"
	case errors.Is(err, onceward.ErrInProgress):
		outcome = "in-progress"
	case errors.Is(err, onceward.ErrUnavailable):
		outcome = "unavailable"
	case errors.Is(err, onceward.ErrKeyReused):
		outcome = "key-reused"
	case errors.Is(err, onceward.ErrKeyExpired):
		outcome = "key-expired"
	case errors.Is(err, onceward.ErrKeyInvalid):
		outcome = "key-invalid"
	case errors.Is(err, onceward.ErrTooLarge):
		outcome = "too-large"
	}
	if key != "" {
		outcome += fmt.Sprintf(";key=%q", key)
	}
	e.Meta().Set("Idempotency-Status", outcome)
	return e
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = values
	}
}
