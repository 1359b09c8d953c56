package task

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
)

// Whole is a task with all that is kept of it, for somebody who takes their planner
// elsewhere.
type Whole struct {
	Task
	Note      string
	UpdatedAt time.Time
	// Of a task of a series: the series' name, its first day, the day after which it
	// ends (zero: it does not), and the first occurrence after this task's own, zero
	// if there is none or this task is not the series' open one.
	Series             string
	Start, Until, Next civil.Date
}

// All returns everything that a person has, the trash included, in the order of
// adding.
func (s *Tasks) All(ctx context.Context, userID string) (all []Whole, err error) {
	rows, err := s.db.Reader(ctx).QueryContext(ctx, `SELECT `+columns+`, t.note, t.updated_at, COALESCE(s.dtstart, ''), COALESCE(s.until_date, ''), s.ended_at`+
		from+`WHERE t.user_id = ? AND t.retracted = 0 ORDER BY t.created_at, t.id`, userID)
	if err != nil {
		return nil, fmt.Errorf("planner: reading all tasks: %w", err)
	}
	defer func() {
		if end := errors.Join(rows.Err(), rows.Close()); err == nil && end != nil {
			all, err = nil, fmt.Errorf("planner: reading all tasks: %w", end)
		}
	}()
	for rows.Next() {
		var w Whole
		var done, deleted, ended sql.NullInt64
		var created, updated int64
		var rule, start, until string
		if err := rows.Scan(&w.ID, &w.Title, &w.Due, &w.At, &done, &deleted, &w.Retracted, &w.Rev, &created,
			&w.seriesID, &w.occurrence, &rule, &w.Note, &updated, &start, &until, &ended); err != nil {
			return nil, fmt.Errorf("planner: reading all tasks: %w", err)
		}
		w.CreatedAt, w.UpdatedAt = time.UnixMilli(created), time.UnixMilli(updated)
		if done.Valid {
			w.DoneAt = time.UnixMilli(done.Int64)
		}
		if deleted.Valid {
			w.DeletedAt = time.UnixMilli(deleted.Int64)
		}
		if w.Repeats() {
			if err := w.series(rule, start, until, ended.Valid); err != nil {
				return nil, fmt.Errorf("planner: reading task %s: %w", w.ID, err)
			}
		}
		all = append(all, w)
	}
	return all, nil
}

// series fills in what a task's series says.
func (w *Whole) series(rule, start, until string, ended bool) (err error) {
	w.Series = w.seriesID.String
	if w.Repeat, err = repeat.Parse(rule); err != nil {
		return err
	}
	if w.Start, err = civil.ParseDate(start); err != nil {
		return err
	}
	if until != "" {
		if w.Until, err = civil.ParseDate(until); err != nil {
			return err
		}
	}
	if w.Done() || w.Deleted() || ended {
		return nil
	}
	w.Next = repeat.Next(w.Repeat, w.Start, w.occurrence)
	if !w.Until.IsZero() && w.Next.After(w.Until) {
		w.Next = civil.Date{}
	}
	return nil
}
