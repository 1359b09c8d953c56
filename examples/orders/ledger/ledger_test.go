package ledger

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// reopen opens a Ledger, closes it at the test's end, and can do so again.
type reopen func(t *testing.T) Ledger

func onEachLedger(t *testing.T, test func(t *testing.T, open reopen)) {
	t.Helper()
	for name, flags := range map[string][2]string{
		"file":   {"memory:", "orders.jsonl"},
		"sqlite": {"sqlite:orders.db", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			test(t, func(t *testing.T) Ledger {
				t.Helper()
				_, l, closeAll, err := Open(t.Context(), flags[0], flags[1], slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := closeAll(); err != nil {
						t.Errorf("closing: %v", err)
					}
				})
				return l
			})
		})
	}
}

func place(t *testing.T, l Ledger, o Order) Order {
	t.Helper()
	kept, placed, err := l.Place(t.Context(), o)
	if err != nil || !placed || kept != o {
		t.Fatalf("placing %+v: %+v, %v, %v", o, kept, placed, err)
	}
	return kept
}

func all(t *testing.T, l Ledger) []Order {
	t.Helper()
	list, err := l.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var tea = Order{ID: "1", User: "anna", Item: "tea", Qty: 2, Status: "placed", Revision: "r1", PlacedAs: "tea"}

func TestALedgerKeepsEveryChange(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		place(t, l, tea)
		jam := place(t, l, Order{ID: "2", User: "anna", Item: "jam", Qty: 1, Status: "placed", FileSHA256: "ab"})
		place(t, l, Order{ID: "3", User: "boris", Item: "jam", Qty: 1, Status: "placed"})

		changed, err := l.Change(t.Context(), "anna", "1", func(o *Order) error { o.Item, o.Qty = "coffee", 3; return nil })
		want := Order{ID: "1", User: "anna", Item: "coffee", Qty: 3, Status: "placed", Revision: changed.Revision, PlacedAs: "tea"}
		if err != nil || changed != want || changed.Revision == tea.Revision {
			t.Errorf("change: %+v, %v", changed, err)
		}
		for i := range 2 {
			before := changed.Revision
			changed, err = l.Change(t.Context(), "anna", "1", func(o *Order) error { o.Status = "cancelled"; return nil })
			if err != nil || changed.Status != "cancelled" || (changed.Revision == before) != (i == 1) {
				t.Errorf("cancelled for the %d. time: %+v, %v, was %s", i+1, changed, err, before)
			}
		}
		if _, err := l.Change(t.Context(), "boris", "3", func(o *Order) error { o.Status = Removed; return nil }); err != nil {
			t.Errorf("remove: %v", err)
		}
		if _, err := l.Find(t.Context(), "boris", "3"); !errors.Is(err, ErrNoOrder) {
			t.Errorf("find, of what is Removed: %v", err)
		}
		left := []Order{changed, jam}
		if got := all(t, l); !slices.Equal(got, left) {
			t.Errorf("the ledger has %+v, want %+v", got, left)
		}
		if got := all(t, open(t)); !slices.Equal(got, left) {
			t.Errorf("opened again the ledger has %+v, want %+v", got, left)
		}
	})
}

func TestALedgerShowsNobodyAnothersOrder(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		place(t, l, tea)
		ctx := context.Background()
		if o, err := l.Find(ctx, "anna", "1"); err != nil || o != tea {
			t.Errorf("find: %+v, %v", o, err)
		}
		if _, err := l.Find(ctx, "boris", "1"); !errors.Is(err, ErrNoOrder) {
			t.Errorf("find: %v", err)
		}
		if _, err := l.Change(ctx, "boris", "1", func(o *Order) error { o.Status = Removed; return nil }); !errors.Is(err, ErrNoOrder) {
			t.Errorf("change: %v", err)
		}
		if got := all(t, l); !slices.Equal(got, []Order{tea}) {
			t.Errorf("the ledger has %+v", got)
		}
		// The same id is another order where it is another user's.
		his := tea
		his.User = "boris"
		place(t, l, his)
		if o, err := l.Change(ctx, "boris", "1", func(o *Order) error { o.Qty = 9; return nil }); err != nil || o.Qty != 9 {
			t.Errorf("change: %+v, %v", o, err)
		}
		if o, err := l.Find(ctx, "anna", "1"); err != nil || o != tea {
			t.Errorf("find, after another's change: %+v, %v", o, err)
		}
	})
}

func TestAnExternalIDIsOneOfAKindForEachUser(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		first := place(t, l, Order{ID: "1", User: "anna", ExternalID: "x", Item: "tea", Qty: 1, Status: "placed"})
		kept, placed, err := l.Place(t.Context(), Order{ID: "2", User: "anna", ExternalID: "x", Item: "jam", Qty: 1, Status: "placed"})
		if err != nil || placed || kept != first {
			t.Errorf("the second order: %+v, %v, %v", kept, placed, err)
		}
		place(t, l, Order{ID: "3", User: "boris", ExternalID: "x", Item: "tea", Qty: 1, Status: "placed"})
		place(t, l, Order{ID: "4", User: "anna", Item: "tea", Qty: 1, Status: "placed"})
		place(t, l, Order{ID: "5", User: "anna", Item: "tea", Qty: 1, Status: "placed"})
		if n := len(all(t, l)); n != 4 {
			t.Errorf("the ledger has %d orders, want 4", n)
		}
	})
}

func TestAnIDIsOneOfAKindToo(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		first := place(t, l, Order{ID: "1", User: "anna", ExternalID: "x", Item: "tea", Qty: 1, Status: "placed"})
		second := place(t, l, Order{ID: "2", User: "anna", ExternalID: "y", Item: "jam", Qty: 1, Status: "placed"})
		for _, c := range []struct {
			id, externalID string
			want           Order
		}{{"1", "", first}, {"1", "z", first}, {"2", "x", second}, {"3", "x", first}} {
			kept, placed, err := l.Place(t.Context(), Order{ID: c.id, User: "anna", ExternalID: c.externalID, Item: "jam", Qty: 1, Status: "placed"})
			if err != nil || placed || kept != c.want {
				t.Errorf("id %s, external id %s: %+v, %v, %v, want %+v", c.id, c.externalID, kept, placed, err, c.want)
			}
		}
	})
}

// What how refuses changes nothing, and is shown as it is.
func TestARefusedChangeIsNone(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		place(t, l, tea)
		no := errors.New("no")
		o, err := l.Change(t.Context(), "anna", "1", func(o *Order) error { o.Qty = 99; return no })
		if !errors.Is(err, no) || o != tea {
			t.Errorf("change: %+v, %v", o, err)
		}
		if got := all(t, l); !slices.Equal(got, []Order{tea}) {
			t.Errorf("the ledger has %+v", got)
		}
	})
}

// Looking and writing are one: nothing that anybody adds is lost.
func TestFiftyWhoAddOneAreFifty(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		place(t, l, tea)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := l.Change(t.Context(), "anna", "1", func(o *Order) error { o.Qty++; return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if o, err := l.Find(t.Context(), "anna", "1"); err != nil || o.Qty != tea.Qty+50 {
			t.Errorf("the order is %+v, %v", o, err)
		}
	})
}

// The process died in the middle of a write, before it answered.
func TestHalfALineAtTheEndOfTheFileIsNoOrder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "orders.jsonl")
	l, err := openFile(name)
	if err != nil {
		t.Fatal(err)
	}
	place(t, l, tea)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(whole, whole[:len(whole)-1]...), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err = openFile(name); err != nil {
		t.Fatal(err)
	}
	jam := Order{ID: "2", User: "a", Item: "j", Qty: 1, Status: "placed"} // a shorter line than the torn one
	place(t, l, jam)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = openFile(name); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := all(t, l); !slices.Equal(got, []Order{tea, jam}) {
		t.Errorf("the ledger has %+v", got)
	}
}

func TestADamagedFileIsRefusedWithItsPlace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "orders.jsonl")
	if err := os.WriteFile(name, []byte("{\"id\":\"1\"}\nnot an order\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFile(name); err == nil || !strings.Contains(err.Error(), "at byte 11") {
		t.Errorf("opening a damaged file: %v", err)
	}
}

func TestAnUnknownStoreIsRefused(t *testing.T) {
	for _, store := range []string{"", "memory", "memory:x", "sqlite:", "postgres://x"} {
		if _, _, _, err := Open(t.Context(), store, "", slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("-store %q was opened", store)
		}
	}
}
