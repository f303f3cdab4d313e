package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/authtest"
	"watershed.example/fixtures/child"
	"watershed.example/suite/bundle"
	"watershed.example/suite/contract"
)

// broker starts a reference broker that is a cluster, and returns where it serves.
func broker(t *testing.T, flags ...string) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	readyR, readyW, err := os.Pipe()
	require.NoError(t, err)
	lifeR, lifeW, err := os.Pipe()
	require.NoError(t, err)
	dir := t.TempDir()
	p, err := child.Start(child.Spec{
		Path: exe, Env: []string{"WATERSHED_BROKER_CHILD=1"}, Dir: dir, Log: filepath.Join(dir, "log"), ExtraFiles: []*os.File{readyW, lifeR},
		Args: append([]string{"serve", "--data-dir", filepath.Join(dir, "data"), "--node-id", "1", "--listen", "127.0.0.1:0", "--ready-fd", "3", "--lifeline-fd", "4"}, flags...),
	})
	_, _ = readyW.Close(), lifeR.Close()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Kill()
		_, _ = lifeW.Close(), readyR.Close()
	})
	for lines := bufio.NewScanner(readyR); lines.Scan(); {
		var says struct{ Listeners map[string]string }
		if json.Unmarshal(lines.Bytes(), &says) == nil && says.Listeners["client"] != "" {
			return says.Listeners["client"]
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	require.FailNow(t, "the broker does not serve", "%s", log)
	return ""
}

const saslPassword = "sesame-open-sesame"

// targetOf writes the file of two clusters, the first of which wants to know who we are.
func targetOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ca := authtest.NewAuthority(t)
	cert, key := ca.Certificate("east", "127.0.0.1")
	users, password := filepath.Join(dir, "users"), filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(users, []byte("certifier="+saslPassword+"\n"), 0o600))
	require.NoError(t, os.WriteFile(password, []byte(saslPassword), 0o600))
	east := broker(t, "--security", "client=SASL_SSL", "--tls-cert", cert, "--tls-key", key, "--sasl-users", users, "--sasl-mechanism", "SCRAM-SHA-512")
	west := broker(t)
	file := filepath.Join(dir, "target.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `version: 1
product: refbroker (a test)
prefix: ws-test-
level: L1
clusters:
  east:
    bootstrap: %s
    tls: {ca: %s}
    sasl: {mechanism: SCRAM-SHA-512, username: certifier, password-file: %s}
  west:
    bootstrap: %s
    nodes: {kill: 'exit 77', start: 'exit 77'}
mirroring:
  adapter: kip1279
  config: {mirror.metadata.refresh.interval.ms: "150"}
`, east, ca.CA, password, west), 0o600))
	return file
}

// unpacked opens the one bundle that certify has told of.
func unpackedBundle(t *testing.T, errs string) (file, dir string, m *bundle.Manifest) {
	t.Helper()
	told := regexp.MustCompile(`bundle (\S+\.tar\.gz), sha256 [0-9a-f]{64}`).FindStringSubmatch(errs)
	require.NotNil(t, told, errs)
	dir = t.TempDir()
	m, err := bundle.Open(told[1], dir)
	require.NoError(t, err)
	return told[1], dir, m
}

// TestTheBundleOfACertificateIsJudged as the certificate says: with requirements that the
// clusters can't show, and levels that are passed by what they can.
func TestTheBundleOfACertificateIsJudged(t *testing.T) {
	file, out := targetOf(t), t.TempDir()
	code, table, errs := called(t, "certify", "--target", file, "--seed", "7", "--out", out, "--level", "L1")
	require.Equal(t, exitHeld, code, "%s\n%s", table, errs)
	archive, dir, m := unpackedBundle(t, errs)
	code, again, errs := called(t, "judge", archive)
	require.Equal(t, exitHeld, code, "%s\n%s", again, errs)
	require.NotContains(t, again, "differs")
	require.NotContains(t, again, "not judged anew")

	run := filepath.Join(dir, bundle.RunDir)
	for name, schema := range map[string]string{resultFile: "result", "target.json": "certified", "../" + bundle.ManifestFile: "bundle"} {
		data, err := os.ReadFile(filepath.Join(run, name))
		require.NoError(t, err)
		require.NoError(t, valid(t, schema, data), name)
		require.NotContains(t, string(data), "sesame")
		require.NotContains(t, string(data), "exit 77", "a command may hold a secret")
	}
	require.Equal(t, map[string]string{
		"launcher": "external", "profile": "kip1279-v42", "level": "L1", "adapter": "kip1279", "seed": "7",
		"cluster.east.tls": "on", "cluster.east.sasl": "SCRAM-SHA-512", "cluster.west.tls": "off", "cluster.west.sasl": "off",
	}, without(m.Facts, "id", "brokers", "features", "requests"))
	for _, name := range []string{"east", "west"} {
		require.Regexp(t, `^[A-Za-z0-9_-]{22}$`, m.Facts["cluster."+name+".id"])
		require.Regexp(t, `^1 at 127\.0\.0\.1:\d+$`, m.Facts["cluster."+name+".brokers"])
		require.Regexp(t, `transaction\.version=\d+`, m.Facts["cluster."+name+".features"])
		require.Regexp(t, `^0 1 2 3 `, m.Facts["cluster."+name+".requests"])
	}
	for _, f := range forgeries() {
		t.Run(f.name, func(t *testing.T) { f.judged(t, run) })
	}
	chosen(t, file)
}

// without are facts without those that end with one of the words.
func without(facts map[string]string, ends ...string) map[string]string {
	all := map[string]string{}
	for k, v := range facts {
		if !slices.Contains(ends, k[strings.LastIndex(k, ".")+1:]) {
			all[k] = v
		}
	}
	return all
}

// chosen certifies one scenario: no level is out for, and nothing is told as not played.
func chosen(t *testing.T, file string) {
	t.Helper()
	code, table, errs := called(t, "certify", "--target", file, "--out", t.TempDir(), "single/no-fault/none")
	require.Equal(t, exitHeld, code, "%s\n%s", table, errs)
	archive, _, m := unpackedBundle(t, errs)
	require.Equal(t, "none: scenarios were chosen", m.Facts["level"])
	code, again, errs := called(t, "judge", archive)
	require.Equal(t, exitHeld, code, "%s\n%s", again, errs)
}

// notShown is a requirement of the first levels that the target can't show.
func notShown(t *testing.T, result map[string]any) map[string]any {
	t.Helper()
	for _, v := range scenario(t, result, "not played")["verdicts"].([]any) {
		v := v.(map[string]any)
		if r, ok := contract.Get(v["requirement"].(string)); ok && r.Level <= contract.L1 {
			return v
		}
	}
	require.FailNow(t, "all can be shown")
	return nil
}
