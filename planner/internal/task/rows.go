package task

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/planner/internal/repeat"
	"github.com/onceward/onceward/planner/internal/store"
)

const columns = `t.id, t.title, t.due_date, t.due_time, t.done_at, t.deleted_at, t.retracted, t.rev, t.created_at,
	t.series_id, t.occurrence, COALESCE(s.rrule, '')`

const from = ` FROM tasks t LEFT JOIN series s ON s.user_id = t.user_id AND s.id = t.series_id `

func get(ctx context.Context, q store.Reader, userID, id string) (Task, error) {
	ts, err := query(ctx, q, `WHERE t.user_id = ? AND t.id = ?`, userID, id)
	if err != nil {
		return Task{}, err
	}
	if len(ts) == 0 {
		return Task{}, ErrNotFound
	}
	return ts[0], nil
}

func query(ctx context.Context, q store.Reader, where string, args ...any) (ts []Task, err error) {
	rows, err := q.QueryContext(ctx, `SELECT `+columns+from+where, args...)
	if err != nil {
		return nil, fmt.Errorf("planner: reading tasks: %w", err)
	}
	defer func() {
		if err2 := errors.Join(rows.Err(), rows.Close()); err == nil && err2 != nil {
			ts, err = nil, fmt.Errorf("planner: reading tasks: %w", err2)
		}
	}()
	for rows.Next() {
		var t Task
		var done, deleted sql.NullInt64
		var created int64
		var rule string
		if err := rows.Scan(&t.ID, &t.Title, &t.Due, &t.At, &done, &deleted, &t.Retracted, &t.Rev, &created,
			&t.seriesID, &t.occurrence, &rule); err != nil {
			return nil, fmt.Errorf("planner: reading tasks: %w", err)
		}
		if t.Repeat, err = repeat.Parse(rule); err != nil {
			return nil, fmt.Errorf("planner: reading task %s: %w", t.ID, err)
		}
		t.CreatedAt = time.UnixMilli(created)
		if done.Valid {
			t.DoneAt = time.UnixMilli(done.Int64)
		}
		if deleted.Valid {
			t.DeletedAt = time.UnixMilli(deleted.Int64)
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// Get returns one task, in the trash or not. ErrNotFound.
func (s *Tasks) Get(ctx context.Context, userID, id string) (Task, error) {
	t, err := get(ctx, s.db.Reader(ctx), userID, id)
	if err == nil && t.Retracted {
		return Task{}, ErrNotFound
	}
	return t, err
}

// Open returns what is not done and not in the trash, by day and time, then in
// the order of adding; tasks without a day come last. Reading creates nothing:
// the next task of a series is made when one is done, never when somebody looks.
func (s *Tasks) Open(ctx context.Context, userID string) ([]Task, error) {
	return query(ctx, s.db.Reader(ctx), `WHERE t.user_id = ? AND t.done_at IS NULL AND t.deleted_at IS NULL AND t.retracted = 0
		ORDER BY t.due_date IS NULL, t.due_date, t.due_time IS NULL, t.due_time, t.rank, t.created_at, t.id`, userID)
}

// Completed returns at most limit done tasks that are not in the trash, the
// latest first.
func (s *Tasks) Completed(ctx context.Context, userID string, limit int) ([]Task, error) {
	return query(ctx, s.db.Reader(ctx), `WHERE t.user_id = ? AND t.done_at IS NOT NULL AND t.deleted_at IS NULL AND t.retracted = 0
		ORDER BY t.done_at DESC, t.id LIMIT ?`, userID, limit)
}

// Trash returns at most limit tasks that are in the trash, the latest first.
func (s *Tasks) Trash(ctx context.Context, userID string, limit int) ([]Task, error) {
	return query(ctx, s.db.Reader(ctx), `WHERE t.user_id = ? AND t.deleted_at IS NOT NULL AND t.retracted = 0
		ORDER BY t.deleted_at DESC, t.id LIMIT ?`, userID, limit)
}

// TrashLife is how long a task lies in the trash before Sweep deletes it.
const TrashLife = 30 * 24 * time.Hour

// Sweep deletes at most limit tasks that have lain in the trash for longer than
// TrashLife, and tells how many.
func (s *Tasks) Sweep(ctx context.Context, limit int) (int64, error) {
	res, err := s.db.Write.ExecContext(ctx, `DELETE FROM tasks WHERE rowid IN
		(SELECT rowid FROM tasks WHERE deleted_at IS NOT NULL AND deleted_at < ? LIMIT ?)`,
		s.now().Add(-TrashLife).UnixMilli(), limit)
	if err != nil {
		return 0, fmt.Errorf("planner: emptying the trash: %w", err)
	}
	return res.RowsAffected()
}
