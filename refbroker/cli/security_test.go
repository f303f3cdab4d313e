package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/authtest"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A broker with TLS and SASL is served and mirrored by the commands alone, and no
// password is on a command line or in what they print.
func TestCommandsWithTLSAndSASL(t *testing.T) {
	ca := authtest.NewAuthority(t)
	cert, key := ca.Certificate("broker", "127.0.0.1")
	users := write(t, "users", "alice=her secret\n")
	a := serveHere(
		t, "--data-dir", t.TempDir(), "--security", "client=SASL_SSL", "--tls-cert", cert, "--tls-key", key,
		"--sasl-users", users, "--sasl-mechanism", "SCRAM-SHA-256",
	)
	b := serveHere(t, "--data-dir", t.TempDir())
	login := `org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="her secret";`
	known := write(t, "client.properties", strings.Join([]string{
		"security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-256", "sasl.jaas.config=" + login, "ssl.truststore.location=" + ca.CA,
	}, "\n"))
	at := func(r *running) string { return r.Listeners["client"] }

	code, _, stderr := run(t.Context(), "topics", "create", "t", "--bootstrap-server", at(a), "--command-config", known)
	require.Zero(t, code, stderr)
	code, _, stderr = run(t.Context(), "topics", "list", "--bootstrap-server", at(a), "--timeout", "2s")
	require.Equal(t, ExitFailed, code, "a client that says nothing")
	require.NotContains(t, stderr, "her secret")
	code, _, stderr = run(t.Context(), "mirrors", "create", "m", "--bootstrap-server", at(b), "--source", at(a), "--config-file", known)
	require.Zero(t, code, stderr)
	code, _, stderr = run(t.Context(), "mirrors", "start", "m", "t", "--wait", "--bootstrap-server", at(b))
	require.Zero(t, code, stderr)
	code, stdout, stderr := run(t.Context(), "mirrors", "configs", "m", "--bootstrap-server", at(b))
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "her secret")
	code, stdout, stderr = run(t.Context(), "mirrors", "describe", "m", "-o", "json", "--bootstrap-server", at(b))
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "her secret")
	for _, r := range []*running{a, b} {
		r.stop()
		require.Zero(t, <-r.ended, r.errs.String())
		require.NotContains(t, r.errs.String(), "her secret")
	}
}

func TestSecurityThatSecuresNothingIsRefused(t *testing.T) {
	ca := authtest.NewAuthority(t)
	cert, key := ca.Certificate("broker", "127.0.0.1")
	users, empty, bad := write(t, "users", "a=b"), write(t, "empty", "# nobody\n"), write(t, "bad", "a=b\nhunter2\n")
	typo := write(t, "typo.properties", "security.protokol=SSL")
	for _, c := range []struct {
		args string
		want string
	}{
		{"serve --security client", `--security "client": want LISTENER=PROTOCOL`},
		{"serve --security other=SSL", `--security "other=SSL": there is no listener "other"`},
		{"serve --security client=TLS", `--security "client=TLS": security protocol "TLS": want PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL`},
		{"serve --security client=SSL --security client=SSL", "was given before"},
		{"serve --security client=SSL", "--tls-cert is missing: a listener asks for SSL or SASL_SSL"},
		{"serve --security client=SSL --tls-cert " + cert, "--tls-key is missing"},
		{"serve --security client=SSL --tls-cert " + cert + " --tls-key " + users, "TLS certificate " + cert},
		{"serve --security client=SSL --tls-cert " + cert + " --tls-key " + key + " --tls-client-ca " + users, "has no certificate in PEM"},
		{"serve --tls-cert " + cert, "no listener asks for SSL or SASL_SSL by --security"},
		{"serve --sasl-users " + users, "no listener asks for SASL_PLAINTEXT or SASL_SSL by --security"},
		{"serve --security client=SASL_PLAINTEXT", "--sasl-users is missing"},
		{"serve --security client=SASL_PLAINTEXT --sasl-users /nowhere", "--sasl-users: open /nowhere"},
		{"serve --security client=SASL_PLAINTEXT --sasl-users " + empty, "no users"},
		{"serve --security client=SASL_PLAINTEXT --sasl-users " + bad, "line 2: want NAME=PASSWORD"},
		{"serve --security client=SASL_PLAINTEXT --sasl-mechanism GSSAPI --sasl-users " + users, `SASL mechanism "GSSAPI": want PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`},
		{"topics list --command-config /nowhere", "--command-config: open /nowhere"},
		{"topics list --command-config " + typo, `"security.protokol" is not known`},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			if args[0] == "serve" {
				args = append(args, "--data-dir", t.TempDir())
			}
			code, _, stderr := run(t.Context(), args...)
			require.NotZero(t, code)
			require.Contains(t, stderr, c.want)
			require.NotContains(t, stderr, "hunter2")
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
}
