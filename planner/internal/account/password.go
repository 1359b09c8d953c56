package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// The cost of argon2id for new hashes, the first of the equal choices of OWASP's
// password storage cheat sheet: 19 MiB, 2 passes, 1 lane. A hash carries its own
// cost, so these can be raised without locking anybody out.
const (
	costMemory  = 19 * 1024 // KiB
	costTime    = 2
	costThreads = 1
	saltLength  = 16
	sumLength   = 32
)

// nobodysHash is matched against when a login does not exist, so that the time
// of the answer does not tell which logins do. Nothing has this sum.
var nobodysHash = format(costMemory, costTime, costThreads, make([]byte, saltLength), make([]byte, sumLength))

// hash makes the PHC string that is stored for password.
func (a *Accounts) hash(ctx context.Context, password string) (string, error) {
	if err := a.enter(ctx); err != nil {
		return "", err
	}
	defer a.leave()
	salt := make([]byte, saltLength)
	rand.Read(salt)
	sum := argon2.IDKey([]byte(password), salt, costTime, costMemory, costThreads, sumLength)
	return format(costMemory, costTime, costThreads, salt, sum), nil
}

func (a *Accounts) matches(ctx context.Context, hash, password string) (bool, error) {
	m, t, p, salt, sum, err := parse(hash)
	if err != nil {
		return false, err
	}
	if err := a.enter(ctx); err != nil {
		return false, err
	}
	defer a.leave()
	got := argon2.IDKey([]byte(password), salt, t, m, p, uint32(len(sum)))
	return subtle.ConstantTimeCompare(got, sum) == 1, nil
}

func (a *Accounts) enter(ctx context.Context) error {
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("planner: hashing a password: %w", ctx.Err())
	}
}

func (a *Accounts) leave() { <-a.slots }

func format(m, t uint32, p uint8, salt, sum []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, m, t, p, b64(salt), b64(sum))
}

func parse(hash string) (m, t uint32, p uint8, salt, sum []byte, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return 0, 0, 0, nil, nil, fmt.Errorf("planner: a stored password hash is of another kind")
	}
	_, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &m, &t, &p)
	if err == nil {
		salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	}
	if err == nil {
		sum, err = base64.RawStdEncoding.DecodeString(parts[5])
	}
	if err != nil || t == 0 || p == 0 || len(sum) == 0 {
		return 0, 0, 0, nil, nil, fmt.Errorf("planner: a stored password hash is damaged: %v", err)
	}
	return m, t, p, salt, sum, nil
}
