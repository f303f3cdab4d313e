package mirror

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/quorum"
)

func TestTheSourcesBytesAreCopiedAsTheyAre(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.put(4, data(11, 1, 4, "later"))
	d.awaitBytes(s.log)
	require.Equal(t, quorum.Mirroring, d.mirror().State)
	require.True(t, d.mirror().Aligned)
	require.Zero(t, d.part.tooHigh(), "an append above the leader epoch was tried")
	st, ok := d.m.Status("t", topicID, 0)
	require.True(t, ok)
	d.await("the source's high watermark", func() bool {
		st, _ = d.m.Status("t", topicID, 0)
		return st.SourceHighWatermark == 12
	})
	require.Empty(t, st.Error)
}

func TestAnotherClusterIsRefused(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", "CCCCCCCCCCCCCCCCCCCCCC")
	s.put(4, someBatches()...)
	d.create(s.addr())
	d.desire(quorum.Mirroring)
	d.awaitState(quorum.Failed)
	require.Contains(t, d.mirror().Error, "CCCCCCCCCCCCCCCCCCCCCC")
	require.Contains(t, d.mirror().Error, sourceID)
	require.EqualValues(t, -1, d.mirror().Attempts)
	require.Empty(t, d.part.bytes())
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
	require.Empty(t, d.part.bytes())
}

func TestASourceThatBecomesAnotherClusterIsRefused(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	addr := s.addr()
	s.kill()
	other := newFakeSource(t, addr, "CCCCCCCCCCCCCCCCCCCCCC")
	other.put(4, append(someBatches(), data(11, 1, 4, "foreign"))...)
	d.awaitState(quorum.Failed)
	require.Equal(t, someBatches(), d.part.bytes())
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)
}

func TestALogWithoutCommonHistoryIsRefused(t *testing.T) {
	d := newDestination(t)
	d.part.log = [][]byte{data(0, 2, 0, "own")}
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.create(s.addr())
	d.desire(quorum.Mirroring)
	d.awaitState(quorum.Failed)
	require.Contains(t, d.mirror().Error, "t-0, which ends at offset 2")
	require.Equal(t, [][]byte{data(0, 2, 0, "own")}, d.part.bytes())
}

// A write that came before the log was read-only is not cut by an alignment
// that did not see it.
func TestTheAlignmentWaitsUntilTheLogIsReadOnly(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.create(s.addr())
	d.part.mu.Lock()
	d.part.behind = true
	d.part.mu.Unlock()
	d.desire(quorum.Mirroring)
	d.await("the driver waits", func() bool { d.part.mu.Lock(); defer d.part.mu.Unlock(); return d.part.looked })
	own := data(0, 2, 0, "own")
	d.part.mu.Lock()
	d.part.log = [][]byte{own}
	d.part.behind = false
	close(d.part.changed)
	d.part.changed = make(chan struct{})
	d.part.mu.Unlock()
	d.awaitState(quorum.Failed)
	require.Contains(t, d.mirror().Error, "t-0, which ends at offset 2")
	require.Equal(t, [][]byte{own}, d.part.bytes())
}

func TestTheLeaderEpochRisesBeforeTheSourcesDo(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	for i, epoch := range []int32{5, 40, 41, 90} {
		s.put(epoch, data(int64(11+i), 1, epoch, "after an election"))
		d.awaitBytes(s.log)
		_, own := d.part.Leader()
		require.GreaterOrEqual(t, own, epoch)
	}
	require.Zero(t, d.part.tooHigh())
	d.awaitState(quorum.Mirroring)
}

func TestASourceThatWasCutIsFollowed(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.mu.Lock()
	s.epoch = 6
	s.log = append(s.log[:3:3], data(9, 1, 6, "instead"), data(10, 4, 6, "more"))
	s.mu.Unlock()
	d.await("the source's new bytes", func() bool { return fmt.Sprint(d.part.bytes()) == fmt.Sprint(s.log) })
	require.Zero(t, d.mirror().AlignedAt)
}

// A source that was promoted at 9, and whose log begins above that by the time it
// can be asked again, can't be followed from 9 on: it is copied anew.
func TestASourceThatWasPromotedBelowItsStartIsCopiedAnew(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.mu.Lock()
	s.epoch = 6
	s.below = []mirrorrpc.Barrier{{Offset: 9, LeaderEpoch: 6, CRC: 1, SourceClusterID: "the source's source", WriterClusterID: sourceID}}
	s.log = [][]byte{data(10, 2, 6, "instead"), data(12, 4, 6, "more")}
	s.mu.Unlock()
	d.await("the source's new bytes", func() bool {
		return fmt.Sprint(d.part.bytes()) == fmt.Sprint(s.log) || d.mirror().State == quorum.Failed
	})
	require.Equal(t, s.log, d.part.bytes(), "%s", d.mirror().Error)
	require.EqualValues(t, 10, d.mirror().AlignedAt)
}

// A source that ends below where this log begins, after an unclean election or a
// lost disk, has nothing of it: it is copied anew, whether that is found while
// it is mirrored or by an alignment.
func TestASourceThatEndsBelowThisLogsStartIsCopiedAnew(t *testing.T) {
	for _, c := range []struct {
		name string
		left [][]byte
	}{
		{"a lost tail", [][]byte{data(0, 3, 2, "left")}},
		{"a later epoch", [][]byte{data(0, 2, 2, "left"), data(2, 1, 6, "instead")}},
		{"no epoch in common", [][]byte{data(0, 3, 7, "another")}},
		{"it begins later", [][]byte{data(1, 2, 7, "another")}},
	} {
		for _, aligns := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, aligns %v", c.name, aligns), func(t *testing.T) {
				d := newDestination(t)
				s := newFakeSource(t, "127.0.0.1:0", sourceID)
				s.put(4, someBatches()...)
				d.mirrorAll(s)
				if aligns {
					d.desire(quorum.Stopped)
					d.awaitState(quorum.Stopped)
				}
				d.part.mu.Lock()
				d.part.log = d.part.log[2:] // retention, here only
				d.part.mu.Unlock()
				s.mu.Lock()
				s.epoch, s.log = 7, c.left
				s.mu.Unlock()
				if aligns {
					d.desire(quorum.Mirroring)
				}
				d.await("the source's new bytes", func() bool {
					return fmt.Sprint(d.part.bytes()) == fmt.Sprint(c.left) || d.mirror().State == quorum.Failed
				})
				require.Equal(t, c.left, d.part.bytes(), "%s", d.mirror().Error)
			})
		}
	}
}

func TestAMirrorThatStartsAgainDropsWhatThisClusterWrote(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.part.stable(9)
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches()[:3], 9)
	_, epoch := d.part.Leader()
	d.part.mu.Lock()
	d.part.lso = -1
	d.part.log = append(d.part.log, data(10, 3, epoch, "own"))
	d.part.mu.Unlock()
	// The source elects the same leader epoch on its own, and writes more: the
	// epochs alone don't tell the two logs apart.
	s.put(epoch, data(11, 9, epoch, "the source's, in the same epoch"))
	d.desire(quorum.Mirroring)
	d.await("the source's bytes", func() bool { return fmt.Sprint(d.part.bytes()) == fmt.Sprint(s.log) })
	require.EqualValues(t, 9, d.mirror().AlignedAt)
	d.desire(quorum.Stopped)
	d.requireStopped(s.log, 20)
	require.Len(t, d.mirror().Stops, 1)
}

func TestPauseAndResume(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.desire(quorum.Paused)
	d.awaitState(quorum.Paused)
	d.await("the connection's end", func() bool { return s.open() == 0 })
	s.put(4, data(11, 1, 4, "while paused"))
	d.desire(quorum.Mirroring)
	d.awaitBytes(s.log)
	d.desire(quorum.Paused)
	d.awaitState(quorum.Paused)
	d.desire(quorum.Stopped)
	d.requireStopped(s.log, 12)
}

func TestTheSourceMayBeGoneForAWhile(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	addr := s.addr()
	s.kill()
	d.await("an error", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Error != "" })
	back := newFakeSource(t, addr, sourceID)
	back.put(5, append(someBatches(), data(11, 1, 5, "back"))...)
	d.awaitBytes(back.log)
	d.await("no error", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Error == "" && st.Attempts == 0 })
	require.Equal(t, quorum.Mirroring, d.mirror().State)
}

func TestASourceThatSaysNothingIsNamed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // connections are taken up, and that is all
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	d := newDestination(t)
	d.create(ln.Addr().String())
	d.desire(quorum.Mirroring)
	d.await("the cause", func() bool {
		st, _ := d.m.Status("t", topicID, 0)
		return strings.Contains(st.Error, ln.Addr().String())
	})
	require.Equal(t, quorum.LogTruncation, d.mirror().State)
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
	st, _ := d.m.Status("t", topicID, 0)
	require.Empty(t, st.Error)
}
