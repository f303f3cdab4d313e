package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// offsetsImage is a cluster with two shards of the group coordinator, and t-0 in
// a state, in leader epoch 5.
func offsetsImage(state MirrorState) *Image {
	img := NewImage("B")
	img.Index = 10
	img.Topics[OffsetsTopic] = &Topic{Name: OffsetsTopic, Partitions: []*Partition{{LeaderEpoch: 1}, {LeaderEpoch: 2}}}
	img.Topics["t"] = &Topic{Name: "t", Mirror: "m", Partitions: []*Partition{{
		LeaderEpoch: 5, Mirror: MirrorPartition{State: state, Aligned: true},
	}}}
	img.Mirrors["m"] = &Mirror{Name: "m"}
	return img
}

// must applies a command as raft does.
func must(t *testing.T, img *Image, c Command) *Image {
	t.Helper()
	next, _, err := c.apply(img)
	require.NoError(t, err)
	next = next.clone()
	next.Index = img.Index + 1
	return next
}

func owedTo(img *Image) map[int32]int64 {
	all := map[int32]int64{}
	for _, shard := range img.Owing(img.Topics["t"].Partitions[0]) {
		all[shard], _ = img.Owed(shard, img.Topics["t"].Partitions[0])
	}
	return all
}

func TestAStopOwesALoweringOfCommits(t *testing.T) {
	img := offsetsImage(Stopping)
	require.Empty(t, owedTo(img))
	img = must(t, img, CutForStop{Topic: "t", LeaderEpoch: 5, L: 100})
	require.Equal(t, map[int32]int64{0: 100, 1: 100}, owedTo(img))

	_, _, err := LowerGroups{Shard: 0, LeaderEpoch: 0, Through: 11}.apply(img)
	require.ErrorIs(t, err, kerr.FencedLeaderEpoch, "who no longer leads the shard does not know what was committed")
	_, _, err = LowerGroups{Shard: 0, LeaderEpoch: 1, Through: 12}.apply(img)
	require.ErrorIs(t, err, kerr.InvalidRequest, "from the future")
	_, _, err = LowerGroups{Shard: 2, LeaderEpoch: 1, Through: 11}.apply(img)
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)

	img = must(t, img, LowerGroups{Shard: 0, LeaderEpoch: 1, Through: 11})
	require.Equal(t, map[int32]int64{1: 100}, owedTo(img))
	same, _, err := LowerGroups{Shard: 0, LeaderEpoch: 1, Through: 3}.apply(img)
	require.NoError(t, err)
	require.Same(t, img, same)

	// A shard that was away over a second stop owes the lower of the two; the other
	// one only the new one.
	img = must(t, img, FinishStop{Topic: "t", LeaderEpoch: 6})
	img = must(t, img, SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: Mirroring})
	img = must(t, img, AlignMirror{Topic: "t", LeaderEpoch: 6, Target: 100, Cut: &CutReport{From: 100, To: 120}})
	require.Equal(t, map[int32]int64{0: 100, 1: 100}, owedTo(img), "what alignment cuts, nobody has read")
	img = must(t, img, LowerGroups{Shard: 0, LeaderEpoch: 1, Through: img.Index})
	img = must(t, img, SetMirrorState{Topic: "t", LeaderEpoch: 7, From: LogTruncation, To: Mirroring, Cut: true})
	img = must(t, img, SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: Stopped})
	img = must(t, img, CutForStop{Topic: "t", LeaderEpoch: 7, L: 300})
	require.Equal(t, map[int32]int64{0: 300, 1: 100}, owedTo(img))
	img = must(t, img, LowerGroups{Shard: 1, LeaderEpoch: 2, Through: img.Index})
	require.Equal(t, map[int32]int64{0: 300}, owedTo(img))
	img = must(t, img, LowerGroups{Shard: 0, LeaderEpoch: 1, Through: img.Index})
	require.Empty(t, owedTo(img))
}

func TestNobodyHasCommittedWithoutAnOffsetsTopic(t *testing.T) {
	img := offsetsImage(Stopping)
	delete(img.Topics, OffsetsTopic)
	img = must(t, img, CutForStop{Topic: "t", LeaderEpoch: 5, L: 100})
	require.Empty(t, img.Topics["t"].Partitions[0].Mirror.Lowerings)
}

// What is done by all is forgotten, so that the list does not grow for good.
func TestLoweringsThatAreDoneAreForgotten(t *testing.T) {
	img := offsetsImage(Mirroring)
	for i := range int64(20) {
		m := &MirrorPartition{}
		*m = img.Topics["t"].Partitions[0].Mirror
		img.owe(m, 100+i)
		img.Topics["t"].Partitions[0].Mirror = *m
		img.Index++
		for shard := range int32(2) {
			img = must(t, img, LowerGroups{Shard: shard, LeaderEpoch: shard + 1, Through: img.Index})
		}
		require.Len(t, m.Lowerings, 1)
	}
}
