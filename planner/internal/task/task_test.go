package task_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/planner/internal/account"
	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
	"github.com/onceward/onceward/planner/internal/store"
	"github.com/onceward/onceward/planner/internal/task"
)

// world is a database with two people, and a clock that tests set.
type world struct {
	t     *testing.T
	db    *store.DB
	tasks *task.Tasks
	now   time.Time
	anna  string
	boris string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w := &world{t: t, db: db, now: time.Date(2026, 11, 29, 20, 30, 0, 0, time.UTC)}
	w.tasks = task.New(db, func() time.Time { return w.now })
	people := account.New(db, nil)
	for login, id := range map[string]*string{"anna": &w.anna, "boris": &w.boris} {
		u, err := people.Register(t.Context(), login, "correct horse", "ru", "")
		if err != nil {
			t.Fatal(err)
		}
		*id = u.ID
	}
	return w
}

func day(t *testing.T, s string) civil.Date {
	t.Helper()
	d, err := civil.ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var mondays = repeat.EveryWeek(repeat.DaysOf(time.Monday))

// training adds "training every Monday" whose first is on Monday, 30 November.
func (w *world) training() task.Task {
	w.t.Helper()
	t, created, err := w.tasks.Create(w.t.Context(), w.anna, "training", task.Draft{
		Title: "тренировка", Due: day(w.t, "2026-11-30"), At: civil.At(18, 0), Repeat: mondays})
	if err != nil || !created {
		w.t.Fatalf("created %v, %v", created, err)
	}
	return t
}

func (w *world) done(id string, done bool, today string) task.Task {
	w.t.Helper()
	t, err := w.tasks.SetDone(w.t.Context(), w.anna, id, done, day(w.t, today))
	if err != nil {
		w.t.Fatalf("done=%v of %s: %v", done, id, err)
	}
	if t.Done() != done {
		w.t.Fatalf("done=%v of %s left it %v", done, id, t.Done())
	}
	return t
}

// open lists what Anna still has to do, as "title date".
func (w *world) open() []string {
	w.t.Helper()
	ts, err := w.tasks.Open(w.t.Context(), w.anna)
	if err != nil {
		w.t.Fatal(err)
	}
	list := []string{}
	for _, t := range ts {
		list = append(list, strings.TrimSpace(t.Title+" "+t.Due.String()))
	}
	return list
}

func (w *world) wantOpen(want ...string) {
	w.t.Helper()
	if got := w.open(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("open tasks %v, want %v", got, want)
	}
}

func (w *world) openTask(title string) task.Task {
	w.t.Helper()
	ts, err := w.tasks.Open(w.t.Context(), w.anna)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, t := range ts {
		if t.Title == title {
			return t
		}
	}
	w.t.Fatalf("%q is not open", title)
	return task.Task{}
}

func (w *world) rows() (n int) {
	w.t.Helper()
	if err := w.db.Read.QueryRow(`SELECT count(*) FROM tasks`).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// R15, requirement 11: 24 devices say "done" at once, and there is one next lesson.
func TestDoneFromManyDevicesAtOnceBringsOneNextTask(t *testing.T) {
	for _, devices := range []int{3, 24} {
		w := newWorld(t)
		w.training()
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range devices {
			wg.Go(func() {
				<-start
				got, err := w.tasks.SetDone(t.Context(), w.anna, "training", true, day(t, "2026-11-30"))
				if err != nil || !got.Done() {
					t.Errorf("done: %v, %v", got.Done(), err)
				}
			})
		}
		close(start)
		wg.Wait()
		w.wantOpen("тренировка 2026-12-07")
		if n := w.rows(); n != 2 {
			t.Errorf("%d devices: %d rows, want the done one and its next", devices, n)
		}
	}
}

// R15, B165, requirement 11: done, undone, done again, with three requests.
func TestDoneUndoneDoneHasOneNextTask(t *testing.T) {
	w := newWorld(t)
	first := w.training()
	w.done("training", true, "2026-11-30")
	next := w.openTask("тренировка")
	if next.ID == first.ID || next.At != civil.At(18, 0) || next.Repeat != mondays || !next.Repeats() {
		t.Errorf("the next one: %+v", next)
	}
	w.done("training", false, "2026-11-30")
	w.wantOpen("тренировка 2026-11-30")
	w.done("training", false, "2026-11-30")
	w.wantOpen("тренировка 2026-11-30")
	w.done("training", true, "2026-11-30")
	w.done("training", true, "2026-11-30")
	w.wantOpen("тренировка 2026-12-07")
	if again := w.openTask("тренировка"); again.ID != next.ID {
		t.Errorf("the next one came back as another: %s, then %s", next.ID, again.ID)
	}
	if n := w.rows(); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// The same over days: by the time of the second "done" the next Monday is
// another one, and there is still exactly one next task.
func TestDoneAgainOnALaterDayHasOneNextTask(t *testing.T) {
	w := newWorld(t)
	w.training()
	w.done("training", true, "2026-11-30")
	w.done("training", false, "2026-12-08")
	w.wantOpen("тренировка 2026-11-30")
	w.done("training", true, "2026-12-09")
	w.wantOpen("тренировка 2026-12-14")
	w.done("training", false, "2026-12-09")
	w.wantOpen("тренировка 2026-11-30")
}

func TestUndoLeavesANextTaskThatSomebodyTouched(t *testing.T) {
	touch := map[string]func(w *world, next task.Task) error{
		"renamed": func(w *world, next task.Task) error {
			_, err := w.tasks.SetTitle(w.t.Context(), w.anna, next.ID, "тренировка в зале")
			return err
		},
		"moved": func(w *world, next task.Task) error {
			_, err := w.tasks.SetDue(w.t.Context(), w.anna, next.ID, day(w.t, "2026-12-08"), civil.Time{})
			return err
		},
		"deleted": func(w *world, next task.Task) error {
			_, err := w.tasks.SetDeleted(w.t.Context(), w.anna, next.ID, true)
			return err
		},
		"done": func(w *world, next task.Task) error {
			_, err := w.tasks.SetDone(w.t.Context(), w.anna, next.ID, true, day(w.t, "2026-12-07"))
			return err
		},
	}
	for name, touch := range touch {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.training()
			w.done("training", true, "2026-11-30")
			if err := touch(w, w.openTask("тренировка")); err != nil {
				t.Fatal(err)
			}
			before, rows := fmt.Sprint(w.open()), w.rows()
			w.done("training", false, "2026-11-30")
			w.done("training", true, "2026-12-20")
			if after := fmt.Sprint(w.open()); after != before || w.rows() != rows {
				t.Errorf("undone and done again: open %s, %d rows; before %s, %d", after, w.rows(), before, rows)
			}
		})
	}
}

// B172: five completions in a row, each with a second tap.
func TestFiveCompletionsInARowKeepTheDatesInStep(t *testing.T) {
	w := newWorld(t)
	w.training()
	for i := range 5 {
		open := w.openTask("тренировка")
		today := day(t, "2026-11-30").AddDays(7 * i).String()
		if open.Due.String() != today {
			t.Fatalf("completion %d: it is due on %s, want %s", i+1, open.Due, today)
		}
		w.done(open.ID, true, today)
		w.done(open.ID, true, today)
	}
	w.wantOpen("тренировка 2027-01-04")
	if n := w.rows(); n != 6 {
		t.Errorf("%d rows, want five done and one open", n)
	}
}

// R17: a task that lay for weeks brings none of the Mondays in between, and the
// 31st does not become the 28th.
func TestTheNextTaskIsAfterTodayAndDoesNotDrift(t *testing.T) {
	w := newWorld(t)
	w.training()
	w.done("training", true, "2026-12-16")
	w.wantOpen("тренировка 2026-12-21")

	w = newWorld(t)
	_, _, err := w.tasks.Create(t.Context(), w.anna, "rent", task.Draft{
		Title: "взнос", Due: day(t, "2027-01-31"), Repeat: repeat.EveryMonth(31)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2027-02-28", "2027-03-31", "2027-04-30"} {
		open := w.openTask("взнос")
		w.done(open.ID, true, open.Due.String())
		w.wantOpen("взнос " + want)
	}
}

// B166: whoever looks makes nothing.
func TestReadingCreatesNothing(t *testing.T) {
	w := newWorld(t)
	w.training()
	w.now = w.now.AddDate(0, 3, 0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if ts, err := w.tasks.Open(t.Context(), w.anna); err != nil || len(ts) != 1 {
				t.Errorf("%d tasks, %v", len(ts), err)
			}
		})
	}
	wg.Wait()
	if n := w.rows(); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// Requirement 64, R39: an id that is there already is that row, whatever else the
// request says, however late it comes and whatever became of the row.
func TestCreatingUnderAnIDTwiceIsOneTask(t *testing.T) {
	w := newWorld(t)
	create := func(title string) (task.Task, bool) {
		t.Helper()
		got, created, err := w.tasks.Create(t.Context(), w.anna, "c1", task.Draft{Title: title, Due: day(t, "2026-12-01"), Repeat: mondays})
		if err != nil {
			t.Fatal(err)
		}
		return got, created
	}
	first, created := create("купить тетрадь")
	if !created {
		t.Fatal("the first one was there already")
	}
	w.now = w.now.AddDate(0, 0, 8)
	if again, created := create("купить ручку"); created || again != first {
		t.Errorf("created %v: %+v", created, again)
	}
	if _, err := w.tasks.SetDeleted(t.Context(), w.anna, "c1", true); err != nil {
		t.Fatal(err)
	}
	if again, created := create("купить тетрадь"); created || !again.Deleted() {
		t.Errorf("a row in the trash: created %v, %+v", created, again)
	}
	if n := w.rows(); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestTwentyCreationsUnderOneIDAtOnceAreOneTask(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 20 {
		wg.Go(func() {
			_, created, err := w.tasks.Create(t.Context(), w.anna, "c1", task.Draft{Title: "one", Due: day(t, "2026-12-01"), Repeat: mondays})
			if err != nil {
				t.Error(err)
			}
			if created {
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if made != 1 || w.rows() != 1 {
		t.Errorf("%d say that they created it, %d rows", made, w.rows())
	}
}

// Requirement 26: the same id of another person is another task, and nobody
// reaches a stranger's row by its id.
func TestAnIDIsOnePersonsOwn(t *testing.T) {
	w := newWorld(t)
	w.training()
	ctx := t.Context()
	if got, created, err := w.tasks.Create(ctx, w.boris, "training", task.Draft{Title: "Борис"}); err != nil || !created || got.Title != "Борис" {
		t.Fatalf("%+v, %v, %v", got, created, err)
	}
	if _, _, err := w.tasks.Create(ctx, w.anna, "only-hers", task.Draft{Title: "hers"}); err != nil {
		t.Fatal(err)
	}
	_, e1 := w.tasks.Get(ctx, w.boris, "only-hers")
	_, e2 := w.tasks.SetDone(ctx, w.boris, "only-hers", true, day(t, "2026-11-30"))
	_, e3 := w.tasks.SetTitle(ctx, w.boris, "only-hers", "his")
	_, e4 := w.tasks.SetDue(ctx, w.boris, "only-hers", civil.Date{}, civil.Time{})
	_, e5 := w.tasks.SetDeleted(ctx, w.boris, "only-hers", true)
	for i, err := range []error{e1, e2, e3, e4, e5} {
		if !errors.Is(err, task.ErrNotFound) {
			t.Errorf("method %d reached a stranger's task: %v", i+1, err)
		}
	}
	w.wantOpen("тренировка 2026-11-30", "hers")
}

func TestARepeatOfAChangeIsNoChange(t *testing.T) {
	w := newWorld(t)
	first := w.training()
	ctx := t.Context()
	changes := []struct {
		name string
		do   func() (task.Task, error)
	}{
		{"title", func() (task.Task, error) { return w.tasks.SetTitle(ctx, w.anna, "training", " бег  утром ") }},
		{"due", func() (task.Task, error) {
			return w.tasks.SetDue(ctx, w.anna, "training", day(t, "2026-12-02"), civil.At(7, 30))
		}},
		{"no due", func() (task.Task, error) {
			return w.tasks.SetDue(ctx, w.anna, "training", civil.Date{}, civil.Time{})
		}},
		{"done", func() (task.Task, error) {
			return w.tasks.SetDone(ctx, w.anna, "training", true, day(t, "2026-11-30"))
		}},
		{"not done", func() (task.Task, error) {
			return w.tasks.SetDone(ctx, w.anna, "training", false, day(t, "2026-11-30"))
		}},
		{"deleted", func() (task.Task, error) { return w.tasks.SetDeleted(ctx, w.anna, "training", true) }},
		{"restored", func() (task.Task, error) { return w.tasks.SetDeleted(ctx, w.anna, "training", false) }},
	}
	rev := first.Rev
	for _, c := range changes {
		once, err := c.do()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		w.now = w.now.Add(time.Hour)
		twice, err := c.do()
		if err != nil || twice != once || once.Rev != rev+1 {
			t.Errorf("%s: once %+v, twice %+v, %v", c.name, once, twice, err)
		}
		rev = once.Rev
	}
}

func TestARefusalSaysWhatIsWrongAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.training()
	ctx := t.Context()
	today := day(t, "2026-11-30")
	create := func(id string, d task.Draft) error {
		_, _, err := w.tasks.Create(ctx, w.anna, id, d)
		return err
	}
	second := func(_ task.Task, err error) error { return err }
	before := fmt.Sprint(w.open())
	for name, c := range map[string]struct{ got, want error }{
		"no id":                  {create("", task.Draft{Title: "a"}), task.ErrIDInvalid},
		"a long id":              {create(strings.Repeat("a", 65), task.Draft{Title: "a"}), task.ErrIDInvalid},
		"an odd id":              {create("a/b", task.Draft{Title: "a"}), task.ErrIDInvalid},
		"a time without a day":   {create("a", task.Draft{Title: "a", At: civil.At(9, 0)}), task.ErrDueInvalid},
		"a repeat without a day": {create("a", task.Draft{Title: "a", Repeat: mondays}), task.ErrDueInvalid},
		"an empty title":         {second(w.tasks.SetTitle(ctx, w.anna, "training", " \n")), task.ErrTitleMissing},
		"a long title":           {second(w.tasks.SetTitle(ctx, w.anna, "training", strings.Repeat("я", 501))), task.ErrTitleLong},
		"no such task":           {second(w.tasks.SetDone(ctx, w.anna, "nothing", true, today)), task.ErrNotFound},
		"due without a day":      {second(w.tasks.SetDue(ctx, w.anna, "training", civil.Date{}, civil.At(9, 0))), task.ErrDueInvalid},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if got := fmt.Sprint(w.open()); got != before {
		t.Errorf("open %s, before %s", got, before)
	}

	w.done("training", true, "2026-11-30")
	w.done("training", false, "2026-11-30")
	var taken string
	if err := w.db.Read.QueryRow(`SELECT id FROM tasks WHERE retracted = 1`).Scan(&taken); err != nil {
		t.Fatal(err)
	}
	if _, err := w.tasks.SetDone(ctx, w.anna, taken, true, today); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("done on a task that was taken back: %v", err)
	}
	if _, err := w.tasks.SetDeleted(ctx, w.anna, "training", true); err != nil {
		t.Fatal(err)
	}
	if _, err := w.tasks.SetDone(ctx, w.anna, "training", true, today); !errors.Is(err, task.ErrGone) {
		t.Errorf("done on a task in the trash: %v", err)
	}
}

func TestOpenTasksHaveALimit(t *testing.T) {
	w := newWorld(t)
	_, err := w.db.Write.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO tasks (user_id, id, title, created_at, updated_at) SELECT ?, 'n' || i, 'x', 1, 1 FROM n`, task.MaxOpen, w.anna)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.tasks.Create(t.Context(), w.anna, "more", task.Draft{Title: "one more"}); !errors.Is(err, task.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if _, created, err := w.tasks.Create(t.Context(), w.anna, "n1", task.Draft{Title: "one more"}); err != nil || created {
		t.Errorf("a repeat of one that is there: %v, %v", created, err)
	}
	w.done("n1", true, "2026-11-30")
	if _, created, err := w.tasks.Create(t.Context(), w.anna, "more", task.Draft{Title: "one more"}); err != nil || !created {
		t.Errorf("after one was done: %v, %v", created, err)
	}
}

func TestListsAreInOrderAndTheTrashIsEmptiedInTime(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for i, d := range []task.Draft{
		{Title: "someday"},
		{Title: "tomorrow", Due: day(t, "2026-11-30")},
		{Title: "tomorrow at nine", Due: day(t, "2026-11-30"), At: civil.At(9, 0)},
		{Title: "late", Due: day(t, "2026-11-01")},
	} {
		if _, _, err := w.tasks.Create(ctx, w.anna, fmt.Sprint("t", i), d); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Minute)
	}
	w.wantOpen("late 2026-11-01", "tomorrow at nine 2026-11-30", "tomorrow 2026-11-30", "someday")
	w.done("t3", true, "2026-11-29")
	w.now = w.now.Add(time.Minute)
	w.done("t0", true, "2026-11-29")
	ts, err := w.tasks.Completed(ctx, w.anna, 10)
	if err != nil || len(ts) != 2 || ts[0].ID != "t0" || ts[1].ID != "t3" {
		t.Errorf("done: %v, %v", ts, err)
	}
	for _, id := range []string{"t1", "t2"} {
		if _, err := w.tasks.SetDeleted(ctx, w.anna, id, true); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(task.TrashLife / 2)
	}
	if ts, err := w.tasks.Trash(ctx, w.anna, 10); err != nil || len(ts) != 2 || ts[0].ID != "t2" {
		t.Errorf("trash: %v, %v", ts, err)
	}
	w.now = w.now.Add(time.Minute)
	if n, err := w.tasks.Sweep(ctx, 10); err != nil || n != 1 {
		t.Errorf("swept %d, %v", n, err)
	}
	if ts, err := w.tasks.Trash(ctx, w.anna, 10); err != nil || len(ts) != 1 || ts[0].ID != "t2" {
		t.Errorf("trash after the sweep: %v, %v", ts, err)
	}
}

// The trash is emptied of a row; that its creation was done is still known.
func TestALateRepeatOfASeriesWhoseFirstTaskWasSweptIsGoneAndNoError(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.training()
	if _, err := w.tasks.SetDeleted(ctx, w.anna, first.ID, true); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(task.TrashLife + time.Minute)
	if n, err := w.tasks.Sweep(ctx, 10); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	_, _, err := w.tasks.Create(ctx, w.anna, first.ID, task.Draft{Title: first.Title, Due: first.Due, Repeat: mondays})
	if !errors.Is(err, task.ErrGone) {
		t.Errorf("got %v", err)
	}
}
