package memstore_test

import (
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/storetest"
)

func TestStoreContract(t *testing.T) {
	storetest.Run(t, storetest.Config{
		FakeTime: true,
		New:      func(testing.TB) onceward.Store { return memstore.New(memstore.Config{}) },
	})
}
