// Package account knows who a person is: login and password, the sessions of
// their devices, and their settings. There is no e-mail and no passport: a login
// and a password are all that a pupil needs.
package account

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/onceward/onceward/planner/internal/store"
)

// What can be wrong with what a person typed. They are for errors.Is; the words
// that the person reads are the web package's.
var (
	ErrLoginInvalid    = errors.New("planner: the login is empty, too long or has blanks in it")
	ErrPasswordShort   = errors.New("planner: the password is too short")
	ErrPasswordLong    = errors.New("planner: the password is too long")
	ErrLoginTaken      = errors.New("planner: somebody has this login already")
	ErrWrongPassword   = errors.New("planner: no such login, or another password")
	ErrNoSession       = errors.New("planner: there is no such session, or it is over")
	ErrSettingsInvalid = errors.New("planner: there is no such setting")
)

// The limits of login and password, in runes and bytes. Six is less than
// grown-ups are told to use: what it guards is a list of homework, tries are
// counted, and a pupil who forgets a long one has no e-mail to get it back.
const (
	MaxLogin    = 64
	MinPassword = 6
	MaxPassword = 1024
)

// User is an account as pages need it.
type User struct {
	ID     string
	Login  string
	TZ     string // IANA name; "" until a device or the person has told it
	TZAuto bool   // TZ follows the device
	Locale string // "ru" or "en"
	Theme  string // "system", "light" or "dark"
}

// Accounts are the people of one planner. It is safe for concurrent use.
type Accounts struct {
	db    *store.DB
	now   func() time.Time
	slots chan struct{} // bounds the memory of hashing: 19 MiB each
}

// New returns the accounts in db. Now is the clock; nil means time.Now.
func New(db *store.DB, now func() time.Time) *Accounts {
	if now == nil {
		now = time.Now
	}
	return &Accounts{db: db, now: now, slots: make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))}
}

// Register makes an account. Registering again with the same login and the same
// password gives the account that is there, so that a repeat of a registration
// whose answer was lost ends where the first would have; with another password
// it is ErrLoginTaken. Errors about the input wrap ErrLoginInvalid,
// ErrPasswordShort or ErrPasswordLong.
func (a *Accounts) Register(ctx context.Context, login, password, locale, tz string) (User, error) {
	login, err := CleanLogin(login)
	if err != nil {
		return User{}, err
	}
	switch {
	case utf8.RuneCountInString(password) < MinPassword:
		return User{}, ErrPasswordShort
	case len(password) > MaxPassword:
		return User{}, ErrPasswordLong
	}
	if locale != "en" {
		locale = "ru"
	}
	zone := sql.NullString{String: tz, Valid: validZone(tz)}
	hash, err := a.hash(ctx, password)
	if err != nil {
		return User{}, err
	}
	res, err := a.db.Write.ExecContext(ctx,
		`INSERT INTO users (id, login, pass_hash, tz, locale, created_at) VALUES (?, ?, ?, ?, ?, ?)
		 ON CONFLICT (login) DO NOTHING`,
		rand.Text(), login, hash, zone, locale, a.now().UnixMilli())
	if err != nil {
		return User{}, fmt.Errorf("planner: registering: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return User{}, fmt.Errorf("planner: registering: %w", err)
	} else if n == 1 {
		u, _, err := a.byLogin(ctx, login)
		return u, err
	}
	u, err := a.Login(ctx, login, password)
	if errors.Is(err, ErrWrongPassword) {
		return User{}, ErrLoginTaken
	}
	return u, err
}

// Login finds the account of that login and password, or ErrWrongPassword, after
// the same work whether the login exists or not.
func (a *Accounts) Login(ctx context.Context, login, password string) (User, error) {
	login, err := CleanLogin(login)
	if err != nil || len(password) > MaxPassword {
		return User{}, ErrWrongPassword
	}
	u, hash, err := a.byLogin(ctx, login)
	if errors.Is(err, sql.ErrNoRows) {
		hash, err = nobodysHash, nil
	}
	if err != nil {
		return User{}, err
	}
	ok, err := a.matches(ctx, hash, password)
	if err != nil {
		return User{}, err
	}
	if !ok || u.ID == "" {
		return User{}, ErrWrongPassword
	}
	return u, nil
}

// Reset gives the account of that login another password and ends its sessions
// everywhere. ErrWrongPassword if there is no such login.
func (a *Accounts) Reset(ctx context.Context, login, password string) (User, error) {
	u, _, err := a.byLogin(ctx, strings.ToLower(login))
	if errors.Is(err, sql.ErrNoRows) {
		return User{}, ErrWrongPassword
	}
	if err != nil {
		return User{}, err
	}
	hash, err := a.hash(ctx, password)
	if err != nil {
		return User{}, err
	}
	_, err = a.db.Write.ExecContext(ctx,
		`UPDATE users SET pass_hash = ?, session_epoch = session_epoch + 1 WHERE id = ?`, hash, u.ID)
	if err != nil {
		return User{}, fmt.Errorf("planner: changing a password: %w", err)
	}
	return u, nil
}

// Delete deletes the account and everything that is theirs, if password is its
// own; else ErrWrongPassword. forget then deletes what is kept elsewhere under
// their id: should it fail, nobody can reach that any more, and it goes with its
// retention.
func (a *Accounts) Delete(ctx context.Context, u User, password string, forget func(context.Context, string) error) error {
	if _, err := a.Login(ctx, u.Login, password); err != nil {
		return err
	}
	err := a.db.Tx(ctx, func(tx *sql.Tx) error {
		// Series and tasks refer to each other, so each in its turn.
		for _, table := range []string{"tasks", "series"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE user_id = ?`, u.ID); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM users WHERE id = ?`, u.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("planner: deleting an account: %w", err)
	}
	return forget(ctx, u.ID)
}

const userColumns = `u.id, u.login, COALESCE(u.tz, ''), u.tz_auto, u.locale, u.theme`

func (u *User) fields() []any {
	return []any{&u.ID, &u.Login, &u.TZ, &u.TZAuto, &u.Locale, &u.Theme}
}

func (a *Accounts) byLogin(ctx context.Context, login string) (u User, hash string, err error) {
	err = a.db.Read.QueryRowContext(ctx,
		`SELECT `+userColumns+`, u.pass_hash FROM users u WHERE u.login = ?`, login).Scan(append(u.fields(), &hash)...)
	if err != nil {
		return User{}, "", fmt.Errorf("planner: looking for a login: %w", err)
	}
	return u, hash, nil
}

// CleanLogin is what is stored and looked for: SQLite's NOCASE knows only ASCII,
// and a phone's keyboard likes to begin with a capital letter, in Russian too.
// ErrLoginInvalid if nobody can have such a login.
func CleanLogin(login string) (string, error) {
	if !utf8.ValidString(login) {
		return "", ErrLoginInvalid
	}
	login = strings.ToLower(strings.TrimSpace(login))
	if login == "" || utf8.RuneCountInString(login) > MaxLogin {
		return "", ErrLoginInvalid
	}
	for _, r := range login {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return "", ErrLoginInvalid
		}
	}
	return login, nil
}

// Settings is what a person may change; nil leaves a thing as it is.
type Settings struct {
	TZ     *string // IANA name; with it TZAuto becomes false unless set here
	TZAuto *bool
	Locale *string
	Theme  *string
}

// Set changes the settings that are given, all or none; ErrSettingsInvalid if
// one of them is not a value that the setting can have.
func (a *Accounts) Set(ctx context.Context, userID string, s Settings) error {
	switch {
	case s.TZ != nil && !validZone(*s.TZ),
		s.Locale != nil && *s.Locale != "ru" && *s.Locale != "en",
		s.Theme != nil && *s.Theme != "system" && *s.Theme != "light" && *s.Theme != "dark":
		return ErrSettingsInvalid
	}
	if s.TZ != nil && s.TZAuto == nil {
		chosen := false
		s.TZAuto = &chosen
	}
	err := a.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`UPDATE users SET tz = COALESCE(?, tz), tz_auto = COALESCE(?, tz_auto),
			        locale = COALESCE(?, locale), theme = COALESCE(?, theme) WHERE id = ?`,
			s.TZ, s.TZAuto, s.Locale, s.Theme, userID)
		return err
	})
	if err != nil {
		return fmt.Errorf("planner: changing settings: %w", err)
	}
	return nil
}

// DeviceZone tells the zone that a device is in. It counts only while the person
// has not chosen one.
func (a *Accounts) DeviceZone(ctx context.Context, userID, tz string) error {
	if !validZone(tz) {
		return ErrSettingsInvalid
	}
	err := a.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`UPDATE users SET tz = ? WHERE id = ? AND tz_auto = 1`, tz, userID)
		return err
	})
	if err != nil {
		return fmt.Errorf("planner: changing the zone: %w", err)
	}
	return nil
}

// validZone tells whether tz names a zone. "Local" is the server's, not the
// person's.
func validZone(tz string) bool {
	if tz == "" || tz == "Local" || len(tz) > 64 {
		return false
	}
	_, err := time.LoadLocation(tz)
	return err == nil
}

// Location is the zone that the person's days begin and end in: theirs, else
// Moscow's, where most who read Russian are, else UTC.
func (u User) Location() *time.Location {
	name := u.TZ
	if name == "" && u.Locale == "ru" {
		name = "Europe/Moscow"
	}
	if loc, err := time.LoadLocation(name); err == nil {
		return loc
	}
	return time.UTC
}
