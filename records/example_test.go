package records_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/records"
)

func ExampleListen() {
	store := memstore.New(memstore.Config{})
	page, err := records.Listen("127.0.0.1:0", store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close(context.Background())
	res, err := http.Get(page.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	fmt.Println(res.Status)
	// Output: 200 OK
}
