package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunFolders(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	at := time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)
	var folders []string
	for i := range keepRuns + 2 {
		folder, err := NewRunFolder(out, 7, false, at.Add(time.Duration(i)*time.Second))
		require.NoError(t, err)
		folders = append(folders, folder)
		to, err := os.Readlink(filepath.Join(out, "latest"))
		require.NoError(t, err)
		require.Equal(t, filepath.Base(folder), to)
	}
	require.NoDirExists(t, folders[0])
	require.NoDirExists(t, folders[1])
	for _, f := range folders[2:] {
		require.DirExists(t, f)
	}
}

func TestRunFolderLeavesOtherThingsAlone(t *testing.T) {
	out := t.TempDir()
	mine := filepath.Join(out, "run-mine")
	require.NoError(t, os.Mkdir(mine, 0o755))
	for i := range keepRuns + 1 {
		_, err := NewRunFolder(out, 1, false, time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC))
		require.NoError(t, err)
	}
	require.DirExists(t, mine)
}
