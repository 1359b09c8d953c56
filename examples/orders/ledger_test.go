package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reopen opens a ledger, closes it at the test's end, and can do so again.
type reopen func(t *testing.T) ledger

func onEachLedger(t *testing.T, test func(t *testing.T, open reopen)) {
	t.Helper()
	for name, flags := range map[string][2]string{
		"file":   {"memory:", "orders.jsonl"},
		"sqlite": {"sqlite:orders.db", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			test(t, func(t *testing.T) ledger {
				t.Helper()
				_, l, closeAll, err := open(t.Context(), flags[0], flags[1], slog.New(slog.DiscardHandler))
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

func place(t *testing.T, l ledger, o order) order {
	t.Helper()
	kept, placed, err := l.place(t.Context(), o)
	if err != nil || !placed || kept != o {
		t.Fatalf("placing %+v: %+v, %v, %v", o, kept, placed, err)
	}
	return kept
}

func all(t *testing.T, l ledger) []order {
	t.Helper()
	list, err := l.all(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var tea = order{ID: "1", User: "anna", Item: "tea", Qty: 2, Status: "placed"}

func TestALedgerKeepsEveryChange(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		place(t, l, tea)
		jam := place(t, l, order{ID: "2", User: "anna", Item: "jam", Qty: 1, Status: "placed", FileSHA256: "ab"})
		place(t, l, order{ID: "3", User: "boris", Item: "jam", Qty: 1, Status: "placed"})

		changed, err := l.replace(t.Context(), order{ID: "1", User: "anna", Item: "coffee", Qty: 3})
		if want := (order{ID: "1", User: "anna", Item: "coffee", Qty: 3, Status: "placed"}); err != nil || changed != want {
			t.Errorf("replace: %+v, %v", changed, err)
		}
		for range 2 {
			changed, err = l.cancel(t.Context(), "anna", "1")
			if err != nil || changed.Status != "cancelled" {
				t.Errorf("cancel: %+v, %v", changed, err)
			}
			if err := l.remove(t.Context(), "boris", "3"); err != nil {
				t.Errorf("remove: %v", err)
			}
		}
		want := []order{changed, jam}
		if got := all(t, l); !slices.Equal(got, want) {
			t.Errorf("the ledger has %+v, want %+v", got, want)
		}
		if got := all(t, open(t)); !slices.Equal(got, want) {
			t.Errorf("opened again the ledger has %+v, want %+v", got, want)
		}
	})
}

func TestALedgerShowsNobodyAnothersOrder(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		place(t, l, tea)
		ctx := context.Background()
		if o, err := l.find(ctx, "anna", "1"); err != nil || o != tea {
			t.Errorf("find: %+v, %v", o, err)
		}
		if _, err := l.find(ctx, "boris", "1"); !errors.Is(err, errNoOrder) {
			t.Errorf("find: %v", err)
		}
		if _, err := l.replace(ctx, order{ID: "1", User: "boris", Item: "x", Qty: 1}); !errors.Is(err, errNoOrder) {
			t.Errorf("replace: %v", err)
		}
		if _, err := l.cancel(ctx, "boris", "1"); !errors.Is(err, errNoOrder) {
			t.Errorf("cancel: %v", err)
		}
		if err := l.remove(ctx, "boris", "1"); err != nil {
			t.Errorf("remove: %v", err)
		}
		if got := all(t, l); !slices.Equal(got, []order{tea}) {
			t.Errorf("the ledger has %+v", got)
		}
	})
}

func TestAnExternalIDIsOneOfAKindForEachUser(t *testing.T) {
	onEachLedger(t, func(t *testing.T, open reopen) {
		l := open(t)
		first := place(t, l, order{ID: "1", User: "anna", ExternalID: "x", Item: "tea", Qty: 1, Status: "placed"})
		kept, placed, err := l.place(t.Context(), order{ID: "2", User: "anna", ExternalID: "x", Item: "jam", Qty: 1, Status: "placed"})
		if err != nil || placed || kept != first {
			t.Errorf("the second order: %+v, %v, %v", kept, placed, err)
		}
		place(t, l, order{ID: "3", User: "boris", ExternalID: "x", Item: "tea", Qty: 1, Status: "placed"})
		place(t, l, order{ID: "4", User: "anna", Item: "tea", Qty: 1, Status: "placed"})
		place(t, l, order{ID: "5", User: "anna", Item: "tea", Qty: 1, Status: "placed"})
		if n := len(all(t, l)); n != 4 {
			t.Errorf("the ledger has %d orders, want 4", n)
		}
	})
}

// The process died in the middle of a write, before it answered.
func TestHalfALineAtTheEndOfTheFileIsNoOrder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "orders.jsonl")
	l, err := openFileLedger(name)
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
	if l, err = openFileLedger(name); err != nil {
		t.Fatal(err)
	}
	jam := order{ID: "2", User: "a", Item: "j", Qty: 1, Status: "placed"} // a shorter line than the torn one
	place(t, l, jam)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = openFileLedger(name); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := all(t, l); !slices.Equal(got, []order{tea, jam}) {
		t.Errorf("the ledger has %+v", got)
	}
}

func TestADamagedFileIsRefusedWithItsPlace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "orders.jsonl")
	if err := os.WriteFile(name, []byte("{\"id\":\"1\"}\nnot an order\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFileLedger(name); err == nil || !strings.Contains(err.Error(), "at byte 11") {
		t.Errorf("opening a damaged file: %v", err)
	}
}

func TestAnUnknownStoreIsRefused(t *testing.T) {
	for _, store := range []string{"", "memory", "memory:x", "sqlite:", "postgres://x"} {
		if _, _, _, err := open(t.Context(), store, "", slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("-store %q was opened", store)
		}
	}
}
