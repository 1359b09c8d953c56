// Package export prepares the files in which a person takes their planner with them:
// a calendar (iCalendar) or everything (JSON). It is long work: asked for once, it is
// done once, by River in the planner's own database, also if the planner is killed
// in the middle; and the file is there until its time is over or its owner is gone.
package export

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/store"
	"github.com/onceward/onceward/planner/internal/task"
	"github.com/onceward/onceward/riveroperation"
	"github.com/onceward/onceward/riveroperation/onsqlite"
)

// Life is how long a file is kept for download, and how long is remembered what
// became of an order.
const Life = 7 * 24 * time.Hour

// Most is how many files of one person are kept; the oldest give way.
const Most = 10

// Formats and parts that can be asked for.
const (
	ICS  = "ics"  // a calendar: what is open or done
	JSON = "json" // everything, the trash included
	All  = "all"
	Week = "week" // what is due in this week, Monday to Sunday
)

var (
	// ErrOrderInvalid means that there is no such format or part.
	ErrOrderInvalid = errors.New("planner: an export is ics or json, of all or of the week")
	// ErrNoFile means that the person has no such file, or no longer.
	ErrNoFile = errors.New("planner: there is no such file")
)

// Empty is the type of the failure of a calendar that would have nothing in it: no
// program reads one that is empty.
const Empty = "urn:planner:export-empty"

const kind = "export"

// Config is what [Open] needs besides the database.
type Config struct {
	// Now is the clock of the planner. Nil means time.Now.
	Now func() time.Time
	// Logger is told of each try to prepare a file, where it begins and how it ends.
	// Nil means none.
	Logger *slog.Logger
	// River is River's own logger, which tells now and then that all is well. Nil means
	// Logger.
	River *slog.Logger
	// Poll is how soon an order is seen. Zero means a second.
	Poll time.Duration
	// Rescue is how long a try may have been silent before another is made. It is
	// longer than a try may take. Zero means 30 s.
	Rescue time.Duration
}

// Exports are everybody's files. It is safe for concurrent use.
type Exports struct {
	db     *store.DB
	tasks  *task.Tasks
	now    func() time.Time
	runner *riveroperation.Runner[*sql.Tx]
}

// Open makes or updates the tables that River and operations need. Files are prepared
// between Start and Stop.
func Open(ctx context.Context, db *store.DB, cfg Config) (*Exports, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Poll == 0 {
		cfg.Poll = time.Second
	}
	if cfg.Rescue == 0 {
		cfg.Rescue = 30 * time.Second
	}
	e := &Exports{db: db, tasks: task.New(db, cfg.Now), now: cfg.Now}
	pool := onsqlite.Pool(db.Write, db.Read)
	if err := riveroperation.Migrate(ctx, pool); err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	var err error
	e.runner, err = riveroperation.New(pool, riveroperation.Config[*sql.Tx]{
		Works:     map[string]riveroperation.Work[*sql.Tx]{kind: e.prepare},
		Retention: Life,
		Logger:    cfg.Logger,
		River: river.Config{
			Logger: cfg.River,
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
			// There is one connection that writes. River would ask the table of notices on it
			// twenty times a second, and a planner is idle nearly always.
			PollOnly:          true,
			FetchCooldown:     min(cfg.Poll, 100*time.Millisecond),
			FetchPollInterval: cfg.Poll,
			// A person waits for this, so it is tried a few times and soon.
			MaxAttempts:          4,
			JobTimeout:           cfg.Rescue * 2 / 3,
			RescueStuckJobsAfter: cfg.Rescue,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	return e, nil
}

// Start begins to prepare files.
func (e *Exports) Start(ctx context.Context) error { return e.runner.Start(ctx) }

// Stop ends that; a file that is being prepared is finished if ctx allows, and else
// prepared after the next Start.
func (e *Exports) Stop(ctx context.Context) error { return e.runner.Stop(ctx) }

// Runner knows what became of orders.
func (e *Exports) Runner() operation.Runner { return e.runner }

// order is what a file is to hold. The week's days are those that the person had when
// they asked.
type order struct {
	User     string
	Format   string
	Part     string
	Day      civil.Date // on which they asked
	From, To civil.Date
	Zone     string
}

// Order asks for a file. key and fp name the order: a second one of that name is the
// first one. ErrOrderInvalid.
func (e *Exports) Order(ctx context.Context, key onceward.Key, fp onceward.Fingerprint, user, format, part string, now time.Time) (operation.Operation, error) {
	if format != ICS && format != JSON || part != All && part != Week {
		return operation.Operation{}, ErrOrderInvalid
	}
	day := civil.Today(now)
	monday := day.Monday()
	input, err := json.Marshal(order{User: user, Format: format, Part: part, Day: day, From: monday, To: monday.AddDays(6), Zone: now.Location().String()})
	if err != nil {
		return operation.Operation{}, fmt.Errorf("planner: ordering an export: %w", err)
	}
	return e.runner.Submit(ctx, operation.Job{Key: key, Fingerprint: fp, Kind: kind, Input: input})
}

// prepare is the work. It reads what there is when it runs; only the file is written
// in the transaction that makes the order complete.
func (e *Exports) prepare(ctx context.Context, job operation.Job) (done riveroperation.Outcome[*sql.Tx], err error) {
	var o order
	if err := json.Unmarshal(job.Input, &o); err != nil {
		return done, fmt.Errorf("planner: reading an order: %w", err)
	}
	all, err := e.tasks.All(ctx, o.User)
	if err != nil {
		return done, err
	}
	body, err := o.fill(all, e.now())
	if err != nil {
		return done, err
	}
	f := File{ID: operation.Operation{Key: job.Key}.ID(), Format: o.Format, Part: o.Part, Name: o.name(), Body: body}
	done.Result.Location = "/exports/" + f.ID
	done.Write = func(ctx context.Context, tx *sql.Tx) error { return e.keep(ctx, tx, o.User, f) }
	return done, nil
}

// fill makes the file's bytes.
func (o *order) fill(all []task.Whole, now time.Time) ([]byte, error) {
	var in []task.Whole
	for _, t := range all {
		switch {
		case o.Format == ICS && t.Deleted():
		case o.Part == Week && (t.Due.IsZero() || t.Due.Before(o.From) || t.Due.After(o.To)):
		default:
			in = append(in, t)
		}
	}
	if o.Format == JSON {
		return document(*o, now, in)
	}
	if len(in) == 0 {
		return nil, &operation.Failure{Type: Empty, Title: "There is nothing to put into the calendar"}
	}
	return calendar(o.User, in, o.Part == All), nil
}

func (o *order) name() string {
	if o.Part == Week {
		return "planner-week-" + o.From.String() + "." + o.Format
	}
	return "planner-" + o.Day.String() + "." + o.Format
}

// File is a file that is ready.
type File struct {
	ID      string
	Format  string
	Part    string
	Name    string
	Size    int
	Created time.Time
	Expires time.Time
	Body    []byte // of [Exports.Get] alone
}

func (e *Exports) keep(ctx context.Context, tx *sql.Tx, user string, f File) error {
	now := e.now()
	if _, err := tx.ExecContext(ctx, `INSERT INTO exports (user_id, id, format, part, name, body, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, user, f.ID, f.Format, f.Part, f.Name, f.Body, now.UnixMilli(), now.Add(Life).UnixMilli()); err != nil {
		return fmt.Errorf("planner: keeping an export: %w", err)
	}
	// Never the one just made: after a step of the clock it may look older than all.
	if _, err := tx.ExecContext(ctx, `DELETE FROM exports WHERE user_id = ?1 AND id IN
		(SELECT id FROM exports WHERE user_id = ?1 AND id <> ?2 ORDER BY created_at DESC, id LIMIT -1 OFFSET ?3)`, user, f.ID, Most-1); err != nil {
		return fmt.Errorf("planner: making room for an export: %w", err)
	}
	return nil
}

// List has a person's files, the newest first.
func (e *Exports) List(ctx context.Context, user string) (files []File, err error) {
	rows, err := e.db.Reader(ctx).QueryContext(ctx, `SELECT id, format, part, name, length(body), created_at, expires_at
		FROM exports WHERE user_id = ? AND expires_at > ? ORDER BY created_at DESC, id`, user, e.now().UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("planner: listing exports: %w", err)
	}
	defer func() {
		if end := errors.Join(rows.Err(), rows.Close()); err == nil && end != nil {
			files, err = nil, fmt.Errorf("planner: listing exports: %w", end)
		}
	}()
	for rows.Next() {
		var f File
		var created, expires int64
		if err := rows.Scan(&f.ID, &f.Format, &f.Part, &f.Name, &f.Size, &created, &expires); err != nil {
			return nil, fmt.Errorf("planner: listing exports: %w", err)
		}
		f.Created, f.Expires = time.UnixMilli(created), time.UnixMilli(expires)
		files = append(files, f)
	}
	return files, nil
}

// Get is one of a person's files, or ErrNoFile.
func (e *Exports) Get(ctx context.Context, user, id string) (File, error) {
	f := File{ID: id}
	var created, expires int64
	err := e.db.Reader(ctx).QueryRowContext(ctx, `SELECT format, part, name, body, created_at, expires_at
		FROM exports WHERE user_id = ? AND id = ? AND expires_at > ?`, user, id, e.now().UnixMilli()).
		Scan(&f.Format, &f.Part, &f.Name, &f.Body, &created, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return File{}, ErrNoFile
	}
	if err != nil {
		return File{}, fmt.Errorf("planner: reading an export: %w", err)
	}
	f.Size, f.Created, f.Expires = len(f.Body), time.UnixMilli(created), time.UnixMilli(expires)
	return f, nil
}

// Forget forgets the orders of a person who is gone. The files went with the account.
func (e *Exports) Forget(ctx context.Context, user string) error {
	return e.runner.Forget(ctx, onceward.NewKey(user, "").Scope)
}

// Sweep deletes files whose time is over.
func (e *Exports) Sweep(ctx context.Context) error {
	if _, err := e.db.Write.ExecContext(ctx, `DELETE FROM exports WHERE expires_at <= ?`, e.now().UnixMilli()); err != nil {
		return fmt.Errorf("planner: sweeping exports: %w", err)
	}
	return nil
}
