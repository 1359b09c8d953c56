package storetest_test

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/storetest"
)

var errLost = errors.New("the connection was lost")

// losing is a client of wrongStore: each call is one message, which can be lost. What
// is wrong here is wrong only when one is.
type losing struct {
	*wrongStore
	what  storetest.Loss
	after int // messages that still pass; negative: all do
	lost  bool

	suspect onceward.Token // of the call that was lost last
}

func (l *losing) lose(what storetest.Loss, n int) func() bool {
	l.what, l.after, l.lost = what, n, false
	return func() bool {
		l.after = -1
		return l.lost
	}
}

// send makes a call as the connection lets it. lost says that nobody heard its
// answer; done, that it was carried out.
func (l *losing) send(call func()) (done, lost bool) {
	if l.lost || l.after != 0 {
		l.after--
		call()
		return true, false
	}
	l.after, l.lost = -1, true
	if l.what == storetest.LoseAnswer {
		call()
	}
	return l.what == storetest.LoseAnswer, true
}

func (l *losing) Claim(ctx context.Context, c onceward.Claim) (rec onceward.Record, claimed bool, err error) {
	ask := c
	if l.after == 0 && !l.lost && !c.TakeOver && l.is("a lost claim is a stranger's") {
		ask.Token[7]++ // a try has a token of its own
	}
	done, lost := l.send(func() { rec, claimed, err = l.wrongStore.Claim(ctx, ask) })
	switch {
	case !lost:
	case !done && !c.TakeOver && l.is("a lost request is taken for a claim"):
		return onceward.Record{Key: c.Key, Token: c.Token, State: onceward.InProgress, Attempt: 1}, true, nil
	case done && c.TakeOver && l.is("a lost take-over is counted twice"):
		l.mu.Lock()
		l.rows[c.Key].Attempt++
		l.mu.Unlock()
		fallthrough
	default:
		return onceward.Record{}, false, errLost
	}
	return rec, claimed, err
}

func (l *losing) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) (err error) {
	if _, lost := l.send(func() { err = l.wrongStore.Extend(ctx, key, tok, lease, hold) }); lost {
		switch l.wrong {
		case "a lost extend is a lost claim":
			return onceward.ErrClaimLost
		case "a lost extend is taken for done":
			return nil
		}
		return errLost
	}
	return err
}

func (l *losing) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) (err error) {
	if _, lost := l.send(func() { err = l.wrongStore.Complete(ctx, key, tok, resp, retain) }); lost {
		l.suspect = tok
		if l.is("a lost complete is taken for done") {
			return nil
		}
		return errLost
	}
	if l.suspect == tok && l.is("a lost complete is a lost claim") {
		return onceward.ErrClaimLost // "it was in progress, and is no more"
	}
	return err
}

func (l *losing) Release(ctx context.Context, key onceward.Key, tok onceward.Token) (err error) {
	again := l.suspect == tok
	if _, lost := l.send(func() { err = l.wrongStore.Release(ctx, key, tok) }); lost {
		l.suspect = tok
		if l.is("a lost release is taken for done") {
			return nil
		}
		return errLost
	}
	if again && l.is("a lost release is repeated by key") {
		l.mu.Lock()
		delete(l.rows, key)
		l.mu.Unlock()
	}
	return err
}

func (l *losing) Transact(ctx context.Context, c onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (rec onceward.Record, ran bool, err error) {
	transact := func() { rec, ran, err = l.wrongStore.Transact(ctx, c, work) }
	done, lost := l.send(transact)
	switch {
	case !lost:
		return rec, ran, err
	case done && l.is("a lost transact runs again"):
		l.mu.Lock()
		delete(l.rows, c.Key) // as if it had been rolled back
		l.mu.Unlock()
		transact()
		return rec, ran, err
	case !done && l.is("a lost transact is taken for done"):
		return onceward.Record{
			Key: c.Key, Token: c.Token, State: onceward.Completed, Response: &onceward.Response{Status: 200, Body: []byte("done")},
		}, true, nil
	}
	return onceward.Record{}, false, errLost
}
