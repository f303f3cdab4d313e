package psm_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/psm"
)

// requireModel compares everything that can be seen of s with m.
func requireModel(t require.TestingT, m *model, s *psm.State) {
	require.Equal(t, m.snapshot(), s.SnapshotEntries())
	require.Equal(t, m.end, s.End())
	require.Equal(t, len(m.producers), s.Len())
	for pid, p := range m.producers {
		require.Equal(t, p.batches, s.RememberedOf(pid), "producer %d", pid)
	}
	var open []psm.OpenTxn
	for _, pid := range m.open() {
		p := m.producers[pid]
		open = append(open, psm.OpenTxn{ProducerID: pid, Epoch: p.epoch, FirstOffset: p.txn, LastTimestamp: p.ts})
	}
	require.Equal(t, open, s.OpenTransactions())
	for pid := range int64(5) {
		require.Equal(t, m.verifying[pid].guard, s.VerificationGuard(pid))
	}
	first, ok := s.FirstUnstable()
	require.Equal(t, m.unstable() != math.MaxInt64, ok)
	if ok {
		require.Equal(t, m.unstable(), first)
	}
	for hw := max(0, m.end-12); hw <= m.end; hw++ {
		require.Equal(t, m.lso(hw), s.LSO(hw), "high watermark %d", hw)
	}
}

// gen draws batches that are mostly right and collide a lot.
type gen struct {
	t  *rapid.T
	ts int64
}

func (g *gen) intn(n int) int { return rapid.IntRange(0, n-1).Draw(g.t, "n") }

// seq draws a base sequence for a producer that m knows.
func (g *gen) seq(p mProducer) int32 {
	next := int32(0)
	if n := len(p.batches); n > 0 {
		next = seqAfter(p.batches[n-1].Last, 1)
	}
	switch g.intn(8) {
	case 0:
		return 0
	case 1:
		if len(p.batches) > 0 {
			return p.batches[g.intn(len(p.batches))].First
		}
		return math.MaxInt32 - int32(g.intn(3))
	case 2:
		return int32(min(math.MaxInt32, int64(next)+int64(g.intn(3))-1))
	case 3:
		return math.MaxInt32 - int32(g.intn(3))
	}
	return next
}

func (g *gen) epoch(p mProducer) int16 {
	switch g.intn(6) {
	case 0:
		return max(0, p.epoch-1)
	case 1:
		return int16(min(math.MaxInt16, int(p.epoch)+1))
	case 2:
		return int16([]int{0, 1, 32766, 32767}[g.intn(4)])
	}
	return max(0, p.epoch)
}

// batch draws a batch at offset; m tells what would be right.
func (g *gen) batch(m *model, offset int64) *psm.Batch {
	pid := int64(g.intn(5))
	p := m.get(pid)
	g.ts += int64(g.intn(3))
	var b *psm.Batch
	switch kind := g.intn(20); {
	case kind < 9:
		b = data(offset, pid, g.epoch(p), g.seq(p), int32(1+g.intn(3)))
		if n := len(p.batches); n > 0 && g.intn(3) > 0 { // the right length for a retry
			if i := slices.IndexFunc(p.batches, func(r psm.Remembered) bool { return r.First == b.BaseSequence }); i >= 0 {
				b.LastOffset = b.BaseOffset + p.batches[i].LastOff - p.batches[i].BaseOffset
			}
		}
		if p.txn >= 0 && g.intn(8) > 0 || g.intn(3) == 0 {
			b.Attributes |= attrTxn
		}
	case kind < 14:
		b = marker(offset, pid, g.epoch(p), int32(g.intn(3)), g.intn(2) == 0)
	case kind < 16:
		b = data(offset, int64(-1-g.intn(3)), -1, -1, 1)
	case kind < 19:
		b = barrier(offset, int32(g.intn(3)), []string{"src", "other"}[g.intn(2)])
	default:
		b = marker(offset, pid, 0, 0, true)
		b.Control.Type = psm.ControlType(g.intn(10) - 1)
	}
	b.MaxTimestamp = 1000 + g.ts
	b.Control.Timestamp = b.MaxTimestamp
	return b
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := psm.Config{
			ExpirationMs:       10,
			VerifyTransactions: rapid.Bool().Draw(t, "verify"),
			AnyBarrierExpires:  rapid.IntRange(0, 3).Draw(t, "any") == 0,
		}
		s, m, g := psm.New(cfg), newModel(cfg), &gen{t: t}
		guards := []psm.Guard{0}

		// attempt makes the same append on both.
		attempt := func(a psm.Append, n int, gaps bool) {
			next := m.clone()
			var done []psm.Completed
			s.Begin(a)
			failed := false
			for range n {
				offset := next.end
				if gaps {
					offset += int64(g.intn(8) / 6)
				}
				b := g.batch(next, offset)
				want := next.add(a, b)
				dup, err := s.Add(b)
				require.Equal(t, want.code, psm.Code(err), "%v", err)
				require.Equal(t, want.dup, dup)
				if failed = err != nil || dup.Found; failed {
					break
				}
				done = append(done, want.done...)
				requireModel(t, m, s) // not yet visible
			}
			if rapid.IntRange(0, 5).Draw(t, "writeFails") == 0 {
				s.Discard()
				return
			}
			got := s.Commit()
			if failed {
				require.Empty(t, got)
				return
			}
			require.Equal(t, done, append([]psm.Completed(nil), got...))
			next.commit()
			m = next
		}
		t.Repeat(map[string]func(*rapid.T){
			"client": func(t *rapid.T) {
				attempt(psm.Append{Origin: psm.Client, Guard: guards[g.intn(len(guards))]}, 1, false)
			},
			"client, several": func(t *rapid.T) {
				attempt(psm.Append{Origin: psm.Client, Guard: guards[g.intn(len(guards))]}, 1+g.intn(4), false)
			},
			"coordinator": func(t *rapid.T) {
				attempt(psm.Append{
					Origin: psm.Coordinator, TransactionVersion: int8(g.intn(3)), Guard: guards[g.intn(len(guards))],
				}, 1+g.intn(4), false)
			},
			"replication": func(t *rapid.T) { attempt(psm.Append{Origin: psm.Replication}, 1+g.intn(6), true) },
			"verify": func(t *rapid.T) {
				pid := int64(g.intn(5))
				p := m.get(pid)
				v := psm.Verification{
					ProducerID: pid, ProducerEpoch: g.epoch(p), BaseSequence: g.seq(p),
					TransactionVersion: int8(1 + g.intn(2)), NowMs: 1000 + g.ts,
				}
				guard, err := s.StartVerification(v)
				needs, code := m.verify(v, guard)
				require.Equal(t, code, psm.Code(err))
				require.Equal(t, needs, guard != 0)
				guards = append(guards, guard)
			},
			"stop": func(t *rapid.T) {
				m.stops = append(m.stops, psm.Stop{
					BarrierOffset: m.end + int64(g.intn(3)), Epoch: int32(g.intn(3)), SourceClusterID: []string{"src", "other"}[g.intn(2)],
				})
				require.False(t, s.SetStops(m.stops))
			},
			"high watermark": func(t *rapid.T) {
				hw := max(0, m.end-int64(g.intn(4)))
				m.highWatermark(hw)
				s.OnHighWatermark(hw)
			},
			"expire": func(t *rapid.T) {
				m.expire(1000+g.ts, 10)
				s.Expire(1000 + g.ts)
			},
			"": func(t *rapid.T) { requireModel(t, m, s) },
		})
	})
}
