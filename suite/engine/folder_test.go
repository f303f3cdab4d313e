package engine

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunFolders(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	at := time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)
	var folders []string
	for i := range keepRuns + 2 {
		folder, leave, err := NewRunFolder(out, 7, false, at.Add(time.Duration(i)*time.Second))
		require.NoError(t, err)
		leave()
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

// Brokers are told paths within it, and work in folders of their own.
func TestARunFolderHasAnAbsolutePath(t *testing.T) {
	t.Chdir(t.TempDir())
	folder, leave, err := NewRunFolder("out", 7, false, time.Now())
	require.NoError(t, err)
	defer leave()
	require.True(t, filepath.IsAbs(folder), folder)
	require.DirExists(t, "out/latest/")
}

func TestRunFolderLeavesOtherThingsAlone(t *testing.T) {
	out := t.TempDir()
	mine := filepath.Join(out, "run-mine")
	require.NoError(t, os.Mkdir(mine, 0o755))
	for i := range keepRuns + 1 {
		_, leave, err := NewRunFolder(out, 1, false, time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC))
		require.NoError(t, err)
		leave()
	}
	require.DirExists(t, mine)
}

// A soak of an hour outlives many runs beside it.
func TestTheFolderOfARunThatGoesOnStays(t *testing.T) {
	out := t.TempDir()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	soak, left, err := NewRunFolder(out, 1, false, at)
	require.NoError(t, err)
	file := filepath.Join(soak, "history.jsonl")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	next := func(i int) {
		_, leave, err := NewRunFolder(out, 1, false, at.Add(time.Duration(i)*time.Second))
		require.NoError(t, err)
		leave()
	}
	for i := range keepRuns + 1 {
		next(i + 1)
		require.FileExists(t, file)
	}
	left()
	next(keepRuns + 2)
	require.NoDirExists(t, soak)
}

// TestRunFoldersWithoutLocks are made all the same, and none is removed: whose run goes
// on can't be told.
func TestRunFoldersWithoutLocks(t *testing.T) {
	for _, none := range []error{syscall.ENOLCK, syscall.ENOTSUP, syscall.ENOSYS} {
		flock = func(int, int) error { return none }
		t.Cleanup(func() { flock = syscall.Flock })
		out := t.TempDir()
		for i := range keepRuns + 2 {
			_, leave, err := NewRunFolder(out, 1, false, time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC))
			require.NoError(t, err, none)
			leave()
		}
		runs, err := filepath.Glob(filepath.Join(out, "run-*"))
		require.NoError(t, err)
		require.Len(t, runs, keepRuns+2)
	}
	flock = func(int, int) error { return syscall.EIO }
	_, _, err := NewRunFolder(t.TempDir(), 1, false, time.Now())
	require.ErrorIs(t, err, syscall.EIO)
}

// A run that could not begin hides none that did.
func TestAnEmptyRunFolderIsDropped(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var folders []string
	for i := range 3 {
		folder, leave, err := NewRunFolder(out, 7, true, at.Add(time.Duration(i)*time.Second))
		require.NoError(t, err)
		defer leave()
		folders = append(folders, folder)
	}
	newest := func() string {
		to, err := os.Readlink(filepath.Join(out, latest))
		require.NoError(t, err)
		return to
	}
	require.NoError(t, DropRunFolder(folders[1]))
	require.NoDirExists(t, folders[1])
	require.Equal(t, filepath.Base(folders[2]), newest(), "it was not that one's")
	require.NoError(t, DropRunFolder(folders[2]))
	require.Equal(t, filepath.Base(folders[0]), newest())
	require.NoError(t, os.WriteFile(filepath.Join(folders[0], "result.json"), nil, 0o600))
	require.NoError(t, DropRunFolder(folders[0]))
	require.DirExists(t, folders[0], "something came to be in it")
	require.NoError(t, os.Remove(filepath.Join(folders[0], "result.json")))
	require.NoError(t, DropRunFolder(folders[0]))
	_, err := os.Lstat(filepath.Join(out, latest))
	require.ErrorIs(t, err, os.ErrNotExist)
}
