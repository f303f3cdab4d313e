package mirror

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// plainSource is a source without the feature mirror.version.
func plainSource(t *testing.T) *fakeSource {
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.plain = true
	s.put(4, someBatches()...)
	return s
}

func TestPlainKafkaIsMirroredIntoAnEmptyTopic(t *testing.T) {
	d := newDestination(t)
	d.mirrorAll(plainSource(t))
	require.Empty(t, d.mirror().History)
	require.Equal(t, []string{sourceID}, d.mirror().Upstream)
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)

	// And not again over what was written since, but by the operator's word.
	d.desire(quorum.Mirroring)
	d.awaitState(quorum.Failed)
	require.Contains(t, d.mirror().Error, "knows no barrier lists")
	require.Contains(t, d.mirror().Error, "--discard")
	d.apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Mirroring, Discard: true})
	d.awaitState(quorum.Mirroring)
	d.awaitBytes(someBatches())
	require.Equal(t, &quorum.CutReport{From: 0, To: 12, Records: 11}, d.mirror().AlignCut)
	require.False(t, d.mirror().Discard)
	require.Empty(t, d.mirror().Stops)
}

// A stop while what was to be discarded is still there cuts nothing, and leaves
// no word behind.
func TestAStopBeforeTheDiscard(t *testing.T) {
	d := newDestination(t)
	d.part.log = [][]byte{data(0, 2, 0, "own")}
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.kill()
	d.create(s.addr())
	d.apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Mirroring, Discard: true})
	d.await("an error", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Error != "" })
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
	require.False(t, d.mirror().Discard)
	require.Equal(t, [][]byte{data(0, 2, 0, "own")}, d.part.bytes())
}

// A log that is discarded while it mirrors, after a failure, is aligned all the
// time: a stop in between still leaves a barrier.
func TestADiscardAfterAFailureKeepsTheAlignment(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	addr := s.addr()
	s.kill()
	other := newFakeSource(t, addr, "CCCCCCCCCCCCCCCCCCCCCC")
	d.awaitState(quorum.Failed)
	other.kill()
	d.apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Mirroring, Discard: true})
	require.Equal(t, quorum.LogTruncation, d.mirror().State)
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)
}

// A barrier that comes while the mirror runs is appended once it is known who
// wrote it.
func TestTheWriterOfABarrierIsLearntBeforeItIsAppended(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	barrier := psm.Barrier{SourceClusterID: "ZZZZZZZZZZZZZZZZZZZZZZ", Timestamp: 1}.Append(nil)
	psm.SetOffsets(barrier, 11, 4)
	s.put(4, barrier, data(12, 1, 4, "behind"))
	d.awaitBytes(s.log)
	b, err := psm.DecodeBatch(barrier)
	require.NoError(t, err)
	require.Equal(t, []replica.Barrier{{
		Offset: 11, LeaderEpoch: 4, CRC: b.CRC, SourceClusterID: "ZZZZZZZZZZZZZZZZZZZZZZ", Writer: sourceID,
	}}, d.part.Barriers())
	require.Equal(t, quorum.Mirroring, d.mirror().State)
}

// CH-4: a source that comes to be mirrored from this cluster is refused, though
// nothing in its log tells of that.
func TestALoopThatCloses(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	upstream := func(ids ...string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.upstream = ids
	}
	upstream("CCCCCCCCCCCCCCCCCCCCCC")
	d.await("the way up", func() bool { return len(d.mirror().Upstream) == 2 })
	require.Equal(t, []string{sourceID, "CCCCCCCCCCCCCCCCCCCCCC"}, d.mirror().Upstream)
	upstream("CCCCCCCCCCCCCCCCCCCCCC", ownID)
	d.awaitState(quorum.Failed)
	require.Contains(t, d.mirror().Error, "a loop")
	require.Contains(t, d.mirror().Error, "from CCCCCCCCCCCCCCCCCCCCCC, which is mirrored from "+ownID)
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)
	require.Empty(t, d.mirror().Upstream)
}

// A log that starts above zero is copied from there on.
func TestASourceWhoseLogStartsLater(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()[2:]...)
	d.create(s.addr())
	d.desire(quorum.Mirroring)
	d.awaitBytes(s.log)
	require.EqualValues(t, 4, d.mirror().AlignedAt)
	require.Nil(t, d.mirror().AlignCut, "nothing was there")
	d.desire(quorum.Stopped)
	d.requireStopped(s.log, 11)
}
