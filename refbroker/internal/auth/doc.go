// Package auth says who a client is, and keeps what it says from others: SASL
// (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512) and TLS, as a listener asks for them and
// as this broker answers the source of a mirror that does. Who is known may do
// everything: there are no rights.
//
// Passwords never appear in an error, a log or a description.
package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The mechanisms of SASL, by their names on the wire.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Mechanisms are all that there are.
func Mechanisms() []string { return []string{Plain, ScramSHA256, ScramSHA512} }

// Protocol is what a listener asks for, by the names of Kafka's
// security.protocol.
type Protocol string

// The protocols.
const (
	Plaintext     Protocol = "PLAINTEXT"
	SSL           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLSSL       Protocol = "SASL_SSL"
)

// ParseProtocol reads a protocol's name; "" is PLAINTEXT.
func ParseProtocol(s string) (Protocol, error) {
	p := Protocol(strings.ToUpper(s))
	switch p {
	case "":
		return Plaintext, nil
	case Plaintext, SSL, SASLPlaintext, SASLSSL:
		return p, nil
	}
	return "", fmt.Errorf("security protocol %q: want %s, %s, %s or %s", s, Plaintext, SSL, SASLPlaintext, SASLSSL)
}

// TLS says whether connections are encrypted.
func (p Protocol) TLS() bool { return p == SSL || p == SASLSSL }

// SASL says whether clients have to say who they are.
func (p Protocol) SASL() bool { return p == SASLPlaintext || p == SASLSSL }

// CheckMechanism refuses a name that is none.
func CheckMechanism(name string) error {
	if !slices.Contains(Mechanisms(), name) {
		return fmt.Errorf("SASL mechanism %q: want %s", name, strings.Join(Mechanisms(), ", "))
	}
	return nil
}

// ErrRefused is a client that is not who it says. It does not tell why, as
// Kafka does not: which names exist is nobody's business.
var ErrRefused = errors.New("authentication failed: invalid credentials")
