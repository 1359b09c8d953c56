package operating

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// find finds a program of Prometheus's.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v: in CI nothing is skipped; `make install` installs it", err)
	} else if err != nil {
		t.Skipf("%v: `make install` installs it", err)
	}
	return path
}

// prometheus is a running server that scrapes and judges once a second.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts a server with these rules; the jobs' names are those of the
// programs.
func startPrometheus(t *testing.T, rules string, jobs map[string]*program) *prometheus {
	t.Helper()
	path, dir := find(t, "prometheus"), t.TempDir()
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n")
	for name, p := range jobs {
		at, err := url.Parse(p.metrics)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&config, "  - {job_name: %s, static_configs: [{targets: ['%s']}]}\n", name, at.Host)
	}
	for name, text := range map[string]string{"prometheus.yaml": config.String(), "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The port may be taken by somebody else before the server has it.
	for range 3 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := listener.Addr().String()
		listener.Close()
		if s := tryPrometheus(t, path, dir, addr); s != nil {
			return s
		}
	}
	t.Fatal("no server came up on three ports")
	return nil
}

func tryPrometheus(t *testing.T, path, dir, addr string) *prometheus {
	t.Helper()
	out, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=warn")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	s := &prometheus{t: t, url: "http://" + addr}
	up := false
	eventually(t, "the server is up, or has ended", func() bool {
		select {
		case <-done:
			return true
		default:
		}
		resp, err := client.Get(s.url + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		up = resp.StatusCode == 200
		return up
	})
	if !up {
		text, _ := os.ReadFile(out.Name())
		if strings.Contains(string(text), "address already in use") {
			return nil
		}
		t.Fatalf("the server ended:\n%s", text)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
		<-done
		if t.Failed() {
			text, _ := os.ReadFile(out.Name())
			t.Logf("Prometheus said:\n%s", text)
		}
	})
	return s
}

// get asks the server's API.
func (s *prometheus) get(path string, data any) error {
	resp, err := client.Get(s.url + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var envelope struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &envelope); err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, text)
	}
	if envelope.Status != "success" {
		return fmt.Errorf("%s: %s", path, envelope.Error)
	}
	return json.Unmarshal(envelope.Data, data)
}

// sample is one series of an instant.
type sample struct {
	Metric map[string]string
	Value  [2]any // when, and how much as text
}

func (s *prometheus) query(expr string) ([]sample, error) {
	var data struct{ Result json.RawMessage }
	var found []sample
	err := s.get("/api/v1/query?query="+url.QueryEscape(expr), &data)
	if err == nil && len(data.Result) > 0 && strings.HasPrefix(string(data.Result), "[{") {
		err = json.Unmarshal(data.Result, &found)
	}
	return found, err
}

// firing are the labels of the alarms that ring.
func (s *prometheus) firing() map[string]map[string]string {
	s.t.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if err := s.get("/api/v1/alerts", &data); err != nil {
		s.t.Fatal(err)
	}
	ringing := map[string]map[string]string{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			ringing[a.Labels["alertname"]] = a.Labels
		}
	}
	return ringing
}

// waitScraped waits until the server knows something of each program.
func (s *prometheus) waitScraped(jobs int) {
	s.t.Helper()
	eventually(s.t, "every program is scraped", func() bool {
		found, err := s.query("count by (job) (onceward_claims_open)")
		return err == nil && len(found) == jobs
	})
}
