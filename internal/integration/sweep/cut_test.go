//go:build linux

package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// cut is the third way of striking: the connections to the database are reset, and
// the process, which lives on, may make new ones at once.
const cut = "cut"

// The rows of the matrix for it.
const (
	rowCutCall   = "loses the connection in the middle of a call to the store"
	rowCutFailed = "loses the connection before the work is committed, and says 500"
	rowCutCommit = "loses the answer to the work's own commit, and says 500"
)

// rowOfCut finds the row by what the client was told and by how many effects there
// were then.
func rowOfCut(a answer, effects int) (string, error) {
	failed := a.status == "released" || a.status == "outcome-unknown"
	switch {
	case a.acknowledged() && effects == 1:
		return rowCutCall, nil
	case a.status == "unavailable" && effects == 0:
		return rowCutCall, nil
	case a.status == "in-progress" && effects <= 1: // the answer to COMMIT was lost, and nobody knows yet
		return rowCutCall, nil
	case failed && effects == 0:
		return rowCutFailed, nil
	case failed && effects == 1:
		return rowCutCommit, nil
	}
	return "", fmt.Errorf("with %d effects the client was told %v", effects, a)
}

// cut looks what comes of a request whose connections are cut.
func (l *lane) cut(ctx context.Context, key string, victim *process, first <-chan answer, r *result) (err error) {
	var a answer
	select {
	case a = <-first:
	case <-time.After(30 * time.Second):
		return errors.New("the victim does not answer")
	}
	// The healthy one may be told that the request still runs, before the victim has
	// found out what has become of it.
	if l.mode == atomic {
		if err := l.site.settle(ctx, victim.plan.Name, false); err != nil {
			return err
		}
	}
	if r.moment, err = l.look(ctx, key); err != nil {
		return err
	}
	row, err := rowOfCut(a, r.moment.effects)
	if err != nil {
		return err
	}
	last, tries, waited := repeat(ctx, l.healthy.url, key, l.freedWithin())
	r.waited, r.wedged = waited, !last.final()
	answers := append([]answer{a}, tries...)
	for _, url := range []string{victim.url, l.healthy.url} {
		_, tries, _ = repeat(ctx, url, key, l.freedWithin())
		answers = append(answers, tries...)
	}
	return l.judge(ctx, key, matrix[row][l.mode], answers, r)
}
