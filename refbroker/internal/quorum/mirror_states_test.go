package quorum

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
)

// mirrored is an image with one mirrored partition t-0 in the state.
func mirrored(state MirrorState, aligned bool) *Image {
	img := NewImage("dddddddddddddddddddddd")
	img.Brokers[1] = &Broker{ID: 1}
	img.Mirrors["m"] = &Mirror{Name: "m", SourceClusterID: "ssssssssssssssssssssss"}
	p := &Partition{Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, LeaderEpoch: 4, Mirror: MirrorPartition{State: state, Aligned: aligned}}
	if aligned {
		p.Mirror.AlignedAt = 5
	}
	img.Topics["t"] = &Topic{Name: "t", ID: [16]byte{1}, Mirror: "m", Desired: Mirroring, Partitions: []*Partition{p}}
	return img
}

// event is the command that an event is.
func (e MirrorEvent) command(from MirrorState) Command {
	desire := func(want MirrorState) Command {
		return SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: want}
	}
	state := func(to MirrorState) Command {
		return SetMirrorState{Topic: "t", LeaderEpoch: 4, From: from, To: to, Error: "why"}
	}
	switch e {
	case EventStart:
		return desire(Mirroring)
	case EventPause:
		return desire(Paused)
	case EventStop:
		return desire(Stopped)
	case EventAlign:
		return AlignMirror{Topic: "t", LeaderEpoch: 4, Target: 3, LogEpoch: 9}
	case EventMirror:
		return state(Mirroring)
	case EventFence:
		return state(EpochFencing)
	case EventPaused:
		return state(Paused)
	case EventFail:
		return state(Failed)
	case EventStay:
		return state(from)
	case EventCut:
		return CutForStop{Topic: "t", LeaderEpoch: 4, L: 7, LogEpoch: 9}
	case EventFinish:
		return FinishStop{Topic: "t", LeaderEpoch: 4}
	}
	panic(e)
}

// Every state meets every event, with a log that is aligned and with one that is
// not: the state that follows, or "" for a refusal. Written down a second time,
// on purpose: what the table of transitions says is not taken from itself.
func TestStatesAndEvents(t *testing.T) {
	const (
		un, tr, fe, mi, pg, pd, sg, sd, fa, no = "UNKNOWN", "LOG_TRUNCATION", "EPOCH_FENCING", "MIRRORING", "PAUSING", "PAUSED", "STOPPING", "STOPPED", "FAILED", ""
	)
	table := []struct {
		state   MirrorState
		aligned bool
		next    []string // by event
	}{
		//                       start pause stop align mirror fence paused fail stay cut finish
		{Unknown, false, []string{tr, no, un, no, no, no, no, no, no, no, no}},
		{Unknown, true, []string{tr, no, un, no, no, no, no, no, no, no, no}},
		{LogTruncation, false, []string{tr, pg, sg, tr, mi, no, no, fa, tr, no, no}},
		{LogTruncation, true, []string{tr, pg, sg, tr, mi, no, no, fa, tr, no, no}},
		{EpochFencing, false, []string{fe, pg, sg, no, mi, fe, no, fa, fe, no, no}},
		{EpochFencing, true, []string{fe, pg, sg, no, mi, fe, no, fa, fe, no, no}},
		{Mirroring, false, []string{mi, pg, sg, mi, mi, fe, no, fa, mi, no, no}},
		{Mirroring, true, []string{mi, pg, sg, mi, mi, fe, no, fa, mi, no, no}},
		{Pausing, false, []string{tr, pg, sg, no, no, no, pd, fa, pg, no, no}},
		{Pausing, true, []string{mi, pg, sg, no, no, no, pd, fa, pg, no, no}},
		{Paused, false, []string{tr, pd, sg, no, no, no, no, no, no, no, no}},
		{Paused, true, []string{mi, pd, sg, no, no, no, no, no, no, no, no}},
		{Stopping, false, []string{no, no, sg, no, no, no, no, no, sg, no, sd}},
		{Stopping, true, []string{no, no, sg, no, no, no, no, no, sg, sg, no}}, // no finish before the cut
		{Stopped, false, []string{tr, no, sd, no, no, no, no, no, no, no, no}},
		{Stopped, true, []string{tr, no, sd, no, no, no, no, no, no, no, no}},
		{Failed, false, []string{tr, pg, sg, no, no, no, no, no, no, no, no}},
		{Failed, true, []string{mi, pg, sg, no, no, no, no, no, no, no, no}},
	}
	require.Len(t, table, 2*len(MirrorStates()), "every state, aligned and not")
	for _, row := range table {
		require.Len(t, row.next, len(MirrorEvents()))
		for i, e := range MirrorEvents() {
			t.Run(fmt.Sprintf("%s aligned=%v %s", row.state, row.aligned, e), func(t *testing.T) {
				img := mirrored(row.state, row.aligned)
				before := fmt.Sprintf("%+v", part(img))
				next, _, err := e.command(row.state).apply(img)
				require.Equal(t, before, fmt.Sprintf("%+v", part(img)), "the old image changed")
				if row.next[i] == no {
					require.Error(t, err)
					var k *kerr.Error
					require.ErrorAs(t, err, &k, "a refusal has a code")
					return
				}
				require.NoError(t, err)
				require.Equal(t, row.next[i], part(next).Mirror.State.String())
			})
		}
	}
}

// A resume is what a start is to whatever mirrors, paused or FAILED, and keeps the
// leave to discard that the start had given; what is stopped it leaves alone.
func TestResume(t *testing.T) {
	for _, state := range []MirrorState{LogTruncation, EpochFencing, Mirroring, Pausing, Paused, Failed} {
		for _, aligned := range []bool{false, true} {
			for _, desired := range []MirrorState{Mirroring, Paused} {
				t.Run(fmt.Sprintf("%s aligned=%v desired %s", state, aligned, desired), func(t *testing.T) {
					img := mirrored(state, aligned)
					img.Topics["t"].Desired = desired
					part(img).Mirror.Discard, part(img).Mirror.Error, part(img).Mirror.Attempts = true, "why", 3
					want, err := state.next(EventStart, aligned)
					require.NoError(t, err)
					next := apply(t, img, SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: Mirroring, Resume: true})
					require.Equal(t, Mirroring, next.Topics["t"].Desired)
					got := part(next).Mirror
					require.Equal(t, want, got.State)
					if !aligned {
						require.True(t, got.Discard, "what the operator allowed once")
					}
					require.Empty(t, got.Error)
					require.Zero(t, got.Attempts)
				})
			}
		}
	}
	img := mirrored(Stopped, true)
	img.Topics["t"].Desired = Stopped
	_, _, err := SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: Mirroring, Resume: true}.apply(img)
	require.ErrorIs(t, err, ErrMirrorTopicNotPaused)
}

// A partition is in one state of an event at most one state later, and none is a
// dead end.
func TestTransitionsAreUnambiguous(t *testing.T) {
	seen := map[string]bool{}
	leaves := map[MirrorState]bool{}
	for _, tr := range MirrorTransitions() {
		for _, aligned := range []bool{false, true} {
			if !tr.guard.holds(aligned) {
				continue
			}
			key := fmt.Sprint(tr.From, tr.Event, aligned)
			require.False(t, seen[key], "%s meets %s twice", tr.From, tr.Event)
			seen[key] = true
		}
		leaves[tr.From] = leaves[tr.From] || tr.From != tr.To
		if tr.Event == EventStop && tr.From != Unknown && tr.From != Stopped {
			require.Equal(t, Stopping, tr.To, "a stop is accepted in every state (OPS-1)")
		}
	}
	for _, s := range MirrorStates() {
		require.True(t, leaves[s], "nothing leads out of %s", s)
		require.True(t, seen[fmt.Sprint(s, EventStop, true)], "a stop is accepted in %s", s)
	}
}

func apply(t *testing.T, img *Image, c Command) *Image {
	t.Helper()
	next, _, err := c.apply(img)
	require.NoError(t, err)
	return next
}

func part(img *Image) *Partition { return img.Topics["t"].Partitions[0] }

func TestAStopIsOneRecordWithAnEpochAboveTheLog(t *testing.T) {
	img := mirrored(Mirroring, true)
	p := *part(img)
	p.Mirror.Stops = []psm.Stop{{L: 3, BarrierOffset: 3, Epoch: 1}, {L: 7, BarrierOffset: 7, Epoch: 2}}
	img.Topics["t"].Partitions[0] = &p
	img = apply(t, img, SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: Stopped})
	cut := CutForStop{Topic: "t", LeaderEpoch: 4, L: 7, LogEpoch: 9, LastMirroredOffset: 6, LastMirroredEpoch: 8, SourceClusterID: "s"}
	img = apply(t, img, cut)
	require.EqualValues(t, 10, part(img).LeaderEpoch)
	require.Equal(t, &StopRecord{L: 7, Epoch: 10, SourceClusterID: "s"}, part(img).Mirror.Current)
	require.Equal(t, []psm.Stop{{L: 3, BarrierOffset: 3, Epoch: 1}, {L: 7, BarrierOffset: 7, Epoch: 10, SourceClusterID: "s"}}, part(img).Mirror.Stops)
	for _, epoch := range []int32{4, 10} { // the retry of a request, and of a new leader
		cut.LeaderEpoch = epoch
		_, _, err := cut.apply(img)
		require.Error(t, err)
	}
	img = apply(t, img, FinishStop{Topic: "t", LeaderEpoch: 10})
	require.Nil(t, part(img).Mirror.Current)
	require.True(t, part(img).Mirror.State.Writable())
	require.EqualValues(t, 6, part(img).Mirror.LastMirroredOffset)

	img = apply(t, img, SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: Mirroring})
	require.False(t, part(img).Mirror.Aligned)
	img = apply(t, img, AlignMirror{Topic: "t", LeaderEpoch: 10, Target: 7, LogEpoch: 10})
	require.EqualValues(t, 11, part(img).LeaderEpoch)
	require.Equal(t, []psm.Stop{{L: 3, BarrierOffset: 3, Epoch: 1}}, part(img).Mirror.Stops, "the barrier at 7 is cut away")
}

func TestADivergenceLowersTheAlignmentOnly(t *testing.T) {
	img := mirrored(Mirroring, true)
	img = apply(t, img, AlignMirror{Topic: "t", LeaderEpoch: 4, Target: 8, LogEpoch: 2})
	require.EqualValues(t, 5, part(img).Mirror.AlignedAt)
	_, _, err := AlignMirror{Topic: "t", LeaderEpoch: 5, Target: 2, LogEpoch: 2}.apply(img)
	require.ErrorIs(t, err, kerr.InvalidUpdateVersion, "before the log was cut")
	img = apply(t, img, SetMirrorState{Topic: "t", LeaderEpoch: 5, From: Mirroring, To: Mirroring, Cut: true})
	img = apply(t, img, AlignMirror{Topic: "t", LeaderEpoch: 5, Target: 2, LogEpoch: 2})
	require.EqualValues(t, 2, part(img).Mirror.AlignedAt)
}

// Until the log has followed an alignment's record, it is neither mirrored into
// nor stopped (BAR-3).
func TestAnAlignmentIsCutBeforeAnythingElse(t *testing.T) {
	img := mirrored(LogTruncation, false)
	img = apply(t, img, AlignMirror{Topic: "t", LeaderEpoch: 4, Target: 8, LogEpoch: 9})
	require.Equal(t, &AlignRecord{At: 8, Epoch: 10}, part(img).Mirror.Cutting)
	mirroring := SetMirrorState{Topic: "t", LeaderEpoch: 10, From: LogTruncation, To: Mirroring}
	_, _, err := mirroring.apply(img)
	require.ErrorIs(t, err, kerr.InvalidUpdateVersion)
	img = apply(t, img, SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: Stopped})
	cut := CutForStop{Topic: "t", LeaderEpoch: 10, L: 20, LogEpoch: 9, SourceClusterID: "s"}
	_, _, err = cut.apply(img)
	require.ErrorIs(t, err, kerr.InvalidUpdateVersion)
	require.ErrorContains(t, err, "cut to 8")

	done := apply(t, img, SetMirrorState{Topic: "t", LeaderEpoch: 10, From: Stopping, To: Stopping, Cut: true})
	require.Nil(t, part(done).Mirror.Cutting)
	require.Equal(t, Stopping, part(done).Mirror.State)
	cut.L = 8
	apply(t, done, cut)
}
