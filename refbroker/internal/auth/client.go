package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The configs of a client, by Kafka's names. Certificates are PEM: in the config
// itself (KIP-651), or in a file that each broker has.
const (
	ConfigProtocol      = "security.protocol"
	ConfigMechanism     = "sasl.mechanism"
	ConfigJAAS          = "sasl.jaas.config"
	ConfigTrustType     = "ssl.truststore.type"
	ConfigTrust         = "ssl.truststore.certificates"
	ConfigTrustFile     = "ssl.truststore.location"
	ConfigKeyType       = "ssl.keystore.type"
	ConfigKeyChain      = "ssl.keystore.certificate.chain"
	ConfigKey           = "ssl.keystore.key"
	ConfigKeyFile       = "ssl.keystore.location"
	ConfigVerifyAddress = "ssl.endpoint.identification.algorithm"
)

// ClientConfigs are the configs that [ReadClient] knows.
func ClientConfigs() []string {
	return []string{
		ConfigProtocol, ConfigMechanism, ConfigJAAS, ConfigTrustType, ConfigTrust, ConfigTrustFile,
		ConfigKeyType, ConfigKeyChain, ConfigKey, ConfigKeyFile, ConfigVerifyAddress,
	}
}

// Known says whether a config is one of [ClientConfigs].
func Known(config string) bool { return slices.Contains(ClientConfigs(), config) }

// Secret says whether a config's value must not be shown.
func Secret(config string) bool { return config == ConfigJAAS || config == ConfigKey }

// Client is how a broker makes itself known to another. nil or the zero value
// says nothing, in plain text.
type Client struct {
	TLS  *tls.Config // nil for none; ServerName is set by [Client.TLSFor]
	SASL sasl.Mechanism
}

// TLSFor is the TLS of a connection to an address.
func (c *Client) TLSFor(address string) *tls.Config {
	own := c.TLS.Clone()
	if host, _, err := net.SplitHostPort(address); err == nil {
		own.ServerName = host
	}
	return own
}

// ReadClient reads a client's configs. It looks at those of [ClientConfigs] only,
// and refuses a bad one by its name; no error has a secret.
func ReadClient(configs map[string]string) (*Client, error) {
	protocol, err := ParseProtocol(configs[ConfigProtocol])
	if err != nil {
		return nil, fmt.Errorf("config %s: %w", ConfigProtocol, err)
	}
	c := &Client{}
	if protocol.TLS() {
		if c.TLS, err = clientTLS(configs); err != nil {
			return nil, err
		}
	}
	if protocol.SASL() {
		if c.SASL, err = clientSASL(configs); err != nil {
			return nil, err
		}
		return c, nil
	}
	for _, name := range []string{ConfigMechanism, ConfigJAAS} {
		if configs[name] != "" {
			return nil, fmt.Errorf("config %s: says nothing to %s=%s", name, ConfigProtocol, protocol)
		}
	}
	return c, nil
}

func clientSASL(configs map[string]string) (sasl.Mechanism, error) {
	mechanism := configs[ConfigMechanism]
	if err := CheckMechanism(mechanism); err != nil {
		return nil, fmt.Errorf("config %s: %w", ConfigMechanism, err)
	}
	name, password, err := readJAAS(configs[ConfigJAAS])
	if err != nil {
		return nil, fmt.Errorf("config %s: %w", ConfigJAAS, err)
	}
	switch mechanism {
	case ScramSHA256:
		return scram.Auth{User: name, Pass: password}.AsSha256Mechanism(), nil
	case ScramSHA512:
		return scram.Auth{User: name, Pass: password}.AsSha512Mechanism(), nil
	}
	return plain.Auth{User: name, Pass: password}.AsMechanism(), nil
}

func clientTLS(configs map[string]string) (*tls.Config, error) {
	for _, name := range []string{ConfigTrustType, ConfigKeyType} {
		if t := configs[name]; t != "" && !strings.EqualFold(t, "PEM") {
			return nil, fmt.Errorf("config %s: %q is not PEM, the only one that is read", name, t)
		}
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	trust, err := pemOf(configs, ConfigTrust, ConfigTrustFile)
	if err != nil {
		return nil, err
	}
	if trust != nil { // or else what this machine trusts
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(trust) {
			return nil, fmt.Errorf("config %s or %s: no certificate in PEM", ConfigTrust, ConfigTrustFile)
		}
	}
	if c.Certificates, err = ownCertificate(configs); err != nil {
		return nil, err
	}
	switch algorithm, given := configs[ConfigVerifyAddress]; {
	case !given || strings.EqualFold(algorithm, "https"):
	case algorithm == "": // as in Kafka: any certificate that is trusted will do
		c.InsecureSkipVerify = true // the chain is verified below, only the name is not
		c.VerifyConnection = verifyChain(c.RootCAs)
	default:
		return nil, fmt.Errorf("config %s: %q is neither https nor empty", ConfigVerifyAddress, algorithm)
	}
	return c, nil
}

// verifyChain verifies a server's certificates but for the name that it was
// called by.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the server has shown no certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}

func ownCertificate(configs map[string]string) ([]tls.Certificate, error) {
	chain, key := []byte(configs[ConfigKeyChain]), []byte(configs[ConfigKey])
	if path := configs[ConfigKeyFile]; path != "" {
		if len(chain) > 0 || len(key) > 0 {
			return nil, fmt.Errorf("config %s: the keystore is given as PEM already", ConfigKeyFile)
		}
		both, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("config %s: %w", ConfigKeyFile, err)
		}
		chain, key = both, both
	}
	if len(chain) == 0 && len(key) == 0 {
		return nil, nil
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("config %s and %s, or %s: no certificate with its key in PEM", ConfigKeyChain, ConfigKey, ConfigKeyFile)
	}
	return []tls.Certificate{cert}, nil
}

// pemOf is a config's text, or that of the file which another one names.
func pemOf(configs map[string]string, text, file string) ([]byte, error) {
	switch path := configs[file]; {
	case path == "" && configs[text] == "":
		return nil, nil
	case path == "":
		return []byte(configs[text]), nil
	case configs[text] != "":
		return nil, fmt.Errorf("config %s: %s is given too", file, text)
	default:
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("config %s: %w", file, err)
		}
		return b, nil
	}
}

// logins are the classes that Kafka's configs name; nothing depends on which.
var logins = []string{
	"org.apache.kafka.common.security.plain.PlainLoginModule", "org.apache.kafka.common.security.scram.ScramLoginModule",
}

// readJAAS reads a login as Kafka writes it: CLASS required username="..."
// password="..."; other options are passed over.
func readJAAS(s string) (name, password string, err error) {
	if strings.TrimSpace(s) == "" {
		return "", "", errors.New("no value, though SASL needs a name and a password")
	}
	words, err := splitJAAS(s)
	if err != nil {
		return "", "", err
	}
	if len(words) < 2 || !slices.Contains(logins, words[0]) || words[1] != "required" {
		return "", "", fmt.Errorf("want %q or %q, then: required username=\"...\" password=\"...\";", logins[0], logins[1])
	}
	for _, w := range words[2:] {
		switch option, value, _ := strings.Cut(w, "="); option {
		case "username":
			name = value
		case "password":
			password = value
		}
	}
	if name == "" || password == "" {
		return "", "", errors.New("no username or no password")
	}
	return name, password, nil
}

// splitJAAS splits a login into words. A word ends at a space or at the semicolon
// that ends the login, but for what is quoted; there a backslash takes the next
// character as it is.
func splitJAAS(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, escaped, begun := false, false, false
	for i, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case quoted && r == '\\':
			escaped = true
		case r == '"':
			quoted, begun = !quoted, true
		case !quoted && (r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == ';'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
			if r == ';' {
				if strings.TrimSpace(s[i+1:]) != "" {
					return nil, errors.New("something follows the semicolon")
				}
				return words, nil
			}
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	return nil, errors.New("no semicolon at the end")
}
