package auth

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/xdg-go/scram"
)

// Server says who the clients of a listener are.
type Server struct {
	users      *Users
	mechanisms []string
}

// NewServer takes some mechanisms; none is all.
func NewServer(users *Users, mechanisms ...string) (*Server, error) {
	if users == nil {
		return nil, errors.New("no users")
	}
	if len(mechanisms) == 0 {
		mechanisms = Mechanisms()
	}
	for _, m := range mechanisms {
		if err := CheckMechanism(m); err != nil {
			return nil, err
		}
	}
	return &Server{users: users, mechanisms: slices.Clone(mechanisms)}, nil
}

// Mechanisms are those that clients may choose of.
func (s *Server) Mechanisms() []string { return slices.Clone(s.mechanisms) }

// Session is one connection's way from a stranger to a user. It is used by one
// goroutine at a time.
type Session struct {
	server    *Server
	mechanism string
	scram     *scram.ServerConversation
	principal string
	refused   bool
}

// Session begins one.
func (s *Server) Session() *Session { return &Session{server: s} }

// Mechanisms are those of the listener.
func (s *Session) Mechanisms() []string { return s.server.Mechanisms() }

// ErrMechanism is a mechanism that the listener does not take.
var ErrMechanism = errors.New("unsupported SASL mechanism")

// ErrState is a step that does not come now.
var ErrState = errors.New("not the time for this SASL request")

// Choose begins with a mechanism. Once there is a principal no other is chosen
// (KIP-368's renewal is not offered). After ErrMechanism another may be.
func (s *Session) Choose(mechanism string) error {
	switch {
	case s.refused || s.principal != "" || s.mechanism != "":
		return ErrState
	case !slices.Contains(s.server.mechanisms, mechanism):
		return fmt.Errorf("%w: %q", ErrMechanism, mechanism)
	}
	s.mechanism = mechanism
	if mechanism == Plain {
		return nil
	}
	hash := scram.SHA256
	if mechanism == ScramSHA512 {
		hash = scram.SHA512
	}
	server, err := hash.NewServer(func(name string) (scram.StoredCredentials, error) {
		if c, ok := s.server.users.scram[mechanism][name]; ok {
			return c, nil
		}
		return scram.StoredCredentials{}, ErrRefused
	})
	if err != nil {
		return fmt.Errorf("%s: %w", mechanism, err)
	}
	s.scram = server.NewConversation()
	return nil
}

// Step answers what a client says in its mechanism. ErrRefused ends the session.
func (s *Session) Step(said []byte) (answer []byte, err error) {
	if s.mechanism == "" || s.refused || s.principal != "" {
		return nil, ErrState
	}
	if s.mechanism == Plain {
		s.principal, err = s.server.users.plain(said)
	} else {
		answer, err = s.challenge(said)
	}
	if err != nil {
		s.refused = true
		return nil, err
	}
	return answer, nil
}

// plain reads RFC 4616's only message: authorization id, name and password.
func (u *Users) plain(said []byte) (string, error) {
	parts := bytes.Split(said, []byte{0})
	if len(parts) != 3 || len(parts[1]) == 0 {
		return "", ErrRefused
	}
	as, name, password := string(parts[0]), string(parts[1]), string(parts[2])
	if as != "" && as != name || !u.has(name, password) {
		return "", ErrRefused // nobody acts for somebody else, as in Kafka
	}
	return name, nil
}

func (s *Session) challenge(said []byte) ([]byte, error) {
	answer, err := s.scram.Step(string(said))
	if err != nil {
		return nil, ErrRefused // the cause tells which names there are
	}
	if s.scram.Done() {
		name, as := s.scram.Username(), s.scram.AuthzID()
		if !s.scram.Valid() || as != "" && as != name {
			return nil, ErrRefused
		}
		s.principal = name
	}
	return []byte(answer), nil
}

// Principal is who the client is, or "" as long as nobody knows.
func (s *Session) Principal() string { return s.principal }

// Refused says whether the client is not who it said; the connection ends then.
func (s *Session) Refused() bool { return s.refused }
