package operation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/operation"
)

// A request that starts long work, and the question what became of it.
func Example() {
	store := memstore.New(memstore.Config{})
	guard, err := onceward.New(store, onceward.Unscoped, onceward.Config{})
	if err != nil {
		panic(err)
	}
	defer guard.Close(context.Background())
	runner, err := operation.NewLocal(map[string]operation.Work{
		"report": func(ctx context.Context, job operation.Job) (operation.Result, error) {
			return operation.Result{Value: json.RawMessage(`"42 orders"`)}, nil
		},
	}, operation.LocalConfig{})
	if err != nil {
		panic(err)
	}
	defer runner.Close(context.Background())
	ops, err := operation.New(runner, onceward.Unscoped, operation.Config{Records: store})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /reports", ops.Repeats(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ops.Accept(w, r, "report", nil)
	}))))
	mux.Handle("GET /operations/{id}", ops)

	ask := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		if method == "POST" {
			r.Header.Set("Idempotency-Key", "report-of-november")
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	tell := func(w *httptest.ResponseRecorder) {
		var op struct {
			State  operation.State
			Result string
		}
		_ = json.Unmarshal(w.Body.Bytes(), &op)
		fmt.Println(w.Code, op.State, op.Result)
	}
	accepted := ask("POST", "/reports")
	fmt.Println(accepted.Code)
	tell(ask("GET", accepted.Header().Get("Location")+"?wait=5"))
	tell(ask("POST", "/reports")) // the same again starts nothing

	// Output:
	// 202
	// 200 complete 42 orders
	// 202 complete 42 orders
}
