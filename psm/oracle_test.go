package psm_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// The other side of ci/psm-oracle: requests, one a line, go to Apache Kafka's
// own producer state and to ours; both answer with what came of it and what
// the whole state is. TestVectors replays requests and Kafka's answers that
// were recorded (testdata/kafka-4.4.0-vectors.txt.gz); the test that drives
// Kafka itself has the build tag "oracle" and is run by ci/psm-oracle/run.
//
// Where the two differ on purpose, the generator keeps away:
//
//   - Of several replicated batches in one append, Kafka merges a producer's
//     at the end, so that remembered batches and the LSO in the transaction
//     index depend on where a fetch was cut. Here each batch counts by
//     itself, and every copy of a log agrees. (Remembered batches differ
//     where a producer's epoch changes twice in one append; LSOs are not
//     compared for chunks.)
//   - A failed append leaves verifications alone; Kafka may have ended one.
//   - A control batch that the cleaner emptied makes no entry with epoch -1
//     for a producer not known, and a control record of unknown type is
//     passed over where Kafka throws.
//   - A client's negative sequence or control batch is refused here too, not
//     only by the record validation before.
//   - A snapshot exactly at the log's start is used, not deleted: retries are
//     still recognised when every record was deleted.
//   - A state that is truncated to its own end is not rebuilt by Kafka, and
//     keeps its older remembered batches; here the caller need not ask for it.
//   - Of open transactions, all that are late are listed, not whether the
//     oldest is.
//   - Snapshots are sorted by producer id; Kafka's order is that of a hash map
//     (the same for ids as small as here).

// subject runs requests on a State.
type subject struct {
	t         require.TestingT
	cfg       psm.Config
	state     *psm.State
	dir       *crashDir
	snapshots *psm.Snapshots
	log       []psm.Batch
	stops     []psm.Stop
	guards    []psm.Guard
	now       int64
	logStart  int64
	// noSnapshot says that Kafka takes none: it has one for this offset.
	noSnapshot bool
}

func (s *subject) num(f string) int64 {
	n, err := strconv.ParseInt(f, 10, 64)
	require.NoError(s.t, err)
	return n
}

func (s *subject) handle(request string) string {
	f := strings.Split(request, " ")
	result := "0"
	switch f[0] {
	case "N":
		s.cfg = psm.Config{VerifyTransactions: f[1] == "1", ExpirationMs: s.num(f[2]), MaxTransactionTimeoutMs: s.num(f[3])}
		s.dir = newCrashDir()
		s.snapshots = psm.NewSnapshots(s.dir, nil)
		s.state, s.log, s.stops, s.guards, s.now, s.logStart = psm.New(s.cfg), nil, nil, []psm.Guard{0}, 0, 0
	case "C":
		s.now = s.num(f[1])
	case "A":
		result = s.append(f)
	case "V":
		g, err := s.state.StartVerification(psm.Verification{
			ProducerID: s.num(f[1]), ProducerEpoch: int16(s.num(f[2])), BaseSequence: int32(s.num(f[3])),
			TransactionVersion: int8(s.num(f[4])), NowMs: s.now,
		})
		if err == nil {
			s.guards = append(s.guards, g)
		}
		result = fmt.Sprint(psm.Code(err))
	case "H":
		s.state.OnHighWatermark(s.num(f[1]))
	case "L":
		s.logStart = s.num(f[1])
		s.state.OnLogStart(s.logStart)
	case "X":
		s.state.Expire(s.now)
	case "S":
		result = "none"
		if !s.noSnapshot {
			require.NoError(s.t, s.snapshots.Write(s.state))
			result = hex.EncodeToString(s.dir.files[psm.SnapshotName(s.state.End())])
		}
	case "D":
		if offsets, err := s.snapshots.Offsets(); err == nil && len(offsets) > 0 {
			p := s.dir.files[psm.SnapshotName(offsets[len(offsets)-1])]
			p[len(p)-1] ^= 1
		}
	case "T":
		s.reload(s.num(f[1]))
	case "R":
		end := s.state.End()
		s.state = psm.New(s.cfg)
		s.reload(end)
	default:
		require.Fail(s.t, "unknown request", request)
	}
	return result + " " + s.describe()
}

func (s *subject) append(f []string) string {
	a := psm.Append{
		Origin:             map[string]psm.Origin{"client": psm.Client, "coordinator": psm.Coordinator, "replication": psm.Replication}[f[1]],
		Guard:              s.guards[s.num(f[2])],
		TransactionVersion: int8(s.num(f[3])),
	}
	stops := slices.Clone(s.stops)
	var batches []*psm.Batch
	for _, p := range f[5:] {
		own, bytes, _ := strings.Cut(p, ":")
		raw, err := hex.DecodeString(bytes)
		require.NoError(s.t, err)
		b, err := psm.DecodeBatch(raw)
		require.NoError(s.t, err)
		require.Equal(s.t, own == "own", own == "own" && b.IsBarrier())
		if own == "own" {
			stops = append(stops, psm.Stop{BarrierOffset: b.BaseOffset, Epoch: b.LeaderEpoch, SourceClusterID: b.Control.SourceClusterID})
		}
		batches = append(batches, &b)
	}
	s.state.SetStops(stops)
	done, dup, err := try(s.state, a, batches...)
	if dup.Found {
		s.state.SetStops(s.stops)
		return fmt.Sprintf("dup:%d:%d:%d", dup.BaseOffset, dup.LastOffset, dup.Timestamp)
	}
	if err != nil {
		s.state.SetStops(s.stops)
		return fmt.Sprint(psm.Code(err))
	}
	s.stops = stops
	for _, b := range batches {
		s.log = append(s.log, *b)
	}
	out := "0"
	for _, c := range done {
		out += fmt.Sprintf(" txn:%d:%d:%d:%t:%d", c.ProducerID, c.FirstOffset, c.LastOffset, c.Aborted, c.LSO)
	}
	return out
}

func (s *subject) reload(target int64) {
	s.log = slices.DeleteFunc(s.log, func(b psm.Batch) bool { return b.LastOffset >= target })
	s.stops = psm.CutStops(s.stops, target)
	s.state.SetStops(s.stops)
	l := testLog{batches: s.log}
	require.NoError(s.t, s.state.Reload(s.snapshots, psm.Reload{LogStart: s.logStart, Target: target, NowMs: s.now, Replay: l.replay}))
}

func (s *subject) describe() string {
	var b strings.Builder
	orNone := func(o int64, ok bool) int64 {
		if ok {
			return o
		}
		return -1
	}
	open, late := s.state.OpenTransactions(), s.state.LateTransactions(s.now)
	fmt.Fprintf(&b, "end:%d unstable:%d undecided:%d late:%t", s.state.End(), orNone(s.state.FirstUnstable()),
		orNone(s.state.FirstUndecided()), len(open) > 0 && len(late) > 0 && open[0] == late[0])
	for _, p := range s.state.Producers() {
		fmt.Fprintf(&b, " p:%d:%d:%d:%d:%d", p.ProducerID, p.Epoch, p.CoordinatorEpoch, p.LastTimestamp, p.CurrentTxnFirstOffset)
		for _, r := range s.state.RememberedOf(p.ProducerID) {
			first := r.First
			if r.Last < 0 { // Kafka's arithmetic for data without sequences
				first = psm.SubSequence(r.Last, int32(r.LastOff-r.BaseOffset))
			}
			fmt.Fprintf(&b, ":%d-%d@%d-%d/%d", first, r.Last, r.BaseOffset, r.LastOff, r.Timestamp)
		}
	}
	for pid := range int64(5) {
		if epoch, lowest, v2, ok := s.state.Verifying(pid); ok {
			fmt.Fprintf(&b, " v:%d:%d:%d:%t", pid, epoch, lowest, v2)
		}
	}
	return b.String()
}

// compare has the subject answer request as Kafka did with want.
func (s *subject) compare(request, want string) {
	s.noSnapshot = strings.HasPrefix(want, "none ")
	require.Equal(s.t, comparableAnswer(request, want), comparableAnswer(request, s.handle(request)), "%s", request)
}

// comparableAnswer is an answer without what is not compared: the LSO of what ended
// in a chunk.
func comparableAnswer(request, answer string) string {
	f := strings.Split(request, " ")
	if f[0] != "A" || f[4] != "c" {
		return answer
	}
	parts := strings.Split(answer, " ")
	for i, p := range parts {
		if strings.HasPrefix(p, "txn:") {
			parts[i] = p[:strings.LastIndexByte(p, ':')]
		}
	}
	return strings.Join(parts, " ")
}

const vectors = "testdata/kafka-4.4.0-vectors.txt.gz"

// What Apache Kafka 4.4.0's producer state answered, so do we.
func TestVectors(t *testing.T) {
	file, err := os.ReadFile(vectors)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	s := &subject{t: t}
	steps := 0
	for lines.Scan() {
		request, ok := strings.CutPrefix(lines.Text(), "> ")
		require.True(t, ok && lines.Scan())
		want, ok := strings.CutPrefix(lines.Text(), "< ")
		require.True(t, ok)
		s.compare(request, want)
		steps++
	}
	require.NoError(t, lines.Err())
	require.Greater(t, steps, 5000)
}
