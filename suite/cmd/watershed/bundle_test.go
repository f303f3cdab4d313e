package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/bundle"
)

// ofARun judges the one archive that a run with a violation has written, and told of.
func ofARun(t *testing.T, archives, errs string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(archives, "watershed-refbroker-*.tar.gz"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Contains(t, errs, "bundle "+files[0]+", sha256 ")
	code, again, errs := called(t, "judge", files[0])
	require.Equal(t, exitViolated, code, errs)
	require.Contains(t, again, "SC-1 VIOLATED")
	require.NotContains(t, again, "differs")
	m, err := bundle.Open(files[0], t.TempDir())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"launcher": "process (asked for)", "profile": "kip1279-v42"}, m.Facts)
}

// bundled packs the evidence of a run with a violation, and judges the archive.
func bundled(t *testing.T, latest, table string) {
	t.Helper()
	out := t.TempDir()
	code, said, errs := called(t, "bundle", latest, "--product", "refbroker 1.0 (a test)", "--out", out, "--fact", "nodes=1")
	require.Zero(t, code, errs)
	file, _, _ := strings.Cut(said, "\n")
	require.Contains(t, filepath.Base(file), "watershed-refbroker-1.0-a-test-")
	code, again, _ := called(t, "judge", file)
	require.Equal(t, exitViolated, code)
	require.Contains(t, again, "files are as they were")
	require.NotContains(t, again, "differs")
	require.Contains(t, again, table[strings.Index(table, "SC-1 VIOLATED"):][:len("SC-1 VIOLATED")])

	// A verdict that somebody made better before packing it.
	dir := t.TempDir()
	m, err := bundle.Open(file, dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"nodes": "1"}, m.Facts)
	result := filepath.Join(dir, bundle.RunDir, resultFile)
	raw, err := os.ReadFile(result)
	require.NoError(t, err)
	require.NoError(t, valid(t, "result", raw))
	better := bytes.Replace(raw, []byte(`"outcome": "violated"`), []byte(`"outcome": "held"`), 1)
	require.NotEqual(t, raw, better)
	require.NoError(t, os.WriteFile(result, better, 0o600))
	forged, _, err := bundle.Write(filepath.Join(dir, bundle.RunDir), t.TempDir(), bundle.Options{Product: "x", Time: time.Now()})
	require.NoError(t, err)
	code, again, errs = called(t, "judge", forged)
	require.Equal(t, exitViolated, code)
	require.Contains(t, again, "is recorded as held, and is violated")
	require.Contains(t, errs, "the bundle says 1 things that are not so")

	// Levels for which the run was not out.
	raised := bytes.Replace(raw, []byte(`"scenarios": [`), []byte(`"levels": [{"level": "L0", "passed": true, "why": "all"}], "scenarios": [`), 1)
	require.NoError(t, valid(t, "result", raised))
	require.NoError(t, os.WriteFile(result, raised, 0o600))
	forged, _, err = bundle.Write(filepath.Join(dir, bundle.RunDir), t.TempDir(), bundle.Options{Product: "x", Time: time.Now()})
	require.NoError(t, err)
	code, again, _ = called(t, "judge", forged)
	require.Equal(t, exitViolated, code)
	require.Contains(t, again, "level L0 is recorded as passed, and is not passed: SC-1 violated in single/no-fault/none")

	// Raw logs that were left out can't be judged, and are no violation.
	code, said, errs = called(t, "bundle", latest, "--product", "x", "--out", t.TempDir(), "--max-log", "1")
	require.Zero(t, code, errs)
	file, _, _ = strings.Cut(said, "\n")
	code, again, errs = called(t, "judge", file)
	require.Equal(t, exitInconclusive, code, errs)
	require.Contains(t, again, "of its raw logs or histories something was left out")

	// Nor can one in which a secret stands.
	secrets := filepath.Join(t.TempDir(), "secrets.txt")
	require.NoError(t, os.WriteFile(secrets, []byte(printedIn(t, latest)+"\n"), 0o600))
	code, said, errs = called(t, "bundle", latest, "--product", "x", "--out", t.TempDir(), "--secrets", secrets)
	require.Zero(t, code, errs)
	file, _, _ = strings.Cut(said, "\n")
	code, again, errs = called(t, "judge", file)
	require.Equal(t, exitInconclusive, code, errs)
	require.Contains(t, again, "sha256 not told): a secret of the target stands in it")
}

// printedIn is a text of 6 characters or more in a raw log of the run.
func printedIn(t *testing.T, run string) (text string) {
	t.Helper()
	printed := regexp.MustCompile(`[a-zA-Z0-9_-]{6,}`)
	run, err := filepath.EvalSymlinks(run) // out/latest is one
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), "0000") || !strings.HasSuffix(path, ".log") || !strings.Contains(path, string(filepath.Separator)+"logs"+string(filepath.Separator)) {
			return err
		}
		data, err := os.ReadFile(path)
		if at := printed.Find(data); at != nil {
			text = string(at)
		}
		return err
	}))
	require.NotEmpty(t, text)
	return text
}

func TestShortSecretsAreRefused(t *testing.T) {
	secrets := filepath.Join(t.TempDir(), "secrets.txt")
	require.NoError(t, os.WriteFile(secrets, []byte("long enough\n\nkafka\n"), 0o600))
	code, _, errs := called(t, "bundle", t.TempDir(), "--product=x", "--secrets", secrets)
	require.Equal(t, exitCould, code)
	require.Contains(t, errs, "1 of its lines have fewer than 6 characters")
	require.NotContains(t, errs, "kafka")
}

func TestABundleThatIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.tar.gz")
	require.NoError(t, os.WriteFile(file, []byte("no archive"), 0o600))
	code, _, errs := called(t, "judge", file)
	require.Equal(t, exitCould, code)
	require.Contains(t, errs, "x.tar.gz: is no bundle")
	code, _, errs = called(t, "bundle", t.TempDir())
	require.Equal(t, exitCould, code)
	require.Contains(t, errs, "product")
	code, _, errs = called(t, "bundle", t.TempDir(), "--product=x")
	require.Equal(t, exitCould, code)
	require.Contains(t, errs, "holds no file")
}
