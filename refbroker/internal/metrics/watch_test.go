package metrics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/quorum"
)

// at makes a version of the metadata with one topic of one partition.
func at(id byte, leader int32, isr []int32, state quorum.MirrorState) *quorum.Image {
	return &quorum.Image{Topics: map[string]*quorum.Topic{"t": {Name: "t", ID: [16]byte{id}, Partitions: []*quorum.Partition{{
		Replicas: []int32{1, 2, 3}, ISR: isr, Leader: leader, Mirror: quorum.MirrorPartition{State: state},
	}}}}}
}

func TestWatchCountsWhatChangesBetweenVersions(t *testing.T) {
	const m, stopping, stopped = quorum.Mirroring, quorum.Stopping, quorum.Stopped
	w := NewWatch(1)
	now := time.Unix(1000, 0)
	before := &quorum.Image{}
	for i, step := range []struct {
		img             *quorum.Image
		after           time.Duration
		shrinks, expand int64
		stops           uint64
		took            float64
	}{
		{at(1, 1, []int32{1, 2, 3}, m), 0, 0, 0, 0, 0}, // the first sight of a topic is no change
		{at(1, 1, []int32{1, 2}, m), 0, 1, 0, 0, 0},
		{at(1, 1, []int32{1}, m), 0, 2, 0, 0, 0},
		{at(1, 1, []int32{1, 2, 3}, m), 0, 2, 2, 0, 0},
		{at(1, 2, []int32{2, 3}, m), 0, 2, 2, 0, 0}, // another's
		{at(1, 1, []int32{1, 2, 3}, stopping), 0, 2, 3, 0, 0},
		{at(1, 2, []int32{1, 2, 3}, stopping), time.Second, 2, 3, 0, 0}, // a stop outlives its leader
		{at(1, 1, []int32{1, 2, 3}, stopped), time.Second, 2, 3, 1, 2},
		{at(1, 1, []int32{1, 2, 3}, stopping), 0, 2, 3, 1, 2},
		{at(1, 2, []int32{1, 2, 3}, stopped), time.Second, 2, 3, 1, 2}, // another's
		{at(1, 1, []int32{1, 2, 3}, stopping), 0, 2, 3, 1, 2},
		{at(2, 1, []int32{1}, stopped), time.Second, 2, 3, 1, 2}, // a topic made anew
		{at(2, 1, []int32{1}, stopping), 0, 2, 3, 1, 2},
		{at(2, 1, []int32{1}, stopped), 30 * time.Millisecond, 2, 3, 2, 2.03},
	} {
		now = now.Add(step.after)
		w.see(before, step.img, now)
		before = step.img
		shrinks, expand := w.isr()
		count, sum, buckets := w.stops()
		require.Equal(t, []any{step.shrinks, step.expand, step.stops}, []any{shrinks, expand, count}, "step %d", i)
		require.InDelta(t, step.took, sum, 1e-9, "step %d", i)
		require.Equal(t, step.stops, buckets[60], "step %d", i)
	}
	_, _, buckets := w.stops()
	require.Equal(t, []uint64{0, 1, 1, 2}, []uint64{buckets[0.025], buckets[0.05], buckets[1], buckets[2.5]})
}

func TestLeaderships(t *testing.T) {
	img := at(1, -1, nil, quorum.Unknown)
	img.Topics["u"] = &quorum.Topic{Partitions: []*quorum.Partition{{Replicas: []int32{2, 1}, Leader: 1}, {Replicas: []int32{1, 2}, Leader: 1}}}
	offline, moved := leaderships(img)
	require.Equal(t, []int{1, 1}, []int{offline, moved})
}
