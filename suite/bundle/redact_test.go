package bundle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/secrets"
)

// redacted is what a file of that name goes in with.
func redacted(t tester, name, text string, known ...string) (string, int) {
	t.Helper()
	var out strings.Builder
	n, err := redact(&out, strings.NewReader(text), name, secrets.New(known))
	require.NoError(t, err)
	return out.String(), n
}

func TestRedact(t *testing.T) {
	const known = "known-secret"
	tests := []struct{ name, text, want string }{
		{"no secret", "all is well", "all is well"},
		{"one that is known", "with known-secret in it", "with [taken out] in it"},
		{"known, as a value", "password=known-secret", "password=[taken out]"},
		{"known, quoted", `{"password": "known-secret"}`, `{"password": "[taken out]"}`},
		{"known, within a value", `password="x-known-secret-y" z`, `password="[taken out]" z`},
		{"known, at the head of a value", "password=known-secret-y z", "password=[taken out] z"},
		{"JAAS with a known one and others", `sasl.jaas.config=M required password="known-secret" keyPassword="other-secret" user_bob="third-secret";` + "\nnext", "sasl.jaas.config=[taken out]\nnext"},
		{"JAAS in JSON", `{"sasl.jaas.config": "M required password=\"known-secret\" user_bob=\"third-secret\";", "a": 1}`, `{"sasl.jaas.config": "[taken out]", "a": 1}`},
		{"JAAS in quotes", `sasl.jaas.config="M required password="known-secret" user_bob="third-secret";"`, `sasl.jaas.config="[taken out]"`},
		{"a key with a known one", "-----BEGIN PRIVATE KEY-----\nknown-secret\nother-secret\n-----END PRIVATE KEY-----\n", "[taken out]\n"},
		{"a word far behind", strings.Repeat("x", 1<<20-3) + " password=abc", strings.Repeat("x", 1<<20-3) + " password=[taken out]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			names := []string{"x.txt"}
			if strings.HasPrefix(test.text, "{") {
				names = append(names, "x.json", "x.jsonl")
			}
			for _, name := range names {
				got, n := redacted(t, name, test.text, known)
				require.Equal(t, test.want, got, name)
				require.Equal(t, test.text != test.want, n > 0)
				require.True(t, name == "x.txt" || json.Valid([]byte(got)))
			}
		})
	}
}

// A document is one afterwards, and what stands behind a secret is still there.
func TestDocumentsStayDocuments(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"x.json":  {`{"note":"sasl.jaas.config=M password=\"x y\";","a":1}`, `{"note":"sasl.jaas.config=[taken out]","a":1}`},
		"x.jsonl": {`{"note":"sasl.jaas.config=M password=\"x y\";","a":1}`, `{"note":"sasl.jaas.config=[taken out]","a":1}`},
		"x.xml":   {`<a m="password=&#34;x y&#34; z">&amp;</a>`, `<a m="password=&#34;[taken out]&#34; z">&amp;</a>`},
	} {
		got, n := redacted(t, name, test.text)
		require.Equal(t, test.want, got)
		require.Equal(t, 1, n)
	}
}

// A password such as kafka would be taken out of every name.
func TestShortSecretsAreTakenOutWhereTheyAreNamed(t *testing.T) {
	known := []string{"", "1", "kafka", "longer"}
	require.Equal(t, []string{"1", "kafka"}, TooShort(known))
	got, n := redacted(t, "x.json", `{"version": 1, "launcher": "kafka", "password": "kafka"}`, known...)
	require.Equal(t, `{"version": 1, "launcher": "kafka", "password": "[taken out]"}`, got)
	require.Equal(t, 1, n)
	m, _ := opened(t, written(t, aRun(t, nil), Options{Secrets: known}))
	for _, f := range m.Files {
		require.Zero(t, f.Redacted, f.Path)
	}
	require.Len(t, m.LeftOut, 1)
}

// Verdicts do not rest on what a secret was taken out of.
func TestSecretsInEvidence(t *testing.T) {
	const secret = "hunter2-hunter2"
	for name, lacks := range map[string]bool{
		"s/logs/B/1/t3-0/" + logName: true, "s/history.jsonl": true, "s/broker/B-9.log": false, "s/run.json": false, "s/tls/server.key": false, "other/history.jsonl": false,
	} {
		m, _ := opened(t, written(t, aRun(t, map[string]string{name: `{"x": "` + secret + `"}`}), Options{Secrets: []string{secret}}))
		require.Equal(t, lacks, m.Lacks("run/s"), name)
	}
}

// Texts are read again when they are packed: a run may have many.
func TestTextsAreNotHeld(t *testing.T) {
	run := aRun(t, map[string]string{"s/story.txt": "password=hunter2"})
	p := &packer{root: run, o: Options{MaxFile: 10, Around: []Place{{Cluster: "B", Node: 1, Topic: "t2", Offset: 16}}}}
	require.NoError(t, p.gather())
	texts := 0
	for _, e := range p.entries {
		require.Nil(t, e.data, e.Path)
		if e.text {
			texts++
		}
	}
	require.Equal(t, 5, texts)
	for _, changed := range []struct{ name, was, text string }{
		{"story.txt", "password=hunter2", "password=hunter2, and more"},
		{"story.txt", "password=hunter2", "short"},
		{"broker/B-1.log", "started\n", "started\npassword=hunter2"}, // which had no secret
		{"broker/B-1.log", "started\n", "pass=xy\n"},
	} {
		at := filepath.Join(run, "s", filepath.FromSlash(changed.name))
		require.NoError(t, os.WriteFile(at, []byte(changed.text), 0o600))
		_, err := p.write(filepath.Join(t.TempDir(), "x.tar.gz"))
		require.ErrorContains(t, err, "run/s/"+changed.name+": was changed while it was packed")
		require.NoError(t, os.WriteFile(at, []byte(changed.was), 0o600))
	}
}
