package gateway_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/memstore"
)

// BenchmarkGatewayGet compares a GET through the gateway with one through a bare
// httputil.ReverseProxy, whose transport keeps as many connections. Both are
// measured in turns in one run; "x-bare" is the gateway's throughput over the bare
// proxy's (design: 0.9 at least).
func BenchmarkGatewayGet(b *testing.B) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "a page of a moderate size\n")
	}))
	defer app.Close()
	to, _ := url.Parse(app.URL)
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.SetXForwarded() },
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
	})
	defer bare.Close()
	g, err := gateway.New(app.URL, memstore.New(memstore.Config{}), onceward.Unscoped, gateway.Config{Guard: onceward.Config{Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close(b.Context())
	front := httptest.NewServer(g)
	defer front.Close()

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	get := func(url string) {
		res, err := client.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	for range 200 {
		get(bare.URL)
		get(front.URL)
	}
	var spent [2]time.Duration
	const turn = 50
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		for n, url := range []string{bare.URL, front.URL} {
			start := time.Now()
			for range turn {
				get(url)
			}
			spent[n] += time.Since(start)
		}
	}
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "x-bare")
	b.ReportMetric(float64(b.N*turn)/spent[1].Seconds(), "req/s")
	b.ReportMetric(float64(b.N*turn)/spent[0].Seconds(), "bare-req/s")
}
