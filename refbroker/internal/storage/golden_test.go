package storage

import (
	"encoding/base64"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// The segments that a public KIP-1279 build wrote open here, cleanly or by
// recovery, to the state that its own snapshots, transaction indexes and
// epoch checkpoints hold.
func TestRealSegments(t *testing.T) {
	const root = "testdata/kip1279-segments"
	disk := afero.NewOsFs()
	for _, name := range []string{"A/t1-0", "A/t2-0", "B/t1-0", "B/t2-0"} {
		for _, how := range []string{"clean", "unclean", "no snapshot", "only the log"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				dir := filepath.Join(root, name)
				fsys := afero.NewMemMapFs()
				copyTree(t, disk, dir, fsys, "/log-0")
				names, err := folderNames(fsys, "/log-0")
				require.NoError(t, err)
				var want []psm.SnapshotEntry
				var wantEnd int64
				for _, n := range names {
					if at, ok := psm.ParseSnapshotName(n); ok {
						raw, err := afero.ReadFile(fsys, filepath.Join("/log-0", n))
						require.NoError(t, err)
						want, err = psm.DecodeSnapshot(raw)
						require.NoError(t, err)
						slices.SortFunc(want, func(a, b psm.SnapshotEntry) int { return int(a.ProducerID - b.ProducerID) })
						wantEnd = at
						if how == "no snapshot" || how == "only the log" {
							require.NoError(t, fsys.Remove(filepath.Join("/log-0", n)))
						}
					}
				}
				wantIndex, err := readFileIfAny(fsys, "/log-0/00000000000000000000.txnindex")
				require.NoError(t, err)
				epochsRaw, err := afero.ReadFile(fsys, "/log-0/leader-epoch-checkpoint")
				require.NoError(t, err)
				wantEpochs, err := ParseEpochCheckpoint(epochsRaw)
				require.NoError(t, err)
				wantEpochs = slices.DeleteFunc(wantEpochs, func(e EpochStart) bool { return e.Offset >= wantEnd })
				meta, err := afero.ReadFile(fsys, "/log-0/partition.metadata")
				require.NoError(t, err)
				id, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(strings.Split(string(meta), "topic_id: ")[1]))
				require.NoError(t, err)
				if how == "only the log" {
					for _, n := range names {
						if !strings.HasSuffix(n, suffixLog) && n != fileMetadata {
							require.NoError(t, removeIfAny(fsys, filepath.Join("/log-0", n)))
						}
					}
				}

				if name == "A/t2-0" && (how == "no snapshot" || how == "only the log") {
					// Kafka took the last stable offset once a whole fetched
					// chunk was applied; replayed, it is that at the marker.
					require.Equal(t, byte(19), wantIndex[len(wantIndex)-1])
					wantIndex[len(wantIndex)-1] = 16
				}

				// B's state survived its own barrier, a defect of that build;
				// so does ours as long as no stop says that it is its own.
				// The clock stands where no producer has expired yet.
				cfg := Config{Now: func() time.Time { return time.UnixMilli(1795969400000) }, Producers: psm.Config{AnyBarrierExpires: strings.HasPrefix(name, "A")}}
				l, err := Open(fsys, "/log-0", cfg, OpenOptions{TopicID: [16]byte(id), Clean: how == "clean"})
				require.NoError(t, err)
				defer func() { require.NoError(t, l.Close(true)) }()
				l.SetHighWatermark(l.Marks().LogEnd)
				f := factsOf(t, l)
				require.Equal(t, wantEnd, f.marks.LogEnd)
				require.Equal(t, wantEnd, f.marks.LastStable)
				require.Equal(t, want, append([]psm.SnapshotEntry{}, f.producers...))
				require.Equal(t, wantEpochs, f.epochs)
				var index []byte
				for _, a := range l.active().aborted {
					index = a.Append(index)
				}
				require.Equal(t, wantIndex, index)
				raw, err := afero.ReadFile(disk, filepath.Join(dir, "00000000000000000000.log"))
				require.NoError(t, err)
				require.Equal(t, string(raw), f.bytes)
				require.NotEmpty(t, f.barriers)
				require.Equal(t, "o5jt3v-4S1Sc3Mw97_PqJw", f.barriers[0].SourceClusterID)
			})
		}
	}
}

func TestFolderOfAnotherTopicIsRefused(t *testing.T) {
	fsys := afero.NewMemMapFs()
	l, err := Open(fsys, "/t-0", Config{}, OpenOptions{TopicID: topicID})
	require.NoError(t, err)
	require.NoError(t, l.Close(true))
	_, err = Open(fsys, "/t-0", Config{}, OpenOptions{TopicID: [16]byte{9}})
	require.ErrorContains(t, err, "folder belongs to topic id AQIDAAAAAAAAAAAAAAAAAA")
	id, ok, err := ReadTopicID(fsys, "/t-0")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, topicID, id)
}
