package account_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/planner/internal/account"
	"github.com/onceward/onceward/planner/internal/store"
)

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func accounts(t *testing.T) (*account.Accounts, *store.DB, *clock) {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c := &clock{now: time.Date(2026, 11, 29, 17, 30, 0, 0, time.UTC)}
	return account.New(db, c.Now), db, c
}

// R13: a registration whose answer was lost, sent again, ends in the same account.
func TestRegisteringTwiceIsOneAccount(t *testing.T) {
	a, db, _ := accounts(t)
	var wg sync.WaitGroup
	ids := make([]string, 4)
	for i := range ids {
		wg.Go(func() {
			u, err := a.Register(t.Context(), " Анна ", "correct horse", "ru", "Asia/Omsk")
			if err != nil {
				t.Error(err)
			}
			ids[i] = u.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("accounts %v", ids)
		}
	}
	if _, err := a.Register(t.Context(), "АННА", "another one", "ru", ""); !errors.Is(err, account.ErrLoginTaken) {
		t.Errorf("the same login in capitals with another password: %v", err)
	}
	var n int
	var hash string
	if err := db.Read.QueryRow(`SELECT count(*), max(pass_hash) FROM users`).Scan(&n, &hash); err != nil || n != 1 {
		t.Errorf("%d accounts, %v", n, err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(hash, "horse") {
		t.Errorf("stored password: %q", hash)
	}
}

func TestALoginNeedsTheRightPassword(t *testing.T) {
	a, _, _ := accounts(t)
	want, err := a.Register(t.Context(), "petya", "secret", "en", "")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := a.Login(t.Context(), "Petya", "secret"); err != nil || u != want {
		t.Errorf("%+v, %v", u, err)
	}
	for _, c := range []struct{ login, password string }{
		{"petya", "Secret"}, {"petya", ""}, {"vasya", "secret"}, {"", "secret"}, {"petya", strings.Repeat("x", account.MaxPassword+1)},
	} {
		if _, err := a.Login(t.Context(), c.login, c.password); !errors.Is(err, account.ErrWrongPassword) {
			t.Errorf("login %q: %v", c.login, err)
		}
	}
}

func TestARegistrationIsRefusedForWhatItIs(t *testing.T) {
	a, _, _ := accounts(t)
	for _, c := range []struct {
		login, password string
		want            error
	}{
		{"", "secret", account.ErrLoginInvalid},
		{"two words", "secret", account.ErrLoginInvalid},
		{"a\x00b", "secret", account.ErrLoginInvalid},
		{"\xff", "secret", account.ErrLoginInvalid},
		{strings.Repeat("я", account.MaxLogin+1), "secret", account.ErrLoginInvalid},
		{"anna", "five5", account.ErrPasswordShort},
		{"anna", strings.Repeat("x", account.MaxPassword+1), account.ErrPasswordLong},
	} {
		if _, err := a.Register(t.Context(), c.login, c.password, "ru", ""); !errors.Is(err, c.want) {
			t.Errorf("%q, %q: %v, want %v", c.login, c.password, err, c.want)
		}
	}
}

func TestASessionEndsByTimeByItselfAndEverywhere(t *testing.T) {
	a, db, c := accounts(t)
	u, err := a.Register(t.Context(), "anna", "correct horse", "ru", "")
	if err != nil {
		t.Fatal(err)
	}
	start := func() string {
		t.Helper()
		token, err := a.StartSession(t.Context(), u.ID, "a phone")
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	alive := func(token string) bool {
		t.Helper()
		got, err := a.Session(t.Context(), token)
		if err == nil && got != u {
			t.Fatalf("the session is %+v's", got)
		}
		if err != nil && !errors.Is(err, account.ErrNoSession) {
			t.Fatal(err)
		}
		return err == nil
	}

	phone, laptop := start(), start()
	var inClear int
	if err := db.Read.QueryRow(`SELECT count(*) FROM sessions WHERE token_hash = ? OR CAST(token_hash AS TEXT) = ?`, phone, phone).Scan(&inClear); err != nil || inClear != 0 {
		t.Errorf("the token stands in the database, %v", err)
	}
	if !alive(phone) || !alive(laptop) || alive("") || alive("somebody's") {
		t.Fatal("two sessions begun; both and only they should be alive")
	}
	if err := a.EndSession(t.Context(), phone); err != nil {
		t.Fatal(err)
	}
	if alive(phone) || !alive(laptop) {
		t.Error("ending one session should end that one")
	}

	c.Add(account.SessionLife - time.Hour) // seen now, so it lives on from here
	if !alive(laptop) {
		t.Error("a session ended before its time")
	}
	c.Add(account.SessionLife - time.Hour)
	if !alive(laptop) {
		t.Error("use did not renew the session")
	}
	c.Add(account.SessionLife)
	if alive(laptop) {
		t.Error("a session that nobody used is still alive")
	}

	old := start()
	if err := a.EndSessions(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	if alive(old) || !alive(start()) {
		t.Error("ending all sessions should end those that are, and no later ones")
	}

	c.Add(2 * account.SessionLife)
	if err := a.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.Read.QueryRow(`SELECT count(*) FROM sessions`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d sessions are left after the sweep, %v", n, err)
	}
}

// R13: the epoch counts even where the session's row is still there.
func TestAnotherEpochEndsASession(t *testing.T) {
	a, db, _ := accounts(t)
	u, err := a.Register(t.Context(), "anna", "correct horse", "ru", "")
	if err != nil {
		t.Fatal(err)
	}
	token, err := a.StartSession(t.Context(), u.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.Reset(t.Context(), "Anna", "battery staple"); err != nil || again != u {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := a.Session(t.Context(), token); !errors.Is(err, account.ErrNoSession) {
		t.Errorf("after a change of password: %v", err)
	}
	var n int
	if err := db.Read.QueryRow(`SELECT count(*) FROM sessions`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestTriesAreCountedInTheDatabase(t *testing.T) {
	a, db, c := accounts(t)
	for i := range 3 {
		if ok, _, err := a.Try(t.Context(), "login:1", 2, time.Minute); err != nil || ok != (i < 2) {
			t.Errorf("try %d: %v, %v", i+1, ok, err)
		}
	}
	c.Add(20 * time.Second)
	again := account.New(db, c.Now) // a restart gives no new tries
	if ok, wait, err := again.Try(t.Context(), "login:1", 2, time.Minute); err != nil || ok || wait != 40*time.Second {
		t.Errorf("after a restart: %v, wait %v, %v", ok, wait, err)
	}
	if ok, _, err := a.Try(t.Context(), "login:2", 2, time.Minute); err != nil || !ok {
		t.Errorf("another bucket: %v, %v", ok, err)
	}
	c.Add(40 * time.Second)
	if ok, _, err := a.Try(t.Context(), "login:1", 2, time.Minute); err != nil || !ok {
		t.Errorf("a new window: %v, %v", ok, err)
	}
}

func TestSettingsAreSetAsAWholeOrNotAtAll(t *testing.T) {
	a, _, _ := accounts(t)
	ctx := context.Background()
	u, err := a.Register(ctx, "anna", "correct horse", "ru", "not/azone")
	if err != nil {
		t.Fatal(err)
	}
	if u.TZ != "" || !u.TZAuto || u.Theme != "system" || u.Location().String() != "Europe/Moscow" {
		t.Errorf("a new account: %+v in %s", u, u.Location())
	}
	ptr := func(s string) *string { return &s }
	read := func() account.User {
		t.Helper()
		u, err := a.Login(ctx, "anna", "correct horse")
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	if err := a.DeviceZone(ctx, u.ID, "Asia/Kamchatka"); err != nil || read().TZ != "Asia/Kamchatka" {
		t.Errorf("the device's zone: %+v, %v", read(), err)
	}
	if err := a.Set(ctx, u.ID, account.Settings{Theme: ptr("dark"), Locale: ptr("tlh")}); !errors.Is(err, account.ErrSettingsInvalid) || read().Theme != "system" {
		t.Errorf("half a valid change: %v, %+v", err, read())
	}
	for range 2 { // sets values: a repeat changes nothing
		if err := a.Set(ctx, u.ID, account.Settings{TZ: ptr("Asia/Omsk"), Locale: ptr("en"), Theme: ptr("dark")}); err != nil {
			t.Fatal(err)
		}
		if got := read(); got.TZ != "Asia/Omsk" || got.TZAuto || got.Locale != "en" || got.Theme != "dark" {
			t.Errorf("after the change: %+v", got)
		}
	}
	if err := a.DeviceZone(ctx, u.ID, "Europe/Berlin"); err != nil || read().TZ != "Asia/Omsk" {
		t.Errorf("a device overruled the person: %+v, %v", read(), err)
	}
	for _, tz := range []string{"", "Local", "Mars/Olympus", "../etc/passwd"} {
		if err := a.DeviceZone(ctx, u.ID, tz); !errors.Is(err, account.ErrSettingsInvalid) {
			t.Errorf("zone %q: %v", tz, err)
		}
	}
}
