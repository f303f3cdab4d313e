package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures"
)

func TestMain(m *testing.M) {
	fixtures.MaybeBroker() // this binary is also the broker that it starts
	if os.Getenv(mainVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// called runs the command and returns its exit code and what it wrote.
func called(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, &o, &e)
	return code, o.String(), e.String()
}

func TestWhatIsWrongIsSaidInOneLine(t *testing.T) {
	empty := t.TempDir()
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no such command", []string{"mirror"}, `unknown command "mirror"`},
		{"no such requirement", []string{"explain", "BAR-99"}, `explain "BAR-99": no such requirement`},
		{"nothing to explain", []string{"explain"}, "explain: which requirement? Give an id such as BAR-1, or a family: "},
		{"nothing to judge", []string{"judge"}, "judge: what? Give a folder of evidence"},
		{"no such list", []string{"list", "ships"}, `list "ships": want one of scenarios, requirements, defects, topologies`},
		{"two lists", []string{"list", "defects", "scenarios"}, `list "defects scenarios": want one of`},
		{"a file that is no evidence", []string{"judge", "main.go"}, "judge main.go: a file, and no bundle"},
		{"two bundles", []string{"judge", "a.tar.gz", "b.tar.gz"}, "judge a.tar.gz: a bundle is judged by itself"},
		{"no evidence", []string{"judge", empty}, "no folder at or below " + empty + " has a run.json"},
		{"no such folder", []string{"judge", filepath.Join(empty, "none")}, "none: no such file"},
		{"no such scenario", []string{"run", "ship/*"}, `pattern "ship/*" matches no scenario`},
		{"a bad pattern", []string{"run", "[x"}, `pattern "[x": syntax error`},
		{"a bad seed", []string{"run", "--seed=x"}, `-seed "x": want a whole number`},
		{"a soak", []string{"run", "--duration=1h"}, "a soak is run by go test"},
		{"no such file of accepted violations", []string{"run", "--launcher=process", "--known=none.yaml", "single"}, "none.yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := called(t, test.args...)
			require.Equal(t, exitCould, code)
			require.Empty(t, out)
			require.Contains(t, errs, test.want)
			require.Equal(t, 1, bytes.Count([]byte(errs), []byte("\n")), errs)
		})
	}
}

func TestWhatIsKnown(t *testing.T) {
	for _, args := range [][]string{
		{"explain", "bar-1", "SC-1"}, {"list"}, {"list", "requirements"}, {"list", "defects"}, {"list", "topologies"}, {"doctor"}, {"version"}, {"--help"},
	} {
		code, out, errs := called(t, args...)
		require.Zero(t, code, args)
		require.NotEmpty(t, out, args)
		require.Empty(t, errs, args)
	}
	_, out, _ := called(t, "doctor")
	require.Regexp(t, `(?m)^java  .*\n^Apache Kafka's jars  .*\n^images  `, out)
	_, out, _ = called(t, "explain", "bar")
	require.Contains(t, out, "BAR-1   L")
	require.Contains(t, out, "BAR-2   L")
	require.NotContains(t, out, "RO-1")
	_, out, _ = called(t, "explain", "bar-1")
	require.Contains(t, out, "Exactly one own barrier per partition per stop")
	require.Contains(t, out, "active-passive/no-fault/none")
	require.Contains(t, out, "two-barriers")
}

// A flag's value has a name that says what to give, and a switch has none.
func TestHelpNamesWhatFlagsTake(t *testing.T) {
	for _, c := range []string{"run", "certify", "judge", "bundle", "doctor"} {
		code, out, _ := called(t, c, "--help")
		require.Zero(t, code, c)
		require.NotRegexp(t, `--[\w-]+ (setting|value|string|stringArray|uint|int)\b`, out)
		require.NotContains(t, out, "[=true]")
	}
}

func TestAScenarioIsPlayedAndItsEvidenceJudgedAgain(t *testing.T) {
	out := t.TempDir()
	play := func(more ...string) (int, string, string) {
		return called(t, append([]string{"run", "single/no-fault/none", "--launcher=process", "--seed=7", "--out", out}, more...)...)
	}
	latest := filepath.Join(out, "latest")

	code, table, errs := play()
	require.Equal(t, exitHeld, code, "%s\n%s", table, errs)
	require.Contains(t, errs, "seed 7, launcher process")
	code, again, errs := called(t, "judge", latest)
	require.Equal(t, exitHeld, code, errs)
	require.Equal(t, table, again, "the saved evidence says the same")

	archives := filepath.Join(t.TempDir(), "made")
	code, table, errs = play("--defect=window-of-one", "--bundle", archives)
	require.Equal(t, exitViolated, code, "a bundle changes nothing: %s", errs)
	ofARun(t, archives, errs)
	require.Contains(t, table, "SC-1 VIOLATED")
	require.Contains(t, table, "go run ./suite/cmd/watershed run 'single/no-fault/none' --seed=7 --launcher=process --defect=window-of-one")
	code, again, _ = called(t, "judge", latest)
	require.Equal(t, exitViolated, code)
	require.Equal(t, table, again)
	bundled(t, latest, table)

	code, table, errs = play("--defect=window-of-one", "--known", accepting(t, "SC-1"))
	require.Equal(t, exitHeld, code, "%s\n%s", table, errs)
	require.Contains(t, table, "accepted")

	// A requirement that the run claims to exercise and does not.
	claim(t, latest, "SC-7")
	code, _, errs = called(t, "judge", latest)
	require.Equal(t, exitViolated, code, "nobody accepts it any more: %s", errs)
	_, _, _ = play()
	claim(t, latest, "SC-7")
	code, _, errs = called(t, "judge", latest)
	require.Equal(t, exitInconclusive, code, errs)

	require.NoError(t, os.WriteFile(runFile(t, latest), []byte("{"), 0o600))
	code, _, errs = called(t, "judge", latest)
	require.Equal(t, exitCould, code)
	require.Contains(t, errs, "run.json")
}

// TestARunFromAnywhere writes below the working folder unless it is told otherwise, and
// says which level it is short of.
func TestARunFromAnywhere(t *testing.T) {
	t.Chdir(t.TempDir())
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"without a level", nil, exitHeld, ""},
		{"a level that is more", []string{"--level=L0"}, exitInconclusive, "level not passed: L0: not selected: scenario "},
		{"a violation is no lack", []string{"--level=L0", "--defect=window-of-one"}, exitViolated, "violated"},
		{"an accepted violation", []string{"--level=L0", "--defect=window-of-one", "--known", accepting(t, "SC-1")}, exitInconclusive, "level not passed: L0: SC-1 violated in single/no-fault/none"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, table, errs := called(t, append([]string{"run", "single/no-fault/none", "--launcher=process", "--seed=7"}, test.args...)...)
			require.Equal(t, test.code, code, "%s\n%s", table, errs)
			require.Contains(t, errs, test.says)
			require.FileExists(t, filepath.Join("out", "latest", resultFile))
		})
	}
}

func accepting(t *testing.T, id string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "known.yaml")
	require.NoError(t, os.WriteFile(file, []byte("- {requirement: "+id+", reason: a test, until: 9999-12-31}\n"), 0o600))
	return file
}

func runFile(t *testing.T, latest string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(latest, "single", "no-fault", "none", "run.json"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// claim adds a requirement to those that a saved run says it exercised.
func claim(t *testing.T, latest, id string) {
	t.Helper()
	raw, err := os.ReadFile(runFile(t, latest))
	require.NoError(t, err)
	var run map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&run))
	ids, ok := run["exercises"].([]any)
	require.True(t, ok, "exercises in %s", raw)
	run["exercises"] = append(ids, id)
	raw, err = json.Marshal(run)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(runFile(t, latest), raw, 0o600))
}

// TestAnInterruptEndsARunThatLooksForAnImage also where Docker takes its time.
func TestAnInterruptEndsARunThatLooksForAnImage(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = mute.Close() }()
	t.Setenv("DOCKER_HOST", "tcp://"+mute.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var o, e bytes.Buffer
	require.Equal(t, exitCould, run(ctx, []string{"run", "--broker=kafka", "--image=somebody/kafka", "--out", t.TempDir()}, &o, &e))
	require.Contains(t, e.String(), "image somebody/kafka: not known whether it is there: context canceled")
}

func TestAnInterruptedRunSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var o, e bytes.Buffer
	taken := filepath.Join(t.TempDir(), "taken")
	require.NoError(t, os.WriteFile(taken, nil, 0o600))
	code := run(ctx, []string{"run", "single", "--launcher=process", "--out", t.TempDir(), "--bundle", taken}, &o, &e)
	require.Equal(t, exitCould, code)
	require.Contains(t, e.String(), "stopped early")
	require.Contains(t, e.String(), "no bundle: --bundle: ", "though the run ends with something else")
}
