package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const realSegments = "../../wirelog/testdata/kip1279-segments"

func TestSegmentFilesAreJudged(t *testing.T) {
	to := filepath.Join(t.TempDir(), "report.json")
	code, out, errs := called(t, "judge", "--files", "A="+realSegments+"/A", "B="+realSegments+"/B", "--json", to)
	require.Equal(t, exitInconclusive, code) // B's snapshots know mirrored producers
	require.Equal(t, "watershed: inconclusive\n", errs)
	require.Contains(t, out, "After that B was mirrored back here, its barrier included: a failback.")
	data, err := os.ReadFile(to)
	require.NoError(t, err)
	var report struct {
		Outcome string
		Sides   []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal(data, &report))
	require.Equal(t, "inconclusive", report.Outcome)
	require.Len(t, report.Sides, 2)

	code, out, _ = called(t, "judge", "--files", realSegments+"/B/t2-0", "--json=-")
	require.Zero(t, code)
	require.JSONEq(t, out, out)
}

func TestExitCodesOfSegmentFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "t-0")
	require.NoError(t, os.Mkdir(folder, 0o755))
	data, err := os.ReadFile(realSegments + "/B/t1-0/00000000000000000000.log")
	require.NoError(t, err)
	data[100] ^= 1 // in the first batch
	require.NoError(t, os.WriteFile(filepath.Join(folder, "00000000000000000000.log"), data, 0o644))
	code, out, errs := called(t, "judge", "--files", "B="+folder)
	require.Equal(t, exitViolated, code)
	require.Contains(t, out, "CERTAIN: damaged, t-0 on B, offsets 0 to 4")
	require.Equal(t, "watershed: violated\n", errs)

	nothing := t.TempDir()
	code, out, errs = called(t, "judge", "--files", "A="+realSegments+"/A", "B="+nothing)
	require.Equal(t, exitCould, code, "a mistake in a name is no all-clear")
	require.Empty(t, out)
	require.Contains(t, errs, "side B: "+nothing+" has no TOPIC-PARTITION folder with segments")

	for _, args := range [][]string{
		{"judge", "--files", "A=" + t.TempDir()},
		{"judge", "--files", "A=" + realSegments + "/A", "B=" + realSegments},
		{"judge", "--files", "A@=" + realSegments + "/A"},
		{"judge", "--files", "A=" + filepath.Join(folder, "none")},
		{"judge", "--files", "A=" + folder, "A=" + folder},
		{"judge", "--files", "A=" + folder, "B=" + folder},
		{"judge", "--files", "A="},
		{"judge", "--json=x", folder},
	} {
		code, out, errs := called(t, args...)
		require.Equal(t, exitCould, code, args)
		require.Empty(t, out)
		require.Equal(t, 1, bytes.Count([]byte(errs), []byte("\n")), errs)
	}
}

func TestTheBarSaysHowFarItIs(t *testing.T) {
	var out bytes.Buffer
	b := &bar{w: &out}
	b.draw(500_000_000, 1_000_000_000, 2*time.Second)
	require.Equal(t, "\r[###############...............]  50 % of 1 GB, 250 MB/s, 2s left", out.String())
	out.Reset()
	b.draw(0, 0, 0)
	require.Contains(t, out.String(), "100 % of 0 bytes")
	out.Reset()
	newBar(&out).show(1, 2)
	require.Empty(t, out.String(), "a file is no terminal")
}
