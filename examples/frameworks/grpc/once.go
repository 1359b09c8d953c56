package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward"
)

// docs: grpc
// once makes a guard an interceptor. The key is the metadata idempotency-key;
// idempotency-status tells what became of it, in the words of the HTTP header. The
// message and the status are kept; header and trailer that a handler sets are not,
// for no interceptor sees them.
func once(guard *onceward.Guard, scope func(context.Context) (string, error)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		lines := metadata.ValueFromIncomingContext(ctx, "idempotency-key")
		if len(lines) == 0 {
			return handler(ctx, req)
		}
		if len(lines) > 1 {
			return nil, status.Error(codes.InvalidArgument, "one idempotency-key, please")
		}
		key, err := onceward.ParseKey(lines[0])
		if err != nil {
			return nil, failure(ctx, "", false, err)
		}
		whose, err := scope(ctx)
		if err != nil {
			return nil, status.Error(codes.Internal, "internal error") // this stands before authentication
		}
		// A map that is encoded again is in another order each time.
		input, err := proto.MarshalOptions{Deterministic: true}.Marshal(req.(proto.Message))
		if err != nil {
			return nil, err
		}
		call := onceward.Call{Scope: whose, Key: key, Name: info.FullMethod, Input: input}
		kept, replayed, err := onceward.Do(ctx, guard, call, func(ctx context.Context) ([]byte, error) {
			resp, err := handler(ctx, req)
			if err != nil {
				return nil, final(err)
			}
			any, err := anypb.New(resp.(proto.Message))
			if err != nil {
				return nil, err
			}
			return proto.Marshal(any)
		})
		if err != nil {
			return nil, failure(ctx, key, replayed, err)
		}
		var any anypb.Any
		if err := proto.Unmarshal(kept, &any); err != nil {
			return nil, err
		}
		tell(ctx, grpc.SetHeader, key, map[bool]string{false: "executed", true: "replayed"}[replayed])
		return any.UnmarshalNew()
	}
}

// final makes an error that the same call would get again a result. The other
// codes speak of the moment, or of nobody knows what: those free the key.
func final(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch s.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange:
		data, marshalErr := proto.Marshal(s.Proto())
		if marshalErr != nil {
			return marshalErr
		}
		return &onceward.FinalError{Code: s.Code().String(), Message: s.Message(), Data: data}
	}
	return err
}

// docs: end

// failure says an error of Do in gRPC's words. A client's own retry policy may
// repeat UNAVAILABLE under the same key, after the pause that it is told.
func failure(ctx context.Context, key string, replayed bool, err error) error {
	var kept *onceward.FinalError
	var s statuspb.Status
	if errors.As(err, &kept) && proto.Unmarshal(kept.Data, &s) == nil && s.Code != 0 {
		tell(ctx, grpc.SetTrailer, key, map[bool]string{false: "executed", true: "replayed"}[replayed])
		return status.ErrorProto(&s)
	}
	code, outcome := codes.Unknown, "released"
	switch {
	case errors.Is(err, onceward.ErrInProgress) && errors.Is(err, context.DeadlineExceeded): // the caller's
		code, outcome = codes.DeadlineExceeded, "in-progress"
	case errors.Is(err, onceward.ErrInProgress):
		code, outcome = codes.Unavailable, "in-progress"
	case errors.Is(err, onceward.ErrUnavailable):
		code, outcome = codes.Unavailable, "unavailable"
	case errors.Is(err, onceward.ErrKeyReused):
		code, outcome = codes.FailedPrecondition, "key-reused"
	case errors.Is(err, onceward.ErrKeyExpired):
		code, outcome = codes.FailedPrecondition, "key-expired"
	case errors.Is(err, onceward.ErrOutcomeUnknown):
		code, outcome = codes.FailedPrecondition, "outcome-unknown"
	case errors.Is(err, onceward.ErrResultOmitted):
		code, outcome = codes.AlreadyExists, "replayed;body=omitted"
	case errors.Is(err, onceward.ErrTooLarge):
		code, outcome = codes.ResourceExhausted, "too-large"
	case errors.Is(err, onceward.ErrKeyInvalid):
		code, outcome = codes.InvalidArgument, "key-invalid"
	default:
		tell(ctx, grpc.SetTrailer, key, outcome)
		return err // the handler's own, as it is
	}
	tell(ctx, grpc.SetTrailer, key, outcome)
	answer := status.New(code, err.Error())
	if wait := onceward.RetryAfter(err); wait > 0 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", fmt.Sprint(wait.Milliseconds())))
		if more, err := answer.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
			answer = more
		}
	}
	return answer.Err()
}

// tell says what became of the key: in the header of an answer, in the trailer of an
// error, for a client does not retry what has had a header.
func tell(ctx context.Context, set func(context.Context, metadata.MD) error, key, outcome string) {
	if key != "" {
		outcome += fmt.Sprintf(";key=%q", key)
	}
	_ = set(ctx, metadata.Pairs("idempotency-status", outcome)) // the client has gone: nobody to tell
}
