package psm_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// The segments in testdata were written by a public KIP-1279 build of Apache
// Kafka, dump-log.txt by its own dump tool: see the README beside them.
var segments = []string{"A/t1-0", "A/t2-0", "B/t1-0", "B/t2-0"}

func segment(dir string) string { return filepath.Join("testdata", "kip1279-segments", dir) }

// readLog decodes every batch of a segment and checks its CRC.
func readLog(tb testing.TB, dir string) (batches []psm.Batch, raw [][]byte) {
	tb.Helper()
	p, err := os.ReadFile(filepath.Join(segment(dir), "00000000000000000000.log"))
	require.NoError(tb, err)
	for len(p) > 0 {
		b, err := psm.DecodeBatch(p)
		require.NoError(tb, err)
		require.NoError(tb, psm.CheckCRC(p))
		batches, raw = append(batches, b), append(raw, p[:b.Size])
		p = p[b.Size:]
	}
	return batches, raw
}

// dumpLine is a batch in Kafka's dump format, and its control record if any.
func dumpLine(b *psm.Batch, position int) []string {
	line := fmt.Sprintf("baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d "+
		"producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: OptionalLong.empty "+
		"position: %d CreateTime: %d size: %d magic: %d compresscodec: none crc: %d isvalid: true",
		b.BaseOffset, b.LastOffset, b.Count, b.BaseSequence, b.LastSequence(), b.ProducerID, b.ProducerEpoch,
		b.LeaderEpoch, b.Transactional(), b.IsControl(), position, b.MaxTimestamp, b.Size, b.Magic, b.CRC)
	c := b.Control
	record := fmt.Sprintf("| offset: %d CreateTime: %d keySize: 4 valueSize: ", b.BaseOffset, c.Timestamp)
	switch c.Type {
	case psm.ControlAbort, psm.ControlCommit:
		return []string{line, record + fmt.Sprintf("6 sequence: -1 headerKeys: [] endTxnMarker: %s coordinatorEpoch: %d", c.Type, c.CoordinatorEpoch)}
	case psm.ControlMirrorPIDReset:
		return []string{line, record + fmt.Sprintf(`26 sequence: -1 headerKeys: [] MirrorPidReset {"version":0,"sourceClusterId":"%s"}`, c.SourceClusterID)}
	}
	return []string{line}
}

func TestGoldenBatches(t *testing.T) {
	for _, dir := range segments {
		t.Run(dir, func(t *testing.T) {
			dump, err := os.ReadFile(filepath.Join(segment(dir), "dump-log.txt"))
			require.NoError(t, err)
			var want []string
			for line := range strings.Lines(string(dump)) {
				line = strings.TrimSuffix(line, "\n")
				control := strings.Contains(line, "endTxnMarker") || strings.Contains(line, "MirrorPidReset")
				if strings.HasPrefix(line, "baseOffset") || control {
					want = append(want, line)
				}
			}
			batches, _ := readLog(t, dir)
			var got []string
			position := 0
			for i := range batches {
				got = append(got, dumpLine(&batches[i], position)...)
				position += batches[i].Size
			}
			require.Equal(t, want, got)
		})
	}
}

// Kafka's own control batches come out of the builders byte for byte.
func TestGoldenControlBatchesRebuilt(t *testing.T) {
	rebuilt := 0
	for _, dir := range segments {
		batches, raw := readLog(t, dir)
		for i := range batches {
			b := &batches[i]
			var got []byte
			switch b.Control.Type {
			case psm.ControlNone:
				continue
			case psm.ControlMirrorPIDReset:
				got = psm.Barrier{
					BaseOffset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, Timestamp: b.MaxTimestamp,
					SourceClusterID: b.Control.SourceClusterID,
				}.Append(nil)
			default:
				got = psm.EndTxnMarker{
					BaseOffset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, Timestamp: b.MaxTimestamp, ProducerID: b.ProducerID,
					ProducerEpoch: b.ProducerEpoch, CoordinatorEpoch: b.Control.CoordinatorEpoch, Commit: b.Control.Type == psm.ControlCommit,
				}.Append(nil)
			}
			require.Equal(t, raw[i], got, "%s, offset %d", dir, b.BaseOffset)
			rebuilt++
		}
	}
	require.Equal(t, 16, rebuilt)
}

// A barrier as KIP-1279's development build writes it, byte for byte (BAR-2).
func TestBarrierBytes(t *testing.T) {
	want, err := hex.DecodeString("0000000000000000" + "00000056" + "00000000" + "02" + "bcbc0fcc" + "0020" + "00000000" +
		"0000019826f13a00" + "0000019826f13a00" + "ffffffffffffffff" + "ffff" + "ffffffff" + "00000001" +
		"48000000" + "0800000007" + "34" + "000017" + hex.EncodeToString([]byte("AbCdEfGhIjKlMnOpQrStUv")) + "00" + "00")
	require.NoError(t, err)
	got := psm.Barrier{Timestamp: 1753000000000, SourceClusterID: "AbCdEfGhIjKlMnOpQrStUv"}.Append(nil)
	require.Equal(t, want, got)
	require.Len(t, got, 98)

	psm.SetOffsets(got, 3, 5)
	b, err := psm.DecodeBatch(got)
	require.NoError(t, err)
	require.NoError(t, psm.CheckCRC(got))
	require.True(t, b.IsBarrier())
	require.Equal(t, int64(3), b.LastOffset)
	require.Equal(t, int32(5), b.LeaderEpoch)
	require.Equal(t, "AbCdEfGhIjKlMnOpQrStUv", b.Control.SourceClusterID)
	require.False(t, b.Transactional())
}

// replayLog replays a segment and gives the index entries that come of it.
func replayLog(tb testing.TB, dir string, cfg psm.Config, stops ...psm.Stop) (*psm.State, []psm.AbortedTxn) {
	tb.Helper()
	s := psm.New(cfg)
	s.SetStops(stops)
	batches, _ := readLog(tb, dir)
	var aborted []psm.AbortedTxn
	for i := range batches {
		s.Begin(psm.Append{Origin: psm.Replication})
		_, err := s.Add(&batches[i])
		require.NoError(tb, err)
		for _, c := range s.Commit() {
			if c.Aborted {
				aborted = append(aborted, c.IndexEntry())
			}
		}
	}
	return s, aborted
}

func TestGoldenTransactionIndex(t *testing.T) {
	for _, dir := range []string{"A/t2-0", "B/t2-0"} {
		t.Run(dir, func(t *testing.T) {
			file, err := os.ReadFile(filepath.Join(segment(dir), "00000000000000000000.txnindex"))
			require.NoError(t, err)
			want, err := psm.DecodeTxnIndex(file)
			require.NoError(t, err)
			var again []byte
			for _, a := range want {
				again = a.Append(again)
			}
			require.Equal(t, file, again)

			if dir == "A/t2-0" {
				// Kafka computes the LSO once a whole fetched chunk is
				// applied: A got the marker at 15 together with the
				// transaction that begins at 19. Here it is the same on
				// every replica: that at the marker.
				require.Equal(t, int64(19), want[2].LSO)
				want[2].LSO = 16
			}
			_, got := replayLog(t, dir, psm.Config{})
			require.Equal(t, want, got)
		})
	}
}

func TestGoldenSnapshots(t *testing.T) {
	idA, idB := "o5jt3v-4S1Sc3Mw97_PqJw", "SmpaR6K6T_OYIRZqTy85PA"
	for _, c := range []struct {
		dir string
		end int64
		cfg psm.Config
		own []psm.Stop
	}{
		{"A/t1-0", 12, psm.Config{}, []psm.Stop{{L: 11, BarrierOffset: 11, Epoch: 70, SourceClusterID: idB}}},
		{"A/t2-0", 23, psm.Config{}, []psm.Stop{{L: 22, BarrierOffset: 22, Epoch: 70, SourceClusterID: idB}}},
		{"A/t1-0", 12, psm.Config{AnyBarrierExpires: true}, nil},
		{"A/t2-0", 23, psm.Config{AnyBarrierExpires: true}, nil},
		// B's state survived its own barrier: that build's defect. With
		// the barrier unknown as B's own we hold the same.
		{"B/t1-0", 11, psm.Config{}, nil},
		{"B/t2-0", 22, psm.Config{}, nil},
	} {
		t.Run(fmt.Sprint(c.dir, c.cfg.AnyBarrierExpires), func(t *testing.T) {
			file, err := os.ReadFile(filepath.Join(segment(c.dir), psm.SnapshotName(c.end)))
			require.NoError(t, err)
			entries, err := psm.DecodeSnapshot(file)
			require.NoError(t, err)
			require.Equal(t, file, psm.EncodeSnapshot(entries))

			s, _ := replayLog(t, c.dir, c.cfg, c.own...)
			require.Equal(t, c.end, s.End())
			require.Equal(t, entries, s.SnapshotEntries())
		})
	}

	// What B should have held: only producers from behind its barrier.
	s, _ := replayLog(t, "B/t2-0", psm.Config{}, psm.Stop{L: 14, BarrierOffset: 16, Epoch: 11, SourceClusterID: idA})
	require.Equal(t, []int64{4, 5}, ids(s))
}

func ids(s *psm.State) []int64 {
	var out []int64
	for _, p := range s.Producers() {
		out = append(out, p.ProducerID)
	}
	return out
}
