package transactions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// atOnce runs f n times at once and counts what it returned.
func atOnce(n int, f func(i int) error) (results map[error]int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	results = map[error]int{}
	for i := range n {
		all.Go(func() {
			err := f(i)
			mu.Lock()
			defer mu.Unlock()
			results[err]++
		})
	}
	all.Wait()
	return results
}

func number(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func exec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.Exec(query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// Requirements 64 and 82.
func TestANameStandsForWhatItWasFirstUsedFor(t *testing.T) {
	db := openSQLite(t)
	ctx := t.Context()
	id, made, err := placeNamed(ctx, db, order{"e1", "tea", 1})
	if err != nil || !made {
		t.Fatal(made, err)
	}
	exec(t, db, `UPDATE named SET qty = 7`)
	for _, c := range []struct {
		o    order
		want error
	}{{order{"e1", "tea", 1}, nil}, {order{"e1", "tea", 7}, errTaken}, {order{"e1", "jam", 1}, errTaken}} {
		if again, made, err := placeNamed(ctx, db, c.o); again != id || made || !errors.Is(err, c.want) {
			t.Errorf("%+v: %s, %v, %v, want %s and %v", c.o, again, made, err, id, c.want)
		}
	}
	if n := number(t, db, `SELECT count(*) FROM named`); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// Requirement 68.
func TestOfTwentyEditorsOneMayWrite(t *testing.T) {
	db := openSQLite(t)
	exec(t, db, `INSERT INTO sales VALUES ('s', 'r1', 'placed', 'tea', 1)`)
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /sales/{id}", func(w http.ResponseWriter, r *http.Request) { replaceSale(w, r, db) })
	put := func(tag string, qty int) *httptest.ResponseRecorder {
		r := httptest.NewRequest("PUT", "/sales/s", strings.NewReader(fmt.Sprintf(`{"item":"tea","qty":%d}`, qty)))
		if tag != "" {
			r.Header.Set("If-Match", tag)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	var mu sync.Mutex
	codes, written, tag := map[int]int{}, 0, ""
	atOnce(20, func(i int) error {
		w := put(`"r1"`, 100+i)
		mu.Lock()
		defer mu.Unlock()
		if codes[w.Code]++; w.Code == 200 {
			written, tag = 100+i, w.Header().Get("ETag")
		}
		return nil
	})
	if codes[200] != 1 || codes[412] != 19 || number(t, db, `SELECT qty FROM sales`) != written {
		t.Errorf("answered with %v, %d was written", codes, written)
	}
	if w := put(tag, 5); w.Code != 200 || number(t, db, `SELECT qty FROM sales`) != 5 {
		t.Errorf("the ETag that was answered: %d", w.Code)
	}
	if w := put("", 6); w.Code != 428 {
		t.Errorf("without If-Match: %d", w.Code)
	}
}

func openShelves(t *testing.T) (*pgxpool.Pool, func(query string) int) {
	t.Helper()
	pool := openPostgres(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO shelves VALUES ('a', 40), ('b', 40)`); err != nil {
		t.Fatal(err)
	}
	return pool, func(query string) (n int) {
		if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// Requirement 68: fifty want one each, forty are there.
func TestFiftyAtOnceTakeNoMoreThanThereIs(t *testing.T) {
	pool, count := openShelves(t)
	got := atOnce(50, func(int) error { return reserve(t.Context(), pool, "a", 1) })
	if got[nil] != 40 || got[errSoldOut] != 10 || count(`SELECT "left" FROM shelves WHERE id = 'a'`) != 0 {
		t.Errorf("%v, and %d are left", got, count(`SELECT "left" FROM shelves WHERE id = 'a'`))
	}
}

// Requirement 67: fifty move, half of them in the other direction.
func TestFiftyWhoMoveAgainstEachOtherDoNotLock(t *testing.T) {
	pool, count := openShelves(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := atOnce(50, func(i int) error {
		if i%2 == 0 {
			return move(ctx, pool, "a", "b", 1)
		}
		return move(ctx, pool, "b", "a", 1)
	})
	if got[nil] != 50 || count(`SELECT "left" FROM shelves WHERE id = 'a'`) != 40 || count(`SELECT sum("left") FROM shelves`) != 80 {
		t.Errorf("%v, %d on one shelf, %d on both", got, count(`SELECT "left" FROM shelves WHERE id = 'a'`), count(`SELECT sum("left") FROM shelves`))
	}
	if n := count(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("the server counts %d deadlocks", n)
	}
	if err := move(ctx, pool, "a", "b", 41); !errors.Is(err, errSoldOut) {
		t.Errorf("more than there is: %v", err)
	}
}

// Requirement 83.
func TestTwentyCancellationsAreOneRefund(t *testing.T) {
	db := openSQLite(t)
	exec(t, db, `INSERT INTO sales VALUES ('s', 'r1', 'placed', 'tea', 3)`)
	exec(t, db, `INSERT INTO shelves VALUES ('tea', 1)`)
	cancel := func(int) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		return errors.Join(cancelSale(t.Context(), tx, "s"), tx.Commit())
	}
	if got := atOnce(20, cancel); got[nil] != 20 {
		t.Errorf("%v", got)
	}
	if left, owed := number(t, db, `SELECT "left" FROM shelves`), number(t, db, `SELECT sum(qty) FROM refunds`); left != 4 || owed != 3 {
		t.Errorf("%d are back on the shelf, %d are owed", left, owed)
	}
}
