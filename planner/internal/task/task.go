// Package task is what a person wants to do: it adds tasks, marks them done, and
// makes the next one of a series. Each change sets a value ("done", "due on
// Thursday", "in the trash"), so that the same change twice is one change; there
// is nothing that flips, adds one or moves by a day.
package task

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
	"github.com/onceward/onceward/planner/internal/store"
)

// The limits of what a person may have.
const (
	MaxTitle = 500  // runes
	MaxOpen  = 5000 // open tasks of one person
)

// What a change can be refused for. They are for errors.Is.
var (
	ErrNotFound     = errors.New("planner: there is no such task")
	ErrGone         = errors.New("planner: the task is in the trash")
	ErrTitleMissing = errors.New("planner: the title is empty")
	ErrTitleLong    = errors.New("planner: the title is too long")
	ErrTooMany      = errors.New("planner: there are too many open tasks")
	ErrIDInvalid    = errors.New("planner: an id is 1 to 64 of A–Z, a–z, 0–9, - and _")
	ErrDueInvalid   = errors.New("planner: a time of day and a repeat need a date")
)

// Task is a row as pages need it.
type Task struct {
	ID        string
	Title     string
	Due       civil.Date  // zero: some day
	At        civil.Time  // zero: any time of that day
	Repeat    repeat.Rule // zero: once
	DoneAt    time.Time   // zero: not done
	DeletedAt time.Time   // zero: not in the trash
	Retracted bool        // a next one that "not done" took back; pages do not show it
	Rev       int         // 1 until somebody changes it
	CreatedAt time.Time

	seriesID   sql.NullString
	occurrence civil.Date
}

// Done tells whether the task is done.
func (t Task) Done() bool { return !t.DoneAt.IsZero() }

// Deleted tells whether the task is in the trash.
func (t Task) Deleted() bool { return !t.DeletedAt.IsZero() }

// Repeats tells whether the task is one of a series.
func (t Task) Repeats() bool { return t.seriesID.Valid }

// Tasks are everybody's tasks; each method works on those of one person. It is
// safe for concurrent use.
type Tasks struct {
	db  *store.DB
	now func() time.Time
}

// New returns the tasks in db. Now is the clock; nil means time.Now.
func New(db *store.DB, now func() time.Time) *Tasks {
	if now == nil {
		now = time.Now
	}
	return &Tasks{db: db, now: now}
}

// Draft is a task that is not there yet.
type Draft struct {
	Title  string
	Due    civil.Date
	At     civil.Time
	Repeat repeat.Rule
}

// cleanTitle puts a title on one line.
func cleanTitle(s string) (string, error) {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	s = strings.ReplaceAll(s, "\x00", "")
	switch n := utf8.RuneCountInString(s); {
	case n == 0:
		return "", ErrTitleMissing
	case n > MaxTitle:
		return "", ErrTitleLong
	}
	return s, nil
}

// ValidID tells whether a client may choose this id.
func ValidID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := 0; i < len(id); i++ {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// Create adds a task under the id that the client chose. If the person has a row
// with this id already, in whatever state, that row is the answer, created is
// false and nothing has changed: this is what makes a creation repeatable for
// ever, also when no key remembers it any more. Other errors: ErrIDInvalid,
// ErrTooMany, ErrGone for a series whose first task was swept from the trash.
func (s *Tasks) Create(ctx context.Context, userID, id string, d Draft) (t Task, created bool, err error) {
	if !ValidID(id) {
		return Task{}, false, ErrIDInvalid
	}
	if !d.At.IsZero() && d.Due.IsZero() || !d.Repeat.IsZero() && d.Due.IsZero() {
		return Task{}, false, ErrDueInvalid
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		t, err = get(ctx, tx, userID, id)
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		var open int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM tasks
			WHERE user_id = ? AND done_at IS NULL AND deleted_at IS NULL AND retracted = 0`, userID).Scan(&open); err != nil {
			return fmt.Errorf("planner: counting tasks: %w", err)
		}
		if open >= MaxOpen {
			return ErrTooMany
		}
		now := s.now().UnixMilli()
		var series sql.NullString
		var occurrence civil.Date
		if !d.Repeat.IsZero() {
			// The series has its first task's id: a second insert of the same
			// creation could not make a second series either.
			series, occurrence = sql.NullString{String: id, Valid: true}, d.Due
			res, err := tx.ExecContext(ctx, `INSERT INTO series (user_id, id, title, kind, due_time, rrule, dtstart)
				VALUES (?, ?, ?, 'todo', ?, ?, ?) ON CONFLICT (user_id, id) DO NOTHING`,
				userID, id, d.Title, d.At, d.Repeat.String(), d.Due)
			if err != nil {
				return fmt.Errorf("planner: adding a series: %w", err)
			}
			if n, err := res.RowsAffected(); err != nil || n == 0 {
				return cmp.Or(err, ErrGone) // its first task was swept from the trash
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO tasks (user_id, id, title, due_date, due_time, series_id, occurrence, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, userID, id, d.Title, d.Due, d.At, series, occurrence, now, now)
		if err != nil {
			return fmt.Errorf("planner: adding a task: %w", err)
		}
		created = true
		t, err = get(ctx, tx, userID, id)
		return err
	})
	if err != nil {
		return Task{}, false, err
	}
	return t, created, nil
}

// SetTitle changes the title. ErrNotFound, ErrGone, or an error about the title.
func (s *Tasks) SetTitle(ctx context.Context, userID, id, title string) (Task, error) {
	title, err := cleanTitle(title)
	if err != nil {
		return Task{}, err
	}
	return s.change(ctx, userID, id, func(tx *sql.Tx, _ Task, now int64) error {
		_, err := tx.ExecContext(ctx, `UPDATE tasks SET title = ?3, rev = rev + 1, updated_at = ?4
			WHERE user_id = ?1 AND id = ?2 AND title <> ?3`, userID, id, title, now)
		return err
	})
}

// SetDue moves the task to a day and a time of that day; zero values take them
// away. ErrNotFound, ErrGone, or ErrDueInvalid for a time without a day. A task
// of a series keeps its place in it: the next one comes when it would have.
func (s *Tasks) SetDue(ctx context.Context, userID, id string, due civil.Date, at civil.Time) (Task, error) {
	if !at.IsZero() && due.IsZero() {
		return Task{}, ErrDueInvalid
	}
	return s.change(ctx, userID, id, func(tx *sql.Tx, _ Task, now int64) error {
		_, err := tx.ExecContext(ctx, `UPDATE tasks SET due_date = ?3, due_time = ?4, rev = rev + 1, updated_at = ?5
			WHERE user_id = ?1 AND id = ?2 AND (due_date IS NOT ?3 OR due_time IS NOT ?4)`, userID, id, due, at, now)
		return err
	})
}

// SetDeleted puts the task into the trash or takes it out. ErrNotFound. While the
// open task of a series lies in the trash, the series rests.
func (s *Tasks) SetDeleted(ctx context.Context, userID, id string, deleted bool) (t Task, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if t, err = get(ctx, tx, userID, id); err != nil {
			return err
		}
		if t.Retracted {
			return ErrNotFound
		}
		now := s.now().UnixMilli()
		q := `UPDATE tasks SET deleted_at = ?3, rev = rev + 1, updated_at = ?3 WHERE user_id = ?1 AND id = ?2 AND deleted_at IS NULL`
		if !deleted {
			q = `UPDATE tasks SET deleted_at = NULL, rev = rev + 1, updated_at = ?3 WHERE user_id = ?1 AND id = ?2 AND deleted_at IS NOT NULL`
		}
		if _, err := tx.ExecContext(ctx, q, userID, id, now); err != nil {
			return fmt.Errorf("planner: changing a task: %w", err)
		}
		t, err = get(ctx, tx, userID, id)
		return err
	})
	return t, err
}

// change runs an update of one task that is neither in the trash nor retracted,
// and returns the task as it then is. An update that would change nothing leaves
// rev alone, since a repeat is no change.
func (s *Tasks) change(ctx context.Context, userID, id string, update func(tx *sql.Tx, before Task, now int64) error) (t Task, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		before, err := get(ctx, tx, userID, id)
		if err != nil {
			return err
		}
		switch {
		case before.Retracted:
			return ErrNotFound
		case before.Deleted():
			return ErrGone
		}
		if err := update(tx, before, s.now().UnixMilli()); err != nil {
			return fmt.Errorf("planner: changing a task: %w", err)
		}
		t, err = get(ctx, tx, userID, id)
		return err
	})
	return t, err
}
