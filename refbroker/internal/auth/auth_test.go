package auth_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/fixtures/authtest"
	"watershed.example/refbroker/internal/auth"
)

func users(t testing.TB, text string) *auth.Users {
	t.Helper()
	u, err := auth.ReadUsers(strings.NewReader(text))
	require.NoError(t, err)
	return u
}

func jaas(name, password string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	return `org.apache.kafka.common.security.plain.PlainLoginModule required serviceName="kafka" username="` +
		quote.Replace(name) + `" password="` + quote.Replace(password) + `";`
}

// converse has a client say who it is to a server, and returns whom that takes it
// for.
func converse(t require.TestingT, server *auth.Server, mechanism, name, password string) (string, error) {
	c, err := auth.ReadClient(map[string]string{
		auth.ConfigProtocol: "SASL_PLAINTEXT", auth.ConfigMechanism: mechanism, auth.ConfigJAAS: jaas(name, password),
	})
	require.NoError(t, err)
	s := server.Session()
	require.NoError(t, s.Choose(c.SASL.Name()))
	session, say, err := c.SASL.Authenticate(context.Background(), "h:1")
	require.NoError(t, err)
	for done := false; !done; {
		answer, err := s.Step(say)
		if err != nil {
			require.True(t, s.Refused())
			require.Empty(t, s.Principal())
			return "", err
		}
		if done, say, err = session.Challenge(answer); err != nil {
			return "", err
		}
	}
	return s.Principal(), nil
}

func TestWhoKnowsThePasswordIsKnown(t *testing.T) {
	server, err := auth.NewServer(users(t, "alice=s3 cret=\"x\\\nbob=other"))
	require.NoError(t, err)
	for _, mechanism := range auth.Mechanisms() {
		who, err := converse(t, server, mechanism, "alice", `s3 cret="x\`)
		require.NoError(t, err, mechanism)
		require.Equal(t, "alice", who)
		for name, password := range map[string]string{"alice": "other", "bob": `s3 cret="x\`, "nobody": "other"} {
			_, err := converse(t, server, mechanism, name, password)
			require.ErrorIs(t, err, auth.ErrRefused, "%s as %s", mechanism, name)
			require.Equal(t, auth.ErrRefused.Error(), err.Error(), "no reason")
		}
	}
}

// Whatever the name and the password: who has both is known by every mechanism, and
// who has another password by none.
func TestAnyPassword(t *testing.T) {
	word := rapid.StringMatching(`[a-zA-Z0-9\\"'=,; .#-]{1,12}`).Filter(func(s string) bool { return strings.TrimSpace(s) == s })
	for i := range 15 { // each derives keys, which is slow on purpose
		name := rapid.StringMatching(`[a-z,]{1,8}`).Example(i)
		password, wrong := word.Example(i), word.Example(i+100)
		mechanism := auth.Mechanisms()[i%3]
		server, err := auth.NewServer(users(t, name+"="+password), mechanism)
		require.NoError(t, err)
		who, err := converse(t, server, mechanism, name, password)
		require.NoError(t, err, "%s %q %q", mechanism, name, password)
		require.Equal(t, name, who)
		if wrong != password {
			_, err := converse(t, server, mechanism, name, wrong)
			require.ErrorIs(t, err, auth.ErrRefused, "%s %q %q", mechanism, name, wrong)
		}
	}
}

func TestNobodyActsForSomebodyElse(t *testing.T) {
	server, err := auth.NewServer(users(t, "alice=a\nbob=b"))
	require.NoError(t, err)
	for said, who := range map[string]string{
		"\x00alice\x00a": "alice", "alice\x00alice\x00a": "alice", "bob\x00alice\x00a": "", "\x00\x00a": "", "alice\x00a": "", "": "", "\x00alice\x00a\x00": "",
	} {
		s := server.Session()
		require.NoError(t, s.Choose(auth.Plain))
		_, err := s.Step([]byte(said))
		require.Equal(t, who, s.Principal(), "%q", said)
		require.Equal(t, who == "", err != nil, "%q", said)
	}
}

func TestBadConfigsAreNamedAndSecretsAreNot(t *testing.T) {
	ca := authtest.NewAuthority(t)
	_, key := ca.Certificate("client")
	const secret = "hunter2"
	sasl := func(more map[string]string) map[string]string {
		all := map[string]string{auth.ConfigProtocol: "SASL_PLAINTEXT", auth.ConfigMechanism: auth.Plain, auth.ConfigJAAS: jaas("a", secret)}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	ssl := func(name, value string) map[string]string {
		return map[string]string{auth.ConfigProtocol: "SSL", name: value}
	}
	for _, c := range []struct {
		configs map[string]string
		want    string
	}{
		{map[string]string{auth.ConfigProtocol: "TLS"}, `config security.protocol: security protocol "TLS"`},
		{map[string]string{auth.ConfigJAAS: jaas("a", secret)}, "config sasl.jaas.config: says nothing to security.protocol=PLAINTEXT"},
		{sasl(map[string]string{auth.ConfigMechanism: "GSSAPI"}), `config sasl.mechanism: SASL mechanism "GSSAPI"`},
		{sasl(map[string]string{auth.ConfigJAAS: ""}), "config sasl.jaas.config: no value"},
		{sasl(map[string]string{auth.ConfigJAAS: secret}), "config sasl.jaas.config: no semicolon at the end"},
		{sasl(map[string]string{auth.ConfigJAAS: secret + ";"}), "config sasl.jaas.config: want"},
		{sasl(map[string]string{auth.ConfigJAAS: jaas("a", secret) + "x"}), "something follows the semicolon"},
		{sasl(map[string]string{auth.ConfigJAAS: jaas("a", "")}), "no username or no password"},
		{sasl(map[string]string{auth.ConfigJAAS: `x "` + secret}), "a quote is not closed"},
		{ssl(auth.ConfigTrustType, "JKS"), `config ssl.truststore.type: "JKS" is not PEM`},
		{ssl(auth.ConfigTrust, secret), "no certificate in PEM"},
		{ssl(auth.ConfigTrustFile, "/nowhere"), "config ssl.truststore.location: open /nowhere"},
		{ssl(auth.ConfigKey, secret), "no certificate with its key in PEM"},
		{ssl(auth.ConfigKeyFile, key), "no certificate with its key in PEM"},
		{ssl(auth.ConfigVerifyAddress, "dns"), `config ssl.endpoint.identification.algorithm: "dns" is neither https nor empty`},
	} {
		_, err := auth.ReadClient(c.configs)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), secret)
	}
	require.True(t, auth.Secret(auth.ConfigJAAS))
}

// FuzzSteps: whatever a stranger says, it is refused, or has said a password.
func FuzzSteps(f *testing.F) {
	f.Add(uint8(0), []byte("\x00alice\x00x"), []byte(nil))
	f.Add(uint8(1), []byte("n,,n=alice,r=abc"), []byte("c=biws,r=abc,p=AAAA"))
	f.Add(uint8(2), []byte("y,a=bob,n=alice,r=abc"), []byte("c=biws"))
	server, err := auth.NewServer(users(f, "alice=correct horse battery staple"))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte) {
		s := server.Session()
		require.NoError(t, s.Choose(auth.Mechanisms()[int(which)%3]))
		for _, said := range [][]byte{first, second} {
			if _, err := s.Step(said); err != nil {
				break
			}
		}
		if s.Principal() != "" {
			require.Contains(t, string(first), "correct horse battery staple")
		}
	})
}

// FuzzLogin: whatever sasl.jaas.config says, it is read or refused.
func FuzzLogin(f *testing.F) {
	f.Add(jaas("a", `b"\;`))
	f.Add(`x required username="a`)
	f.Fuzz(func(t *testing.T, login string) {
		c, err := auth.ReadClient(map[string]string{auth.ConfigProtocol: "SASL_PLAINTEXT", auth.ConfigMechanism: auth.Plain, auth.ConfigJAAS: login})
		require.Equal(t, err == nil, c != nil)
	})
}
