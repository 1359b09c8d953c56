package riveroperation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
)

// table has the statements on onceward_operations. A row is there from the moment an
// operation is accepted until its retention is over; its state only ever goes from
// pending to one of the others, which is what makes an effect be there once.
type table struct {
	insert, setJob, read, finish, lapse, forget, sweep, stuck, drop string
}

// now stands for the database's clock in the texts below.
const now = "NOW_MS"

func newTable(clock string) table {
	q := func(text string) string { return strings.ReplaceAll(text, now, clock) }
	return table{
		insert: q(`INSERT INTO onceward_operations (scope, id, fingerprint, kind, input, job_id, state, created_at)
			VALUES ($1, $2, $3, $4, $5, 0, 'pending', NOW_MS) ON CONFLICT (scope, id) DO NOTHING`),
		setJob: q(`UPDATE onceward_operations SET job_id = $3 WHERE scope = $1 AND id = $2`),
		read: q(`SELECT fingerprint, kind, input, job_id, state, result, created_at, COALESCE(finished_at, 0)
			FROM onceward_operations WHERE scope = $1 AND id = $2`),
		finish: q(`UPDATE onceward_operations SET state = $3, result = $4, finished_at = NOW_MS
			WHERE scope = $1 AND id = $2 AND state = 'pending'`),
		// What River ended, ended when River says.
		lapse: q(`UPDATE onceward_operations SET state = 'failed', result = $3, finished_at = $4
			WHERE scope = $1 AND id = $2 AND state = 'pending'`),
		forget: q(`DELETE FROM onceward_operations WHERE scope = $1`),
		sweep: q(`DELETE FROM onceward_operations WHERE (scope, id) IN
			(SELECT scope, id FROM onceward_operations WHERE finished_at < NOW_MS - $1 LIMIT $2)`),
		// Pending and old: those that River has lost or given up.
		stuck: q(`SELECT scope, id, job_id FROM onceward_operations
			WHERE state = 'pending' AND created_at < NOW_MS - $1 AND job_id > $2 ORDER BY job_id LIMIT $3`),
		drop: q(`DELETE FROM onceward_operations WHERE scope = $1 AND id = $2 AND state = 'pending'`),
	}
}

// row is one operation as it is stored.
type row struct {
	key         onceward.Key
	fingerprint onceward.Fingerprint
	kind        string
	input       []byte
	jobID       int64
	state       operation.State
	outcome     outcome
	created     int64
	finished    int64
}

// outcome is the column result, as JSON: of a complete operation the first two, of a
// failed one the others.
type outcome struct {
	Value    json.RawMessage `json:"value,omitempty"`
	Location string          `json:"location,omitempty"`
	Type     string          `json:"type,omitempty"`
	Title    string          `json:"title,omitempty"`
	Detail   string          `json:"detail,omitempty"`
}

// load reads a row; found is false if there is none.
func (t *table) load(ctx context.Context, s Statements, key onceward.Key) (r row, found bool, err error) {
	r.key = key
	var fp, result []byte
	var state string
	err = s.Query(ctx, func(scan func(...any) error) error {
		found = true
		return scan(&fp, &r.kind, &r.input, &r.jobID, &state, &result, &r.created, &r.finished)
	}, t.read, key.Scope[:], key.ID[:])
	if err == nil && found {
		r.state = operation.State(state)
		err = r.fingerprint.UnmarshalBinary(fp)
		if err == nil && len(result) > 0 {
			err = json.Unmarshal(result, &r.outcome)
		}
	}
	if err != nil {
		return row{}, false, fmt.Errorf("riveroperation: reading operation %s: %w", key.RecordID(), err)
	}
	return r, found, nil
}

// end makes the row complete or failed, if it is still pending.
func (t *table) end(ctx context.Context, s Statements, key onceward.Key, state operation.State, o outcome) (ours bool, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return false, fmt.Errorf("riveroperation: the result of operation %s is no JSON: %w", key.RecordID(), err)
	}
	n, err := s.Exec(ctx, t.finish, key.Scope[:], key.ID[:], string(state), text)
	if err != nil {
		return false, fmt.Errorf("riveroperation: ending operation %s: %w", key.RecordID(), err)
	}
	return n == 1, nil
}

// giveUp makes the row failed, if it is still pending, as of the moment at which River
// gave the job up.
func (t *table) giveUp(ctx context.Context, s Statements, key onceward.Key, f operation.Failure, at time.Time) (ours bool, err error) {
	text, err := json.Marshal(outcome{Type: f.Type, Title: f.Title, Detail: f.Detail})
	if err != nil {
		return false, fmt.Errorf("riveroperation: the failure of operation %s is no JSON: %w", key.RecordID(), err)
	}
	n, err := s.Exec(ctx, t.lapse, key.Scope[:], key.ID[:], text, at.UnixMilli())
	if err != nil {
		return false, fmt.Errorf("riveroperation: ending operation %s: %w", key.RecordID(), err)
	}
	return n == 1, nil
}

// operation is the row as its owner sees it, as far as the row alone can tell.
func (r *row) operation() operation.Operation {
	op := operation.Operation{Key: r.key, Kind: r.kind, State: r.state, Created: time.UnixMilli(r.created)}
	if r.finished != 0 {
		op.Finished = time.UnixMilli(r.finished)
	}
	switch r.state {
	case operation.Complete:
		op.Result = operation.Result{Value: r.outcome.Value, Location: r.outcome.Location}
	case operation.Failed:
		op.Failure = &operation.Failure{Type: r.outcome.Type, Title: r.outcome.Title, Detail: r.outcome.Detail}
	}
	return op
}
