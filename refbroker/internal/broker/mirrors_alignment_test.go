package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/replica"
)

// elect makes the leader epoch of the partition at least epoch, as elections do.
func (n *mirrorNode) elect(epoch int32) {
	n.t.Helper()
	req := mirrorrpc.NewBumpLeaderEpochsRequest()
	req.Topics = []mirrorrpc.BumpTopic{{TopicID: n.part().TopicID(), Partitions: []mirrorrpc.BumpPartition{{MinLeaderEpoch: epoch - 1}}}}
	_, err := n.mirrors().R.Request(n.t.Context(), req)
	require.NoError(n.t, err)
	require.Equal(n.t, epoch, n.epoch())
}

func (n *mirrorNode) epoch() int32 { return n.part().Offsets().LeaderEpoch }

// promoted is A, and B that was mirrored from it and stopped, with an open
// transaction cut, and written to since.
func promoted(t *testing.T) (a, b *mirrorNode, l int64) {
	a = newSource(t, clusterA)
	b = startMirrorNode(t, clusterB)
	send(t, a.client(), "a1")
	send(t, a.client(), "a2")
	b.mirrorOf(a)
	leaveOpen(t, a, "a-open")
	b.equals(a)
	p := b.stopFrom(a)
	send(t, b.client(), "b1", "b2", "b3")
	return a, b, p.StopOffset
}

// AL-1: A lives on and elects the epochs that B's promotion used, and writes more
// in them than B has.
func TestAFailbackFindsWhereTheLogsPartThoughTheEpochsCollide(t *testing.T) {
	t.Parallel()
	a, b, l := promoted(t)
	a.elect(b.epoch())
	for range 10 {
		send(t, a.client(), "zombie")
	}
	require.Greater(t, a.end(), b.end())
	require.Equal(t, a.part().Offsets().LogEpoch, b.part().Offsets().LogEpoch)
	end := a.end()
	p := a.mirrorOf(b)
	require.Equal(t, l, p.AlignedAt)
	require.Equal(t, mirrorrpc.CutReport{From: l, To: end, Records: end - l}, p.AlignmentCut)
	require.Equal(t, b.barriers(), a.barriers())
	require.Equal(t, []string{clusterB, clusterA}[:1], p.UpstreamClusterIDs)
	require.GreaterOrEqual(t, a.epoch(), b.epoch(), "LOG-5")
	// RO-1: the zombies' producers are refused.
	require.Error(t, a.client().ProduceSync(t.Context(), zombieRecord()).FirstErr())
	a.equals(b)
}

// PSM-9: what B wrote since its stop goes when it is mirrored from A again, and
// with its barrier goes what the barrier did: A's producers are known again.
func TestAMirrorThatIsStartedAgainKnowsTheSourcesProducersAgain(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprintf("written to %v", written), func(t *testing.T) {
			a := newSource(t, clusterA)
			b := startMirrorNode(t, clusterB)
			send(t, a.client(), "a1", "a2")
			b.mirrorOf(a)
			l := b.stopFrom(a).StopOffset
			require.Empty(t, b.part().Producers())
			cut := mirrorrpc.CutReport{From: l, To: l + 1}
			if written {
				send(t, b.client(), "b1", "b2")
				cut.To, cut.Records = l+3, 2
			}
			a.elect(b.epoch())
			send(t, a.client(), "a3", "a4", "a5", "a6")
			p := b.mirrorOf(a)
			require.Equal(t, l, p.AlignedAt)
			require.Equal(t, cut, p.AlignmentCut)
			require.Empty(t, b.barriers())
			require.Equal(t, a.part().Producers(), b.part().Producers())
			q := b.stopFrom(a)
			require.Equal(t, []string{fmt.Sprintf("%d B<-A", q.StopOffset)}, b.barriers())
			require.Equal(t, a.end(), q.StopOffset)
		})
	}
}

// CH-3, and AL-1 while a mirror runs: B is promoted and then mirrors from A
// again, which has elected B's epoch: C has records of B in the very epochs that
// B now has of A. Only the barrier tells.
func TestADownstreamFollowsASourceThatIsMirroredAgain(t *testing.T) {
	t.Parallel()
	a, b, _ := promoted(t)
	c := startMirrorNode(t, clusterC)
	c.mirrorOf(b)
	require.Len(t, c.barriers(), 1)
	a.elect(b.epoch())
	for range 10 {
		send(t, a.client(), "a lives on")
	}
	require.Greater(t, a.end(), b.end())
	b.mirrorOf(a)
	c.equals(a)
	require.Empty(t, c.barriers())
	require.Equal(t, a.part().Producers(), c.part().Producers())
}

// FO-1 and re-pointing: B and C stop alone, at the same offset, and then C
// mirrors B: they share A.
func TestFanOutAndRepointing(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{true, false} {
		t.Run(fmt.Sprintf("together %v", together), func(t *testing.T) {
			a := newSource(t, clusterA)
			b, c := startMirrorNode(t, clusterB), startMirrorNode(t, clusterC)
			send(t, a.client(), "a1", "a2")
			b.mirrorOf(a)
			c.mirrorOf(a)
			first := b.stopFrom(a)
			if !together {
				send(t, a.client(), "a3")
				c.equals(a)
			}
			require.NoError(t, a.Close())
			second := c.stopFrom(a)
			require.Equal(t, []string{fmt.Sprintf("%d B<-A", first.StopOffset)}, b.barriers())
			require.Equal(t, []string{fmt.Sprintf("%d C<-A", second.StopOffset)}, c.barriers())
			send(t, b.client(), "b1", "b2")
			send(t, c.client(), "c1")
			p := c.mirrorOf(b)
			require.Equal(t, first.StopOffset, p.AlignedAt)
			require.Equal(t, []string{fmt.Sprintf("%d B<-A", first.StopOffset)}, c.barriers())
			q := c.stopFrom(b)
			require.Equal(t, fmt.Sprintf("%d C<-B", q.StopOffset), c.barriers()[1])
			require.NoError(t, a.Node.end(true))
		})
	}
}

// The middle of a chain dies; its downstream is promoted, and the first cluster
// mirrors that: their only link is what the dead one told.
func TestAFailbackPastADeadMiddle(t *testing.T) {
	t.Parallel()
	a := newSource(t, clusterA)
	b, c := startMirrorNode(t, clusterB), startMirrorNode(t, clusterC)
	send(t, a.client(), "a1", "a2")
	b.mirrorOf(a)
	c.mirrorOf(b)
	require.NoError(t, b.Kill())
	l := c.stopFrom(b).StopOffset
	send(t, c.client(), "c1")
	send(t, a.client(), "a lives on")
	p := a.mirrorOf(c)
	require.Equal(t, l, p.AlignedAt)
	require.Equal(t, []string{fmt.Sprintf("%d C<-B", l)}, a.barriers())
}

// PSM-5 and BAR-8: an inherited barrier expires nothing, and who wrote it is
// known, after kill -9 with and without snapshots, and without the list's file.
func TestAnInheritedBarrierOutlivesARestart(t *testing.T) {
	t.Parallel()
	a, b, l := promoted(t)
	a.mirrorOf(b)
	producers, barriers := a.part().Producers(), a.barriers()
	require.Greater(t, len(producers), len(b.part().Producers()), "the barrier expired A's own")
	for _, lost := range []string{"", ".snapshot"} {
		for _, clean := range []bool{true, false} {
			require.NoError(t, a.Node.end(clean))
			if lost != "" {
				found, err := filepath.Glob(filepath.Join(a.conf.DataDir, "logs", "t-0", "*"+lost))
				require.NoError(t, err)
				for _, name := range found {
					require.NoError(t, os.Remove(name))
				}
			}
			a.start()
			require.Equal(t, producers, a.part().Producers(), "lost %q clean %v", lost, clean)
			require.Equal(t, barriers, a.barriers(), "lost %q clean %v", lost, clean)
			a.equals(b)
		}
	}
	// Its own barrier does expire, there and after a restart.
	q := a.stopFrom(b)
	for range 2 {
		require.Empty(t, a.part().Producers())
		require.Equal(t, []string{fmt.Sprintf("%d B<-A", l), fmt.Sprintf("%d A<-B", q.StopOffset)}, a.barriers())
		require.NoError(t, a.Kill())
		a.start()
	}
}

// The list outlives the barriers' deletion, also after a restart: B's log begins
// above the offset where A's parts from it, so A copies it anew.
func TestALogIsCopiedAnewWhenTheSourcesBeginsAboveThePartingPoint(t *testing.T) {
	t.Parallel()
	a, b, l := promoted(t)
	p, ok := b.part().(*replica.Partition)
	require.True(t, ok)
	_, err := p.DeleteRecords(l + 2)
	require.NoError(t, err)
	require.NoError(t, b.Kill())
	b.start()
	require.Equal(t, []string{fmt.Sprintf("%d B<-A", l)}, b.barriers())
	end := a.end()
	m := a.mirrorOf(b)
	require.Equal(t, l+2, m.AlignedAt)
	require.Equal(t, mirrorrpc.CutReport{From: 0, To: end, Records: end}, m.AlignmentCut)
	require.Equal(t, b.barriers(), a.barriers(), "those below the log's start")
	require.NoError(t, a.Kill())
	a.start()
	require.Equal(t, l+2, a.part().Offsets().LogStart)
	require.Equal(t, b.barriers(), a.barriers())
	// The next failback needs no such cut.
	a.stopFrom(b)
	send(t, a.client(), "a again")
	q := b.mirrorOf(a)
	require.Equal(t, b.part().Offsets().LogStart, l+2)
	require.Greater(t, q.AlignedAt, l+2)
}

func TestTheLogStartFollowsTheSources(t *testing.T) {
	a := newSource(t, clusterA)
	b := startMirrorNode(t, clusterB)
	send(t, a.client(), "a1", "a2", "a3")
	b.mirrorOf(a)
	p, ok := a.part().(*replica.Partition)
	require.True(t, ok)
	_, err := p.DeleteRecords(2)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return b.part().Offsets().LogStart == 2 }, 10*time.Second, time.Millisecond)
	require.NoError(t, b.Kill())
	b.start()
	require.EqualValues(t, 2, b.part().Offsets().LogStart)
	b.equals(a)
}

// startWithout starts a mirror of a source that is not there.
func (n *mirrorNode) startWithout(source *mirrorNode, id [16]byte) {
	n.t.Helper()
	n.startUnasked(n.linkTo(source), id, 1)
}

// startUnasked starts topic t with what it is on the source, which is not asked.
func (n *mirrorNode) startUnasked(name string, id [16]byte, partitions int32) {
	n.t.Helper()
	req := mirrorrpc.NewStartMirrorTopicsRequest()
	req.MirrorName, req.Topics = name, []mirrorrpc.StartTopic{{TopicName: "t", TopicID: id, NumPartitions: partitions}}
	resp, err := n.mirrors().R.Request(n.t.Context(), req)
	require.NoError(n.t, err)
	require.Zero(n.t, resp.(*mirrorrpc.TopicsResponse).ErrorCode)
}

// Records of another history are refused, with the way out named, and cut when
// the operator says so.
func TestDiscard(t *testing.T) {
	t.Parallel()
	a := newSource(t, clusterA)
	send(t, a.client(), "a1", "a2")
	b := startMirrorNode(t, clusterB)
	id := a.part().TopicID()
	require.NoError(t, a.Kill())
	c := b.mirrors()
	b.startWithout(a, id)
	require.NoError(t, c.Stop(t.Context(), "from-A", "t"))
	p := awaitNamed(t, c, "from-A", "STOPPED")
	require.EqualValues(t, -1, p.StopOffset, "no barrier before an alignment")
	send(t, b.client(), "b's own", "b's own", "b's own")
	a.start()
	err := c.Start(t.Context(), "from-A", "t")
	require.ErrorIs(t, err, kerr.InvalidRequest, "the start itself is refused where the source answers")
	require.ErrorContains(t, err, "not known to share")
	send(t, b.client(), "and it is writable still")
	require.NoError(t, a.Kill())
	require.NoError(t, c.Start(t.Context(), "from-A", "t"), "it can't be asked")
	a.start()
	p = awaitNamed(t, c, "from-A", "FAILED")
	require.Contains(t, *p.ErrorMessage, "t-0, which ends at offset 4")
	require.Contains(t, *p.ErrorMessage, "--discard")
	require.Len(t, b.batches(), 4)
	require.NoError(t, c.Stop(t.Context(), "from-A", "t"), "in FAILED")
	awaitNamed(t, c, "from-A", "STOPPED")
	require.Len(t, b.batches(), 4, "a stop before the alignment cuts nothing")

	require.NoError(t, c.StartAnew(t.Context(), "from-A", "t"))
	b.equals(a)
	p = awaitNamed(t, c, "from-A", "MIRRORING")
	require.Equal(t, mirrorrpc.CutReport{From: 0, To: 4, Records: 4}, p.AlignmentCut)
	require.ErrorIs(t, c.StartAnew(t.Context(), "from-A", "t"), mirrorrpc.ErrMirrorTopicNotStopped)
	b.stopFrom(a)
	log, ok := b.part().(*replica.Partition)
	require.True(t, ok)
	_, err = log.DeleteRecords(1)
	require.NoError(t, err)
	require.NoError(t, c.StartAnew(t.Context(), "from-A", "t"), "also where the history is shared")
	p = awaitNamed(t, c, "from-A", "MIRRORING")
	require.Equal(t, mirrorrpc.CutReport{From: 1, To: 3, Records: 1}, p.AlignmentCut)
	b.equals(a)
	require.NoError(t, b.Kill())
	b.start()
	require.Zero(t, b.part().Offsets().LogStart, "the old log's start is forgotten")
	b.equals(a)
}

// A mirror does not mix what its source has now, after --discard, with what it
// had before.
func TestASourceThatWasBegunAnewIsAnotherLog(t *testing.T) {
	t.Parallel()
	a, b, _ := promoted(t)
	c := startMirrorNode(t, clusterC)
	x := startMirrorNode(t, clusterD) // a stranger with the topic's id
	id := a.part().TopicID()
	require.NoError(t, a.Kill())
	x.startWithout(a, id)
	x.stopFrom(a)
	for range 10 {
		send(t, x.client(), "another log's")
	}
	c.mirrorOf(b)
	before := c.batches()
	require.NoError(t, b.mirrors().StartAnew(t.Context(), b.linkTo(x), "t"))
	b.equals(x)
	p := awaitNamed(t, c.mirrors(), "from-B", "FAILED")
	require.Contains(t, *p.ErrorMessage, "begun anew")
	require.Equal(t, before, c.batches())
	c.stopFrom(b)
	require.NoError(t, c.mirrors().StartAnew(t.Context(), "from-B", "t"))
	c.equals(x)
	require.NoError(t, a.Node.end(true))
}

// CH-4: also where the way back came into being after the mirror did.
func TestALoopIsRefused(t *testing.T) {
	t.Parallel()
	a, b, _ := promoted(t)
	c := startMirrorNode(t, clusterC)
	c.mirrorOf(b)
	refused := func(from *mirrorNode) {
		t.Helper()
		err := a.mirrors().Start(t.Context(), a.linkTo(from), "t")
		require.ErrorIs(t, err, kerr.InvalidRequest)
		require.ErrorContains(t, err, "a loop")
		require.False(t, a.part().ReadOnly())
	}
	b.mirrorOf(a)
	c.equals(a)
	refused(b)
	refused(c)
	// And by the mirror itself, when the source could not be asked before.
	addr := c.addr()
	require.NoError(t, c.Kill())
	a.startWithout(c, a.part().TopicID())
	c.start()
	require.Equal(t, addr, c.addr())
	p := awaitNamed(t, a.mirrors(), "from-C", "FAILED")
	require.Contains(t, *p.ErrorMessage, "a loop")
	end := a.end()
	a.stopFrom(c)
	require.Equal(t, end, a.end(), "nothing is cut")
	send(t, a.client(), "writable")
	c.equals(a)
}

// OPS-1: a stop is accepted in every state, and again; and after it the topic
// stays writable through a restart and the mirror's deletion (OPS-5).
func TestAStopInEveryState(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"LOG_TRUNCATION", "MIRRORING", "PAUSED", "FAILED", "STOPPED", "restarted MIRRORING"} {
		t.Run(state, func(t *testing.T) {
			a := newSource(t, clusterA)
			b := startMirrorNode(t, clusterB)
			send(t, a.client(), "a1", "a2")
			b.mirrorOf(a)
			c := b.mirrors()
			want := []string{"2 B<-A"}
			switch state {
			case "LOG_TRUNCATION":
				b.stopFrom(a)
				send(t, b.client(), "b1")
				require.NoError(t, a.Kill())
				require.NoError(t, c.Start(t.Context(), "from-A", "t"))
				p := awaitNamed(t, c, "from-A", state)
				require.Eventually(t, func() bool {
					p = awaitNamed(t, c, "from-A", state)
					return p.ErrorMessage != nil
				}, 10*time.Second, 5*time.Millisecond)
				require.Contains(t, *p.ErrorMessage, "connect to source broker", "OPS-2")
			case "PAUSED":
				require.NoError(t, c.Pause(t.Context(), "from-A", "t"))
				awaitNamed(t, c, "from-A", state)
			case "FAILED": // another cluster at the address (LINK-4)
				require.NoError(t, a.Close())
				other := startMirrorNode(t, clusterC)
				require.NoError(t, other.Close())
				other.conf.Listeners[0].Listen = a.addr()
				other.start()
				p := awaitNamed(t, c, "from-A", state)
				require.Contains(t, *p.ErrorMessage, clusterC)
			case "STOPPED":
				b.stopFrom(a)
			case "restarted MIRRORING":
				require.NoError(t, a.Kill())
				require.NoError(t, b.Kill())
				b.start()
				c = b.mirrors()
			}
			for range 3 {
				require.NoError(t, c.Stop(t.Context(), "from-A", "t"))
			}
			awaitNamed(t, c, "from-A", "STOPPED")
			require.Equal(t, want, b.barriers())
			require.NoError(t, c.Delete(t.Context(), "from-A"))
			send(t, b.client(), "after the mirror")
			require.NoError(t, b.Kill())
			b.start()
			send(t, b.client(), "after a restart")
			require.NoError(t, a.Node.end(true))
		})
	}
}

// Recorded mirroring outlives the mirror.
func TestTheHistoryOutlivesTheMirror(t *testing.T) {
	t.Parallel()
	a, b, l := promoted(t)
	require.NoError(t, b.mirrors().Delete(t.Context(), "from-A"))
	require.NoError(t, b.Kill())
	b.start()
	p := b.mirrorOf(a)
	require.Equal(t, l, p.AlignedAt)
	require.False(t, strings.Contains(fmt.Sprint(b.barriers()), "B"))
}
