package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

func TestRemoveSnapshots(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"00000000000000000005.snapshot", "00000000000000000009.snapshot", "00000000000000000009.log"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	removed, left, err := removeSnapshots(dir, 6)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	require.Equal(t, 1, left)
	require.FileExists(t, filepath.Join(dir, "00000000000000000005.snapshot"))
	require.NoFileExists(t, filepath.Join(dir, "00000000000000000009.snapshot"))
	require.FileExists(t, filepath.Join(dir, "00000000000000000009.log"))
	removed, left, err = removeSnapshots(dir, 0)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	require.Zero(t, left)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "new.snapshot"), nil, 0o644))
	_, _, err = removeSnapshots(dir, 0)
	require.ErrorContains(t, err, "new.snapshot")
}

func TestTearTailTearsTheNewestSegment(t *testing.T) {
	dir := t.TempDir()
	_, err := tearTail(dir)
	require.ErrorContains(t, err, "no segment")
	old, newest := filepath.Join(dir, "00000000000000000000.log"), filepath.Join(dir, "00000000000000000007.log")
	require.NoError(t, os.WriteFile(old, make([]byte, 200), 0o644))
	require.NoError(t, os.WriteFile(newest, make([]byte, 100), 0o644))
	torn, err := tearTail(dir)
	require.NoError(t, err)
	require.Equal(t, 1, torn)
	for path, size := range map[string]int64{old: 200, newest: 170} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, size, st.Size(), path)
	}
}

// A restart that finds nothing to damage is a plain kill, and proves no more.
func TestDamageCountsWhatItDid(t *testing.T) {
	p := traffic.Partition{Topic: "t"}
	e := &episode{layout: layout{All: []traffic.Partition{p}}, stopped: map[traffic.Partition]history.Mirror{p: {LastMirrored: 6}}}
	for _, tc := range []struct {
		how   Restart
		files map[string]int
		want  int
	}{
		{LostSnapshots, map[string]int{"00000000000000000000.log": 200}, 0},
		{LostSnapshots, map[string]int{"00000000000000000005.snapshot": 1, "00000000000000000009.snapshot": 1}, 2},
		{TornTail, map[string]int{"00000000000000000000.log": 79}, 0},
		{TornTail, map[string]int{"00000000000000000000.log": 80}, 1},
		{OldSnapshot, map[string]int{"00000000000000000009.snapshot": 1}, 0},
		{OldSnapshot, map[string]int{"00000000000000000005.snapshot": 1, "00000000000000000009.snapshot": 1}, 1},
	} {
		logs := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(logs, p.String()), 0o755))
		for name, size := range tc.files {
			require.NoError(t, os.WriteFile(filepath.Join(logs, p.String(), name), make([]byte, size), 0o644))
		}
		got, err := e.damage(logs, tc.how)
		require.NoError(t, err)
		require.Equal(t, tc.want, got, "%s of %v", tc.how, tc.files)
	}
}
