package quorum

import (
	"io"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
)

func writeSnapshot(t *testing.T, s *snapshotStore, index uint64, text string) string {
	t.Helper()
	sink, err := s.Create(1, index, 2, raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "a:1"}}}, 1, nil)
	require.NoError(t, err)
	_, err = io.WriteString(sink, text)
	require.NoError(t, err)
	require.NoError(t, sink.Close())
	return sink.ID()
}

func TestSnapshotsAreKeptWholeOrNotAtAll(t *testing.T) {
	fs := afero.NewMemMapFs()
	s, err := newSnapshotStore(fs, "/snapshots")
	require.NoError(t, err)
	writeSnapshot(t, s, 8, "oldest")
	old := writeSnapshot(t, s, 9, "old")
	newest := writeSnapshot(t, s, 10, "line one\nline two")

	ids := func() (ids []string) {
		metas, err := s.List()
		require.NoError(t, err)
		for _, m := range metas {
			ids = append(ids, m.ID)
		}
		return ids
	}
	require.Equal(t, []string{newest, old}, ids(), "the newest first, and no more than are kept")
	meta, r, err := s.Open(newest)
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "line one\nline two", string(data))
	require.Equal(t, []any{uint64(10), uint64(2), raft.ServerID("1"), int64(len(data))},
		[]any{meta.Index, meta.Term, meta.Configuration.Servers[0].ID, meta.Size})

	cancelled, err := s.Create(1, 11, 2, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	require.NoError(t, cancelled.Cancel())
	require.NoError(t, cancelled.Close())
	require.Equal(t, []string{newest, old}, ids())

	raw, err := afero.ReadFile(fs, s.path(newest))
	require.NoError(t, err)
	for name, damaged := range map[string][]byte{
		"cut": raw[:len(raw)-1], "a bit turned": append(raw[:len(raw)-1:len(raw)-1], raw[len(raw)-1]^1), "empty": {}, "no head": []byte("x"),
	} {
		require.NoError(t, afero.WriteFile(fs, s.path(newest), damaged, 0o644))
		require.Equal(t, []string{old}, ids(), "%s: the one before serves", name)
		_, _, err := s.Open(newest)
		require.Error(t, err)
	}
}
