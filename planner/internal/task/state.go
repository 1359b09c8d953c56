package task

import (
	"context"
	"crypto/rand"
	"database/sql"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
)

// SetDone marks a task done, or not done. Today is the date in the person's zone.
// ErrNotFound, ErrGone.
//
// A task of a series that becomes done brings its next one, in the same
// transaction: both are there, or neither. However often and from however many
// devices it is marked done, and undone, and done again, there is one next one:
//
//   - only the update that really turned "not done" into "done" looks for it;
//   - a series in which a later task is already there gets no other;
//   - (series, occurrence) is unique in any case.
//
// The next one falls strictly after today, so that a task which was overdue for
// a month does not bring four more overdue ones, and after the task's own place
// in the series, wherever the task was moved to meanwhile.
//
// "Not done" takes the next one back, unless somebody has touched it.
func (s *Tasks) SetDone(ctx context.Context, userID, id string, done bool, today civil.Date) (Task, error) {
	return s.change(ctx, userID, id, func(tx *sql.Tx, before Task, now int64) error {
		q := `UPDATE tasks SET done_at = ?3, rev = rev + 1, updated_at = ?3 WHERE user_id = ?1 AND id = ?2 AND done_at IS NULL`
		if !done {
			q = `UPDATE tasks SET done_at = NULL, rev = rev + 1, updated_at = ?3 WHERE user_id = ?1 AND id = ?2 AND done_at IS NOT NULL`
		}
		res, err := tx.ExecContext(ctx, q, userID, id, now)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 || !before.Repeats() {
			return err
		}
		if done {
			return spawn(ctx, tx, userID, before, today, now)
		}
		return retract(ctx, tx, userID, before)
	})
}

// spawn makes the next task of a series after t was done.
func spawn(ctx context.Context, tx *sql.Tx, userID string, t Task, today civil.Date, now int64) error {
	later := 0
	err := tx.QueryRowContext(ctx, `SELECT count(*) FROM tasks
		WHERE user_id = ? AND series_id = ? AND occurrence > ? AND retracted = 0`,
		userID, t.seriesID, t.occurrence).Scan(&later)
	if err != nil || later > 0 {
		return err
	}
	var start, until civil.Date
	var ended sql.NullInt64
	if err := tx.QueryRowContext(ctx, `SELECT dtstart, until_date, ended_at FROM series WHERE user_id = ? AND id = ?`,
		userID, t.seriesID).Scan(&start, &until, &ended); err != nil {
		return err
	}
	next := repeat.Next(t.Repeat, start, civil.Max(t.occurrence, today))
	if next.IsZero() || ended.Valid || !until.IsZero() && next.After(until) {
		return nil
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO tasks
		  (user_id, id, kind, title, note, subject_id, due_date, due_time, important, series_id, occurrence, created_at, updated_at)
		SELECT user_id, ?3, kind, title, note, subject_id, ?4, due_time, important, series_id, ?4, ?5, ?5
		FROM tasks WHERE user_id = ?1 AND id = ?2
		ON CONFLICT (user_id, series_id, occurrence) DO UPDATE SET
		  retracted = 0, kind = excluded.kind, title = excluded.title, note = excluded.note, subject_id = excluded.subject_id,
		  due_date = excluded.due_date, due_time = excluded.due_time, important = excluded.important, updated_at = excluded.updated_at
		WHERE retracted = 1`,
		userID, t.ID, rand.Text(), next, now)
	return err
}

// retract takes back the task that t brought: the nearest later one of the
// series, if nobody has done, deleted or changed it. Its row stays, so that the
// same next one, and no other, comes again.
func retract(ctx context.Context, tx *sql.Tx, userID string, t Task) error {
	_, err := tx.ExecContext(ctx, `UPDATE tasks SET retracted = 1
		WHERE user_id = ?1 AND series_id = ?2 AND rev = 1 AND done_at IS NULL AND deleted_at IS NULL AND retracted = 0
		  AND occurrence = (SELECT min(occurrence) FROM tasks
		    WHERE user_id = ?1 AND series_id = ?2 AND occurrence > ?3 AND retracted = 0)`,
		userID, t.seriesID, t.occurrence)
	return err
}
