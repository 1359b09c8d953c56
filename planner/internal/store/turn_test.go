package store_test

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Whoever shares the writer with a crowd of transactions, as the key store
// does, comes next or next but one (B092).
func TestACrowdOfTransactionsStarvesNobodyElseOnTheWriter(t *testing.T) {
	db := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	var begun atomic.Int64
	for range 60 {
		crowd.Go(func() {
			for ctx.Err() == nil {
				_ = db.Tx(ctx, func(*sql.Tx) error {
					begun.Add(1)
					time.Sleep(time.Millisecond)
					return nil
				})
			}
		})
	}
	for begun.Load() < 60 {
		time.Sleep(time.Millisecond)
	}
	most := int64(0)
	for range 20 {
		before := begun.Load()
		conn, err := db.Write.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, begun.Load()-before)
		conn.Close()
	}
	cancel()
	crowd.Wait()
	if most > 5 {
		t.Errorf("%d transactions went before one who asked in between", most)
	}
}
