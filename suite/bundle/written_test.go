package bundle

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/fixtures/secrets"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/history"
	"watershed.example/suite/report"
)

// tester is a test, one of rapid's too.
type tester interface {
	require.TestingT
	Helper()
}

func inJSON(t tester, s string) string {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	return string(data)
}

func inXML(t tester, s string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, xml.EscapeText(&out, []byte(s)))
	return out.String()
}

// recorded is a history in which a cluster and a command said something, as the suite's
// own writer writes it.
func recorded(t tester, said string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := history.NewWriter(&out, "a run", 1<<63+1, func() time.Time { return noon })
	for _, e := range []history.Event{
		{Kind: history.KindNote, Note: said},
		{Kind: history.KindNote, Note: fmt.Sprintf("it said %q", said)},
		{Kind: history.KindMirrorState, Mirror: &history.Mirror{Cluster: "B", Mirror: "m", Topic: "t", State: "FAILED", Error: said, SourceOffset: 1<<62 + 1}},
		{Kind: history.KindMirrorRPC, Op: 1, MirrorRPC: &history.MirrorRPC{
			Cluster: "B", API: "CreateClusterMirror", Mirror: "m", Result: &history.Result{Outcome: history.Unknown, Message: "create: " + said},
		}},
	} {
		_, err := w.Append(e)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// TestWhatTheSuiteWritesHasNoSecret, by its own writers: a secret is looked for as they
// write it, and what they wrote can still be read.
func TestWhatTheSuiteWritesHasNoSecret(t *testing.T) {
	const secret = "s3&cr<t-\"pass\\\x01"
	said := `refused: password="` + secret + `" of ` + secret + ` and https://bob:hunter4topsecret@host/x`
	run := aRun(t, nil)
	at := func(name string) string { return filepath.Join(run, "s", name) }
	require.NoError(t, os.WriteFile(at("history.jsonl"), recorded(t, said), 0o600))
	plan := check.Run{
		Version: check.RunVersion, Profile: check.ProfileV42, Scenario: "s", Seed: 1<<63 + 1, Command: "watershed " + said, Launcher: "target",
		Clusters: []check.Cluster{{Name: "A", ID: "a"}},
	}
	require.NoError(t, plan.Save(at("run.json")))
	result := &report.Result{Scenarios: []report.Scenario{{Run: plan, Trouble: said, Verdicts: []check.Verdict{{Requirement: "BAR-1", Outcome: check.Inconclusive, Reason: said}}}}}
	for name, write := range map[string]func(*os.File) error{
		"result.json": func(f *os.File) error { return report.JSON(f, result) },
		"junit.xml":   func(f *os.File) error { return report.JUnit(f, result) },
	} {
		f, err := os.Create(filepath.Join(run, name))
		require.NoError(t, err)
		require.NoError(t, write(f))
		require.NoError(t, f.Close())
	}
	require.NoError(t, os.WriteFile(at("verdicts.txt"), []byte(fmt.Sprintf("%s\n%q\n%s\n%s\n", said, said, inJSON(t, fmt.Sprintf("%q", said)), url.QueryEscape(said))), 0o600))

	m, dir := opened(t, written(t, run, Options{Secrets: []string{secret}, Product: "p", Facts: map[string]string{"said": said, "api-key": "abc"}}))
	require.Equal(t, "[taken out]", m.Facts["api-key"])
	manifest, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	require.NoError(t, err)
	require.NotContains(t, string(manifest), "cr<t")
	for name, least := range map[string]int{"s/history.jsonl": 12, "s/run.json": 3, "result.json": 6, "junit.xml": 6, "s/verdicts.txt": 10} {
		data, err := os.ReadFile(filepath.Join(dir, RunDir, name))
		require.NoError(t, err)
		text := string(data)
		for _, hint := range []string{"s3", "pass\\", "hunter4"} { // however it is written
			require.NotContains(t, text, hint, name)
		}
		require.GreaterOrEqual(t, strings.Count(text, secrets.Taken), least, text)
		switch filepath.Ext(name) {
		case ".json":
			require.True(t, json.Valid(data), text)
		case ".jsonl":
			for line := range bytes.Lines(data) {
				require.True(t, json.Valid(line), "%s", line)
			}
		case ".xml":
			require.NoError(t, xml.Unmarshal(data, new(any)), text)
		}
	}
	// A history's numbers are what they were.
	header, events, err := history.ReadFile(filepath.Join(dir, RunDir, "s", "history.jsonl"))
	require.NoError(t, err)
	require.Equal(t, uint64(1<<63+1), header.Seed)
	require.Equal(t, int64(1<<62+1), events[2].Mirror.SourceOffset)
	raw, err := os.ReadFile(filepath.Join(dir, RunDir, "s", "run.json"))
	require.NoError(t, err)
	var saved check.Run
	require.NoError(t, json.Unmarshal(raw, &saved))
	require.Equal(t, plan.Seed, saved.Seed)
	require.True(t, m.Lacks("run/s"), "a history that was changed is not judged anew")
}

// Whatever the secret is, and whatever it stands in.
func TestNoSecretStaysInAHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Letters that no other text of a history has.
		secret := "ŠŽ" + rapid.StringMatching(`[&<>"'\\\t a-f;,@/+%-]{4,12}`).Draw(t, "secret") + "ŽŠ"
		around := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`password="`, `"token": `, `\"`, "sasl.jaas.config=", " -u a:", "https://a:", "@h", `{"a":"`, "\n"}))
		said := around.Draw(t, "before") + secret + around.Draw(t, "behind")
		if rapid.Bool().Draw(t, "quoted") {
			said = fmt.Sprintf("%q", said)
		}
		was := recorded(t, said)
		got, _ := redacted(t, "history.jsonl", string(was), secret)
		require.NotContains(t, got, "ŠŽ")
		require.NotContains(t, got, `\u0160\u017d`)
		require.Equal(t, bytes.Count(was, []byte("\n")), strings.Count(got, "\n"))
		for line := range strings.Lines(got) {
			require.True(t, json.Valid([]byte(line)), line)
		}
		require.Contains(t, got, fmt.Sprint(1<<62+1))
	})
}

// Lines are looked at in pieces, and a history may be torn.
func TestLongHistories(t *testing.T) {
	const secret = "hunter2-hunter2"
	line := `{"seq":9007199254740993,"value":"` + strings.Repeat("x", 1000) + `"}` + "\n"
	var text, want strings.Builder
	for i := range 3000 {
		text.WriteString(line)
		want.WriteString(line)
		if i == 1500 {
			text.WriteString(`{"long":"` + strings.Repeat("y", 2*piece) + secret + `"}` + "\n")
			want.WriteString(`{"long":"` + strings.Repeat("y", 2*piece) + secrets.Taken + `"}` + "\n")
		}
	}
	for torn, clean := range map[string]string{"": "", `{"a":"` + secret: `{"a":"` + secrets.Taken, `{"password":"hunt`: `{"password":"` + secrets.Taken} {
		got, n := redacted(t, "history.jsonl", text.String()+torn, secret)
		require.True(t, want.String()+clean == got)
		require.Positive(t, n)
	}
}

// What the suite itself says of its rules is no secret.
func TestRequirementsAreNotTakenForSecrets(t *testing.T) {
	for _, r := range contract.All() {
		text := fmt.Sprintf("%+v", r)
		got, n := redacted(t, "verdicts.txt", text)
		require.Equal(t, text, got)
		require.Zero(t, n)
	}
}
