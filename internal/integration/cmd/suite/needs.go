package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// need is something from outside Go that a stage cannot do without. It counts
// as there when it can be found; versions are the distribution's business.
type need struct {
	name   string
	debian []string // packages that bring it
	there  func(w *workplace) bool
}

var (
	compiler = need{"a C compiler (for -race)", []string{"gcc", "libc6-dev"}, onPath("gcc", "clang", "cc")}
	node     = need{"Node.js 20 or newer", []string{"nodejs"}, onPath("node")}
	npm      = need{"npm", []string{"npm"}, onPath("npm")}
	chromium = need{"Chromium", []string{"chromium"}, onPath("chromium", "chromium-browser")}
	firefox  = need{"Firefox ESR", []string{"firefox-esr"}, onPath("firefox-esr")}
	webkit   = need{"WebKitGTK with its WebDriver", []string{"webkit2gtk-driver"}, all(onPath("WebKitWebDriver"), file("/usr/lib/*/webkit2gtk-4.1/MiniBrowser"))}
	xvfb     = need{"Xvfb", []string{"xvfb"}, onPath("Xvfb")}
	postgres = need{"PostgreSQL (the server)", []string{"postgresql"}, either(file("/usr/lib/postgresql/*/bin/postgres"), onPath("postgres"))}
	pooler   = need{"PgBouncer", []string{"pgbouncer"}, either(onPath("pgbouncer"), file("/usr/sbin/pgbouncer"))}
	redis    = need{"Redis (the server)", []string{"redis-server"}, onPath("redis-server")}
	watcher  = need{"Prometheus, with promtool", []string{"prometheus"}, all(onPath("prometheus"), onPath("promtool"))}
	curl     = need{"curl", []string{"curl"}, onPath("curl")}
	flask    = need{"Flask", []string{"python3-flask"}, file("/usr/lib/python3/dist-packages/flask")}
	django   = need{"Django", []string{"python3-django"}, file("/usr/lib/python3/dist-packages/django")}
	gunicorn = need{"gunicorn", []string{"gunicorn"}, file("/usr/lib/python3/dist-packages/gunicorn")}
	fonts    = need{"a font with Cyrillic letters", []string{"fonts-dejavu-core"}, file("/usr/share/fonts/truetype/*/DejaVuSans.ttf", "/usr/share/fonts/truetype/*/LiberationSans-Regular.ttf", "/usr/share/fonts/truetype/*/NotoSans-Regular.ttf")}
)

func onPath(names ...string) func(*workplace) bool {
	return func(*workplace) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			_, err := exec.LookPath(name)
			return err == nil
		})
	}
}

func file(patterns ...string) func(*workplace) bool {
	return func(*workplace) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			found, err := filepath.Glob(pattern)
			return err == nil && len(found) > 0
		})
	}
}

func either(a, b func(*workplace) bool) func(*workplace) bool {
	return func(w *workplace) bool { return a(w) || b(w) }
}

func all(checks ...func(*workplace) bool) func(*workplace) bool {
	return func(w *workplace) bool {
		return !slices.ContainsFunc(checks, func(check func(*workplace) bool) bool { return !check(w) })
	}
}

// provide sees to it that everything the stages need is there: on Debian as
// root it installs, elsewhere it fails with the commands to run. One run at a
// time does this, since two package managers at once trip over each other.
func provide(ctx context.Context, w *workplace, chosen []stage) error {
	unlock, err := lock(ctx, filepath.Join(os.TempDir(), fmt.Sprintf("onceward-suite-%d.lock", os.Getuid())))
	if err != nil {
		return err
	}
	defer unlock()

	var missing []need
	wantsScripts := false
	for _, s := range chosen {
		for _, n := range s.needs {
			if n.name == npm.name {
				wantsScripts = true
			}
			known := slices.ContainsFunc(missing, func(m need) bool { return m.name == n.name })
			if !known && !n.there(w) {
				missing = append(missing, n)
			}
		}
	}
	if err := installPackages(ctx, w, missing); err != nil {
		return err
	}
	if wantsScripts {
		return installScripts(ctx, w)
	}
	return nil
}

func installPackages(ctx context.Context, w *workplace, missing []need) error {
	if len(missing) == 0 {
		return nil
	}
	var names, packages []string
	for _, n := range missing {
		names = append(names, n.name)
		packages = append(packages, n.debian...)
	}
	commands := [][]string{
		{"apt-get", "update", "-q"},
		append([]string{"apt-get", "install", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"}, packages...),
	}
	if !isDebian() || os.Getuid() != 0 {
		return errors.New(advice(names, commands, isDebian(), runtime.GOOS))
	}
	for _, c := range commands {
		fmt.Fprintf(w.out, "suite: %s\n", strings.Join(c, " "))
		ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
		out, err := w.output(ctx, "", "env", append([]string{"DEBIAN_FRONTEND=noninteractive"}, c...)...)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(c, " "), err, indent(out))
		}
	}
	for _, n := range missing {
		if !n.there(w) {
			return fmt.Errorf("%s is still missing after installing %s", n.name, strings.Join(n.debian, " "))
		}
	}
	return nil
}

// advice is what a person has to do where the suite may not do it.
func advice(names []string, commands [][]string, debian bool, system string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "missing: %s\n", strings.Join(names, ", "))
	if debian {
		b.WriteString("run as root, or with sudo:\n")
	} else {
		fmt.Fprintf(&b, "this is %s, not Debian; there it would be the following, here install the same by your own package manager:\n", system)
	}
	for _, c := range commands {
		fmt.Fprintf(&b, "    sudo %s\n", strings.Join(c, " "))
	}
	fmt.Fprintf(&b, "then:\n    (cd %s && npm ci)\n    make test\n", integration)
	return b.String()
}

func isDebian() bool {
	_, err := os.Stat("/etc/debian_version")
	return err == nil
}

// installScripts runs npm ci, unless what is there came from this very lock
// file.
func installScripts(ctx context.Context, w *workplace) error {
	text, err := os.ReadFile(filepath.Join(w.root, integration, "package-lock.json"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	want := []byte(hex.EncodeToString(sum[:]))
	mark := filepath.Join(w.root, integration, "node_modules", ".lock-sha256")
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, want) {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Fprintf(w.out, "suite: npm ci in %s\n", integration)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	out, err := w.output(ctx, integration, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	if err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, indent(out))
	}
	return os.WriteFile(mark, want, 0o644)
}

// lock waits until this process alone holds the file.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
