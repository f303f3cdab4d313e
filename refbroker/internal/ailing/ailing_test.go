package ailing

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/host"
)

func sick(fs afero.Fs) (*Machine, host.Host) {
	m := New()
	return m, m.Host(host.Host{FS: fs, Now: time.Now, RaftStores: func(string) (host.RaftStores, error) {
		s := raft.NewInmemStore()
		return host.RaftStores{Log: s, Stable: s, Close: io.NopCloser(nil)}, nil
	}})
}

func TestAFullDiskRefusesWhatTakesSpace(t *testing.T) {
	dir := t.TempDir()
	m, h := sick(afero.NewOsFs())
	name := filepath.Join(dir, "log")
	f, err := h.FS.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Write([]byte("before"))
	require.NoError(t, err)
	stores, err := h.RaftStores(dir)
	require.NoError(t, err)
	require.NoError(t, stores.Log.StoreLog(&raft.Log{Index: 1}))

	m.Suffer(Ailments{DiskFull: true})
	for what, err := range map[string]error{
		"write":      second(f.Write([]byte("12345678"))),
		"string":     second(f.WriteString("1234")),
		"new file":   second(h.FS.OpenFile(name+"2", os.O_CREATE|os.O_WRONLY, 0o644)),
		"create":     second(h.FS.Create(name + "3")),
		"folder":     h.FS.Mkdir(name+"4", 0o755),
		"folders":    h.FS.MkdirAll(name+"5", 0o755),
		"quorum log": stores.Log.StoreLog(&raft.Log{Index: 2}),
	} {
		require.ErrorIs(t, err, syscall.ENOSPC, what)
	}
	require.EqualValues(t, 7, m.Suffered().WritesRefused)
	require.NoError(t, h.FS.MkdirAll(dir, 0o755), "it is there")
	again, err := h.FS.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	require.NoError(t, err, "it is there")
	require.NoError(t, again.Close())
	content, err := afero.ReadFile(h.FS, name)
	require.NoError(t, err)
	require.Contains(t, []string{"before123412", "before121234"}, string(content), "half of each write got there")
	require.NoError(t, f.Truncate(6))
	require.NoError(t, h.FS.Rename(name, name+"-moved"))

	m.Suffer(Ailments{})
	_, err = f.Write([]byte(" after"))
	require.NoError(t, err)
	content, err = afero.ReadFile(h.FS, name+"-moved")
	require.NoError(t, err)
	require.Equal(t, "before after", string(content))
	require.NoError(t, stores.Log.StoreLog(&raft.Log{Index: 2}))
	// What is only read stays the system's: it is sent without a copy.
	r, err := h.FS.Open(name + "-moved")
	require.NoError(t, err)
	defer r.Close()
	require.IsType(t, (*os.File)(nil), r)
}

func second[T any](_ T, err error) error { return err }

func TestASlowSyncAndAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := sick(afero.NewMemMapFs())
		f, err := h.FS.Create("/f")
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, f.Sync())
		require.Zero(t, time.Since(began))
		require.Equal(t, time.Now(), h.Now())
		require.Zero(t, m.Suffered())
		m.Suffer(Ailments{SlowSync: 300 * time.Millisecond, ClockOffset: -time.Hour})
		require.NoError(t, f.Sync())
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		require.Equal(t, time.Now().Add(-time.Hour), h.Now())
		require.Equal(t, Suffered{SyncsSlowed: 1, WrongTimes: 1}, m.Suffered())
		stores, err := h.RaftStores("/")
		require.NoError(t, err)
		require.NoError(t, stores.Log.StoreLog(&raft.Log{Index: 1}))
		require.Equal(t, 600*time.Millisecond, time.Since(began))
		m.Suffer(Ailments{})
		require.NoError(t, f.Sync())
		require.NoError(t, stores.Log.StoreLog(&raft.Log{Index: 2}))
		require.Equal(t, 600*time.Millisecond, time.Since(began))
		require.Equal(t, time.Now(), h.Now())
	})
}

func TestStoresThatCantBeOpenedStaySo(t *testing.T) {
	no := errors.New("no")
	h := New().Host(host.Host{Now: time.Now, RaftStores: func(string) (host.RaftStores, error) { return host.RaftStores{}, no }})
	_, err := h.RaftStores("/")
	require.ErrorIs(t, err, no)
}
