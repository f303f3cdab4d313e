package auth

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/xdg-go/scram"
)

// iterations of SCRAM's key derivation, the least that RFC 5802 and Kafka take.
const iterations = 4096

// Users are who may connect.
type Users struct {
	// secrets are digests of passwords, so that comparing takes as long whatever
	// the password.
	secrets map[string][sha256.Size]byte
	scram   map[string]map[string]scram.StoredCredentials // by mechanism and name
}

// ReadUsers reads a file of lines NAME=PASSWORD; spaces around either don't count.
// Empty lines and those that begin with # say nothing. An error tells the line,
// never what is in it.
func ReadUsers(in io.Reader) (*Users, error) {
	all, err := parseUsers(in)
	if err != nil {
		return nil, err
	}
	u := &Users{secrets: map[string][sha256.Size]byte{}, scram: map[string]map[string]scram.StoredCredentials{}}
	for _, a := range all {
		if err := u.add(a.name, a.password); err != nil {
			return nil, fmt.Errorf("line %d: user %q: %w", a.line, a.name, err)
		}
	}
	return u, nil
}

type user struct {
	line           int
	name, password string
}

func parseUsers(in io.Reader) ([]user, error) {
	var all []user
	seen := map[string]bool{}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, password, ok := strings.Cut(line, "=")
		name, password = strings.TrimSpace(name), strings.TrimSpace(password)
		switch {
		case !ok || name == "" || password == "":
			return nil, fmt.Errorf("line %d: want NAME=PASSWORD", n)
		case seen[name]:
			return nil, fmt.Errorf("line %d: user %q was given before", n, name)
		}
		seen[name] = true
		all = append(all, user{n, name, password})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no users")
	}
	return all, nil
}

func (u *Users) add(name, password string) error {
	u.secrets[name] = sha256.Sum256([]byte(password))
	for mechanism, hash := range map[string]scram.HashGeneratorFcn{ScramSHA256: scram.SHA256, ScramSHA512: scram.SHA512} {
		c, err := hash.NewClient(name, password, "")
		if err != nil {
			return fmt.Errorf("%s can't have this name or password", mechanism) // the cause may quote them
		}
		salt := make([]byte, 24)
		if _, err := rand.Read(salt); err != nil {
			return err
		}
		stored, err := c.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt), Iters: iterations})
		if err != nil {
			return fmt.Errorf("%s: credentials can't be derived", mechanism)
		}
		if u.scram[mechanism] == nil {
			u.scram[mechanism] = map[string]scram.StoredCredentials{}
		}
		u.scram[mechanism][name] = stored
	}
	return nil
}

// has says whether a password is a user's.
func (u *Users) has(name, password string) bool {
	want, known := u.secrets[name]
	got := sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && known
}
