package storage

import (
	"fmt"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
)

// A disk that fails at any change that an operation makes, and works again: what
// was acknowledged is there, at once and after a kill, and so is state; the log
// goes on, or says why it does not until it is opened anew.
func TestFailingDiskAtEachChange(t *testing.T) {
	cfg := Config{SegmentBytes: 400, IndexInterval: 1, FlushMessages: 7, Now: now}
	keyedBy := func(i int) []byte {
		return by(1, 0, int32(i*2), 2).keyed(0, kv{fmt.Sprint("k", i%3), fmt.Sprint(i)}, kv{"same", fmt.Sprint(i)})
	}
	for name, op := range map[string]func(l *Log) error{
		"append": func(l *Log) error {
			_, err := l.AppendAsLeader(keyedBy(12), 1, client)
			return err
		},
		"appends and rolls": func(l *Log) error {
			for i := 12; i < 20; i++ {
				if _, err := l.AppendAsLeader(keyedBy(i), 1, client); err != nil {
					return err
				}
			}
			return nil
		},
		"follower": func(l *Log) error {
			_, err := l.AppendAsFollower(plain(3).at(l.Marks().LogEnd, 4).build())
			return err
		},
		"aborted transaction": func(l *Log) error {
			if _, err := l.AppendAsLeader(by(2, 0, 0, 1).inTxn().build(), 1, client); err != nil {
				return err
			}
			_, err := l.AppendAsLeader(marker(2, 0, false), 1, coordinator)
			return err
		},
		"truncate": func(l *Log) error { _, err := l.TruncateTo(9); return err },
		"compact":  func(l *Log) error { _, err := l.Compact(t.Context(), compactAll(), nil); return err },
		"delete records": func(l *Log) error {
			_, err := l.DeleteRecords(6)
			return err
		},
		"stops": func(l *Log) error {
			return l.SetStops([]psm.Stop{{L: 24, BarrierOffset: 24, Epoch: 1, SourceClusterID: source}})
		},
		"flush": (*Log).Flush,
	} {
		t.Run(name, func(t *testing.T) {
			for step := 0; ; step++ {
				fsys := &crashFs{Fs: afero.NewMemMapFs(), left: -1}
				l := openLog(t, place{fs: fsys, dir: "/t-0"}, cfg, OpenOptions{})
				for i := range 12 {
					lead(t, l, keyedBy(i), client)
				}
				before := factsOf(t, l)
				fsys.left = step
				err := op(l)
				fsys.left = -1
				if err != nil && name != "truncate" && name != "delete records" && name != "compact" {
					require.Equal(t, before.bytes, string(content(t, l))[:len(before.bytes)], "step %d", step)
				}
				if name == "stops" {
					require.NoError(t, op(l), "whoever sets stops tries again")
				}
				latest := latestOf(storedIn(t, content(t, l)))
				broken := l.Failure()
				next, aerr := l.AppendAsLeader(plain(1).build(), 9, client)
				if broken != nil {
					require.ErrorIs(t, aerr, errBroken)
					require.Error(t, l.Close(true), "no clean stop may hide it")
				} else {
					require.NoError(t, aerr, "step %d: %v", step, err)
					require.GreaterOrEqual(t, next.BaseOffset, l.Marks().LogStart)
				}
				l.SetHighWatermark(l.Marks().LogEnd)
				live := factsOfOpen(t, l, broken)
				require.NoError(t, l.Close(false))
				target := place{fs: afero.NewMemMapFs(), dir: "/t-0"}
				copyTree(t, fsys.Fs, "/t-0", target.fs, target.dir)
				l = openLog(t, target, cfg, OpenOptions{LogStart: l.logStart})
				l.SetHighWatermark(l.Marks().LogEnd)
				after := factsOf(t, l)
				if broken == nil {
					require.Equal(t, live, after, "step %d: %v", step, err)
				} else if name != "truncate" {
					require.Equal(t, latest, latestOf(storedIn(t, []byte(after.bytes))), "step %d: %v", step, err)
				} else {
					require.Equal(t, before.bytes[:len(after.bytes)], after.bytes, "step %d", step)
				}
				require.NoError(t, l.Failure())
				lead2(t, l, plain(1).build(), 9)
				if err == nil {
					require.Greater(t, fsys.done, step-1)
					return
				}
				require.ErrorIs(t, err, errKilled)
				if name == "append" {
					require.ErrorIs(t, err, kerr.KafkaStorageError)
				}
			}
		})
	}
}

// factsOfOpen are the facts of a log that is not broken.
func factsOfOpen(t *testing.T, l *Log, broken error) facts {
	if broken != nil {
		return facts{}
	}
	return factsOf(t, l)
}

// flush.messages syncs before it answers.
func TestFlushMessages(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, Config{FlushMessages: 5, Now: now}, OpenOptions{})
	for i, want := range []int64{0, 0, 6, 6, 6, 12} {
		lead(t, l, plain(2).build(), client)
		require.Equal(t, want, l.RecoveryPoint(), i)
	}
}

// After a sync that failed nothing more is taken: what the kernel had in hand
// may be lost, and the next sync would not say so.
func TestFailedSyncTakesTheLogOffline(t *testing.T) {
	fsys := &crashFs{Fs: afero.NewMemMapFs(), left: -1}
	l := openLog(t, place{fs: fsys, dir: "/t-0"}, Config{Now: now}, OpenOptions{})
	lead(t, l, plain(1).build(), client)
	require.NoError(t, l.Flush())
	lead(t, l, plain(1).build(), client)
	fsys.left = 0
	require.ErrorIs(t, l.Flush(), errKilled)
	fsys.left = -1
	require.ErrorIs(t, l.Failure(), errKilled)
	_, err := l.AppendAsLeader(plain(1).build(), 0, client)
	require.ErrorIs(t, err, errKilled)
	require.NoError(t, l.Close(false))
	l = openLog(t, place{fs: fsys, dir: "/t-0"}, Config{Now: now}, OpenOptions{})
	require.EqualValues(t, 2, lead(t, l, plain(1).build(), client).BaseOffset)
}
