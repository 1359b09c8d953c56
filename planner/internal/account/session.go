package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// SessionLife is how long a session lasts after its last use. A pupil who has no
// e-mail to recover a password should rarely have to type one.
const SessionLife = 180 * 24 * time.Hour

// touchEvery is how stale "last seen" may be. Writing it at each request would
// turn each page into a write.
const touchEvery = 12 * time.Hour

// StartSession makes a session and returns its token, which only the person's
// cookie has: the database knows the token's hash, so that a stolen backup opens
// no account.
func (a *Accounts) StartSession(ctx context.Context, userID, userAgent string) (token string, err error) {
	token = rand.Text()
	if len(userAgent) > 200 {
		userAgent = strings.ToValidUTF8(userAgent[:200], "")
	}
	now := a.now()
	_, err = a.db.Write.ExecContext(ctx,
		`INSERT INTO sessions (token_hash, user_id, epoch, ua, created_at, seen_at, expires_at)
		 SELECT ?, id, session_epoch, ?, ?, ?, ? FROM users WHERE id = ?`,
		tokenHash(token), userAgent, now.UnixMilli(), now.UnixMilli(), now.Add(SessionLife).UnixMilli(), userID)
	if err != nil {
		return "", fmt.Errorf("planner: starting a session: %w", err)
	}
	return token, nil
}

// Session finds whose session token opens, or ErrNoSession: unknown, over, or
// begun before the account's sessions were ended everywhere.
func (a *Accounts) Session(ctx context.Context, token string) (User, error) {
	if token == "" {
		return User{}, ErrNoSession
	}
	var u User
	var seen int64
	now := a.now()
	err := a.db.Read.QueryRowContext(ctx,
		`SELECT `+userColumns+`, s.seen_at FROM sessions s JOIN users u ON u.id = s.user_id
		 WHERE s.token_hash = ? AND s.epoch = u.session_epoch AND s.expires_at > ?`,
		tokenHash(token), now.UnixMilli()).Scan(append(u.fields(), &seen)...)
	if errors.Is(err, sql.ErrNoRows) {
		return User{}, ErrNoSession
	}
	if err != nil {
		return User{}, fmt.Errorf("planner: looking for a session: %w", err)
	}
	if now.Sub(time.UnixMilli(seen)) > touchEvery {
		_, err := a.db.Write.ExecContext(ctx,
			`UPDATE sessions SET seen_at = ?, expires_at = ? WHERE token_hash = ?`,
			now.UnixMilli(), now.Add(SessionLife).UnixMilli(), tokenHash(token))
		if err != nil {
			return User{}, fmt.Errorf("planner: renewing a session: %w", err)
		}
	}
	return u, nil
}

// EndSession ends one session; one that is not there is no error.
func (a *Accounts) EndSession(ctx context.Context, token string) error {
	if _, err := a.db.Write.ExecContext(ctx, `DELETE FROM sessions WHERE token_hash = ?`, tokenHash(token)); err != nil {
		return fmt.Errorf("planner: ending a session: %w", err)
	}
	return nil
}

// EndSessions ends all sessions of an account, on every device.
func (a *Accounts) EndSessions(ctx context.Context, userID string) error {
	err := a.db.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE users SET session_epoch = session_epoch + 1 WHERE id = ?`, userID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE user_id = ?`, userID)
		return err
	})
	if err != nil {
		return fmt.Errorf("planner: ending all sessions: %w", err)
	}
	return nil
}

// Sweep deletes what has expired; it decides nothing, reading judges expiry.
func (a *Accounts) Sweep(ctx context.Context) error {
	for _, q := range []string{`DELETE FROM sessions WHERE expires_at <= ?`, `DELETE FROM tries WHERE expires_at <= ?`} {
		if _, err := a.db.Write.ExecContext(ctx, q, a.now().UnixMilli()); err != nil {
			return fmt.Errorf("planner: sweeping sessions: %w", err)
		}
	}
	return nil
}

// Try counts one try in bucket, and tells whether it is one of the most that a
// window allows, else how long the window still lasts. The window begins at the
// first try.
func (a *Accounts) Try(ctx context.Context, bucket string, most int, window time.Duration) (ok bool, wait time.Duration, err error) {
	now := a.now()
	var n int
	var expires int64
	err = a.db.Write.QueryRowContext(ctx,
		`INSERT INTO tries (bucket, n, expires_at) VALUES (?1, 1, ?2)
		 ON CONFLICT (bucket) DO UPDATE SET
		   n = CASE WHEN expires_at <= ?3 THEN 1 ELSE n + 1 END,
		   expires_at = CASE WHEN expires_at <= ?3 THEN ?2 ELSE expires_at END
		 RETURNING n, expires_at`,
		bucket, now.Add(window).UnixMilli(), now.UnixMilli()).Scan(&n, &expires)
	if err != nil {
		return false, 0, fmt.Errorf("planner: counting tries: %w", err)
	}
	return n <= most, time.UnixMilli(expires).Sub(now), nil
}

func tokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
