package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRemoveSnapshots(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"00000000000000000005.snapshot", "00000000000000000009.snapshot", "00000000000000000009.log"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	left, err := removeSnapshots(dir, 6)
	require.NoError(t, err)
	require.Equal(t, 1, left)
	require.FileExists(t, filepath.Join(dir, "00000000000000000005.snapshot"))
	require.NoFileExists(t, filepath.Join(dir, "00000000000000000009.snapshot"))
	require.FileExists(t, filepath.Join(dir, "00000000000000000009.log"))
	left, err = removeSnapshots(dir, 0)
	require.NoError(t, err)
	require.Zero(t, left)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "new.snapshot"), nil, 0o644))
	_, err = removeSnapshots(dir, 0)
	require.ErrorContains(t, err, "new.snapshot")
}

func TestTearTailTearsTheNewestSegment(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, tearTail(dir), "no segment")
	old, newest := filepath.Join(dir, "00000000000000000000.log"), filepath.Join(dir, "00000000000000000007.log")
	require.NoError(t, os.WriteFile(old, make([]byte, 200), 0o644))
	require.NoError(t, os.WriteFile(newest, make([]byte, 100), 0o644))
	require.NoError(t, tearTail(dir))
	for path, size := range map[string]int64{old: 200, newest: 170} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, size, st.Size(), path)
	}
}
