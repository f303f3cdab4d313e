package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
)

func TestAStopCutsToTheLSOAndWritesOneBarrier(t *testing.T) {
	g := &stoppingGate{}
	d := newDestination(t)
	d.crash()
	d.gate = g
	d.start()
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.part.stable(9)
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches()[:3], 9)
	require.EqualValues(t, 4, d.mirror().LastMirroredEpoch)
	d.desire(quorum.Stopped) // again
	d.await("the last gate", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.passed) >= 15 })
	var want []string
	for _, step := range Steps() {
		want = append(want, "before:"+step)
		if step == StepTruncated {
			want = append(want, PointRecorded)
		}
		want = append(want, "after:"+step)
	}
	require.Equal(t, want, g.passed)
	require.Equal(t, []string{
		"fetchers-removed", "settled", "truncated", "last-mirrored-offset-persisted", "barrier-appended", "barrier-committed", "stopped",
	}, Steps())
	d.await("the end of every connection to the source", func() bool { return s.open() == 0 })
}

func TestAStopGoesOnAfterACrashAtEveryPoint(t *testing.T) {
	points := []string{PointRecorded}
	for _, step := range Steps() {
		points = append(points, "before:"+step, "after:"+step)
	}
	for _, sourceDead := range []bool{false, true} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s source dead %v", point, sourceDead), func(t *testing.T) {
				d := newDestination(t)
				s := newFakeSource(t, "127.0.0.1:0", sourceID)
				s.put(4, someBatches()...)
				d.mirrorAll(s)
				d.part.stable(9)
				d.crashAt(point)
				if sourceDead {
					s.kill()
				}
				d.desire(quorum.Stopped)
				d.restartAfterCrash()
				if !sourceDead {
					s.put(4, data(11, 1, 4, "later"))
				}
				d.requireStopped(someBatches()[:3], 9)
			})
		}
	}
}

func TestAStepThatFailsIsTriedAgainAndSaysWhy(t *testing.T) {
	g := &stoppingGate{}
	d := newDestination(t)
	d.crash()
	d.gate = g
	d.start()
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.part.mu.Lock()
	d.part.refuse = errors.New("disk is full")
	d.part.mu.Unlock()
	d.desire(quorum.Stopped)
	d.await("the cause", func() bool {
		st, _ := d.m.Status("t", topicID, 0)
		return st.Phase == StepBarrierAppended && st.Attempts > 1 && st.Error == "step barrier-appended: disk is full"
	})
	d.part.mu.Lock()
	d.part.refuse = nil
	d.part.mu.Unlock()
	d.requireStopped(someBatches(), 11)
	d.await("the last gate", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.passed) >= 15 })
	require.Len(t, g.passed, 15, "a gate was passed twice: %v", g.passed)
}

// forgetful is a quorum that takes the record of a cut, and loses the answer to it
// once.
type forgetful struct {
	*quorum.Node
	lost atomic.Bool
}

func (q *forgetful) Apply(ctx context.Context, c quorum.Command) (any, error) {
	cut := func() bool { return q.Image().Topics["t"].Partitions[0].Mirror.Current != nil }
	before := cut()
	res, err := q.Node.Apply(ctx, c)
	if err == nil && !before && cut() && q.lost.CompareAndSwap(false, true) {
		return nil, errors.New("leadership lost while committing log")
	}
	return res, err
}

// The answer to the record of the cut is lost: the gate behind it is passed all the
// same, once, when the record is found there.
func TestTheAnswerToTheCutIsLost(t *testing.T) {
	g := &stoppingGate{}
	d := newDestination(t)
	d.crash()
	d.gate = g
	q := &forgetful{Node: d.quorum}
	d.through = q
	d.start()
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.part.stable(9)
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches()[:3], 9)
	require.True(t, q.lost.Load())
	d.await("the last gate", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.passed) >= 15 })
	require.Len(t, g.passed, 15)
	require.Equal(t, []string{"before:" + StepTruncated, PointRecorded, "after:" + StepTruncated}, g.passed[4:7])
}

// What tells of a late step while that ends is waited for: it would tell of the
// step when that is behind.
func TestAStepIsNotOverWhileItIsToldToBeLate(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.crash()
	g := &stoppingGate{}
	d.gate = g
	settle := make(chan struct{})
	d.part.settle = settle
	d.start()
	d.desire(quorum.Stopped)
	phase := func() string { st, _ := d.m.Status("t", topicID, 0); return st.Phase }
	d.await("the step to settle", func() bool { return phase() == StepSettled })
	telling, told := make(chan struct{}), make(chan struct{})
	var asked atomic.Bool // who tells asks first
	d.part.mu.Lock()
	d.part.asked = func() {
		if asked.CompareAndSwap(false, true) {
			close(telling)
			<-told
		}
	}
	d.part.mu.Unlock()
	<-telling
	close(settle)
	passed := func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return slices.Contains(g.passed, "after:"+StepSettled)
	}
	require.Never(t, passed, 100*time.Millisecond, time.Millisecond, "the step is over")
	close(told)
	d.requireStopped(someBatches(), 11)
	st, _ := d.m.Status("t", topicID, 0)
	require.Empty(t, st.Error)
}

func TestAStopNeedsNoSourceAlsoAfterARestart(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.kill()
	d.crash()
	d.start()
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)
}

func TestAStopBeforeAlignmentWritesNothing(t *testing.T) {
	d := newDestination(t)
	d.part.log = [][]byte{data(0, 2, 0, "own")}
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	addr := s.addr()
	s.kill()
	d.create(addr)
	d.desire(quorum.Mirroring)
	d.await("an error", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Error != "" })
	d.part.mu.Lock()
	d.part.unpaid = errors.New("a coordinator is being loaded")
	d.part.mu.Unlock()
	d.desire(quorum.Stopped)
	d.await("what is in the way", func() bool {
		st, _ := d.m.Status("t", topicID, 0)
		return st.Phase == StepStopped && strings.Contains(st.Error, "owes: a coordinator is being loaded")
	})
	require.Equal(t, quorum.Stopping, d.mirror().State)
	d.part.mu.Lock()
	d.part.unpaid = nil
	d.part.mu.Unlock()
	d.awaitState(quorum.Stopped)
	require.Equal(t, [][]byte{data(0, 2, 0, "own")}, d.part.bytes())
	require.Empty(t, d.mirror().Stops)
	d.part.mu.Lock()
	defer d.part.mu.Unlock()
	require.NotContains(t, d.settled, quorum.Stopped)
}

func TestABarrierOfTheSourceIsNotTakenForTheStopsOwn(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	inherited := psm.Barrier{SourceClusterID: sourceID}.Append(nil)
	psm.SetOffsets(inherited, 9, 4)
	s.put(4, append(someBatches()[:3], inherited)...)
	d.mirrorAll(s)
	d.part.stable(9)
	d.crashAt(PointRecorded)
	d.desire(quorum.Stopped)
	d.restartAfterCrash()
	d.requireStopped(someBatches()[:3], 9)
}

// heldResponse mirrors, and then leaves a response with records in flight.
func heldResponse(t *testing.T, faults ...string) (*destination, *fakeSource) {
	d := newDestination(t)
	if len(faults) > 0 {
		set, err := defect.Parse(faults)
		require.NoError(t, err)
		d.crash()
		d.faults = set
		d.start()
	}
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.mu.Lock()
	s.hold = make(chan struct{})
	s.mu.Unlock()
	s.put(4, data(11, 1, 4, "in flight"))
	<-s.held
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)
	return d, s
}

func TestAResponseInFlightIsNotAppended(t *testing.T) {
	d, s := heldResponse(t)
	d.await("the connection's end, while the response is held", func() bool { return d.dialled.Load() == 0 })
	s.release()
	d.await("the connection's end", func() bool { return s.open() == 0 })
	d.requireStopped(someBatches(), 11)
	require.Zero(t, d.part.late, "the connection should have been closed before it came to that")
}

func TestTheDefectHandsALateResponseOn(t *testing.T) {
	d, s := heldResponse(t, string(defect.LateFetchAppended))
	s.release()
	d.await("the late append", func() bool { d.part.mu.Lock(); defer d.part.mu.Unlock(); return d.part.late == 1 })
}

func TestTheDefectLeavesTheBarrierOut(t *testing.T) {
	g := &stoppingGate{}
	d := newDestination(t)
	set, err := defect.Parse([]string{string(defect.NoBarrier)})
	require.NoError(t, err)
	d.crash()
	d.faults, d.gate = set, g
	d.start()
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
	require.Equal(t, someBatches(), d.part.bytes())
	d.await("the last gate", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.passed) >= 15 })
}

// BAR-5: an in-sync replica that has not the barrier yet holds the stop up.
func TestTheDefectDoesNotWaitForTheBarrier(t *testing.T) {
	for _, wrong := range []bool{true, false} {
		t.Run(fmt.Sprintf("wrong %v", wrong), func(t *testing.T) {
			d := newDestination(t)
			d.crash()
			if wrong {
				var err error
				d.faults, err = defect.Parse([]string{string(defect.BarrierNotWaitedFor)})
				require.NoError(t, err)
			}
			d.part.commit = make(chan struct{})
			d.start()
			s := newFakeSource(t, "127.0.0.1:0", sourceID)
			s.put(4, someBatches()...)
			d.mirrorAll(s)
			d.desire(quorum.Stopped)
			if !wrong {
				d.await("the wait", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Phase == StepBarrierCommitted })
				require.Equal(t, quorum.Stopping, d.mirror().State)
				close(d.part.commit)
			}
			d.requireStopped(someBatches(), 11)
		})
	}
}

// BAR-1: a leader that finds its predecessor's barrier writes no other.
func TestTheDefectAddsABarrierAmidAStop(t *testing.T) {
	for _, wrong := range []bool{true, false} {
		t.Run(fmt.Sprintf("wrong %v", wrong), func(t *testing.T) {
			d := newDestination(t)
			if wrong {
				var err error
				d.faults, err = defect.Parse([]string{string(defect.NextLeaderAddsBarrier)})
				require.NoError(t, err)
			}
			s := newFakeSource(t, "127.0.0.1:0", sourceID)
			s.put(4, someBatches()...)
			d.mirrorAll(s)
			d.part.stable(9)
			d.crashAt("after:" + StepBarrierAppended)
			d.desire(quorum.Stopped)
			d.restartAfterCrash()
			d.awaitState(quorum.Stopped)
			barriers := 0
			for _, raw := range d.part.bytes() {
				b, err := psm.DecodeBatch(raw)
				require.NoError(t, err)
				if b.IsBarrier() {
					barriers++
				}
			}
			require.Equal(t, map[bool]int{true: 2, false: 1}[wrong], barriers)
		})
	}
}
