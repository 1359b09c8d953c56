package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// A queue delivers a message again when it has not heard that it was done. The
// message's id is the key.
func ExampleDo() {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close(context.Background())

	type message struct {
		ID   string
		Body []byte
	}
	charges := 0
	consume := func(ctx context.Context, msg message) error {
		number, replayed, err := onceward.Do(ctx, guard, onceward.Call{
			Scope: "billing", Key: msg.ID, Name: "charge", Input: msg.Body,
		}, func(context.Context) (int, error) {
			charges++
			return 1000 + charges, nil
		})
		if err != nil {
			return err // not acknowledged: the queue delivers it again
		}
		fmt.Println("receipt", number, "replayed:", replayed)
		return nil
	}

	msg := message{"m-17", []byte(`{"sum":"12.50"}`)}
	for range 2 { // the acknowledgement of the first was lost
		if err := consume(context.Background(), msg); err != nil {
			log.Fatal(err)
		}
	}
	msg.Body = []byte(`{"sum":"99.00"}`)
	fmt.Println(errors.Is(consume(context.Background(), msg), onceward.ErrKeyReused), charges)
	// Output:
	// receipt 1001 replayed: false
	// receipt 1001 replayed: true
	// true 1
}

// Two machines begin the same nightly run. The key is the day.
func ExampleDo_nightly() {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close(context.Background())

	nightly := func(machine string, day time.Time) {
		sent, replayed, err := onceward.Do(context.Background(), guard, onceward.Call{
			Scope: "cron", Key: day.Format("report-2006-01-02"), Name: "report",
		}, func(context.Context) (int, error) { return 42, nil })
		switch {
		case errors.Is(err, onceward.ErrInProgress):
			fmt.Println(machine, "leaves it to the other")
		case err != nil:
			log.Fatal(err)
		case replayed:
			fmt.Println(machine, "finds it done:", sent)
		default:
			fmt.Println(machine, "has sent", sent)
		}
	}
	sunday := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	nightly("a", sunday)
	nightly("b", sunday)
	nightly("b", sunday.AddDate(0, 0, 1))
	// Output:
	// a has sent 42
	// b finds it done: 42
	// b has sent 42
}

// What the same call would be refused again is a result, and is kept.
func ExampleFinalError() {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close(context.Background())

	errSoldOut := &onceward.FinalError{Code: "sold-out", Message: "sold out"}
	asked := 0
	for range 2 {
		_, replayed, err := onceward.Do(context.Background(), guard, onceward.Call{Scope: "shop", Key: "o-1", Name: "reserve"},
			func(context.Context) (string, error) {
				asked++
				return "", fmt.Errorf("tea: %w", errSoldOut)
			})
		fmt.Println(err, errors.Is(err, errSoldOut), replayed, asked)
	}
	// Output:
	// tea: sold out true false 1
	// tea: sold out true true 1
}
