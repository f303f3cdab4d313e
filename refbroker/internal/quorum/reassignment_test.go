package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestReassignments(t *testing.T) {
	to := func(replicas ...int32) func(*Image) Command {
		return func(*Image) Command { return Reassign{Topic: "t", Replicas: replicas} }
	}
	cancel := func(*Image) Command { return Reassign{Topic: "t"} }
	isr := func(isr ...int32) func(*Image) Command {
		return func(img *Image) Command {
			p := img.Topics["t"].Partitions[0]
			return AlterPartition{Topic: "t", LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: p.Leader, ISR: isr}
		}
	}
	fenced := func(id int32) func(*Image) Command {
		return func(img *Image) Command { return fence(img, id) }
	}
	back := func(id int32) func(*Image) Command {
		return func(img *Image) Command { return UnfenceBroker{ID: id, Epoch: epochOf(img, id)} }
	}
	for _, c := range []struct {
		name                            string
		commands                        []func(*Image) Command
		replicas, adding, removing, isr []int32
		leader, epoch                   int32
	}{
		{"begun", []func(*Image) Command{to(3, 4)}, []int32{3, 4, 1, 2}, []int32{3, 4}, []int32{1, 2}, []int32{1, 2}, 1, 0},
		{"one of two caught up", []func(*Image) Command{to(3, 4), isr(1, 2, 3)}, []int32{3, 4, 1, 2}, []int32{3, 4}, []int32{1, 2}, []int32{1, 2, 3}, 1, 0},
		{"all caught up: the old leave, the leader too", []func(*Image) Command{to(3, 4), isr(1, 2, 3, 4)}, []int32{3, 4}, nil, nil, []int32{3, 4}, 3, 1},
		{"the leader stays", []func(*Image) Command{to(3, 1), isr(1, 2, 3)}, []int32{3, 1}, nil, nil, []int32{1, 3}, 1, 0},
		{"fewer: at once", []func(*Image) Command{to(1)}, []int32{1}, nil, nil, []int32{1}, 1, 0},
		{"fewer, without the leader", []func(*Image) Command{to(2)}, []int32{2}, nil, nil, []int32{2}, 2, 1},
		{"fewer, and who stays is not in sync", []func(*Image) Command{isr(1), to(2)}, []int32{2, 1}, nil, []int32{1}, []int32{1}, 1, 0},
		{"who stays has caught up", []func(*Image) Command{isr(1), to(2), isr(1, 2)}, []int32{2}, nil, nil, []int32{2}, 2, 1},
		{"more", []func(*Image) Command{to(1, 2, 3), isr(1, 2, 3)}, []int32{1, 2, 3}, nil, nil, []int32{1, 2, 3}, 1, 0},
		{"another order", []func(*Image) Command{to(2, 1)}, []int32{2, 1}, nil, nil, []int32{1, 2}, 1, 0},
		{"as it is", []func(*Image) Command{to(1, 2)}, []int32{1, 2}, nil, nil, []int32{1, 2}, 1, 0},
		{"to the same again", []func(*Image) Command{to(3, 4), to(3, 4)}, []int32{3, 4, 1, 2}, []int32{3, 4}, []int32{1, 2}, []int32{1, 2}, 1, 0},
		{"to others: what is no longer wanted leaves", []func(*Image) Command{to(3, 4), isr(1, 2, 3), to(4, 1)}, []int32{4, 1, 2}, []int32{4}, []int32{2}, []int32{1, 2}, 1, 0},
		{"cancelled", []func(*Image) Command{to(3, 4), isr(1, 2, 3), cancel}, []int32{1, 2}, nil, nil, []int32{1, 2}, 1, 0},
		{"back to where it was", []func(*Image) Command{to(3, 4), isr(1, 2, 3), to(1, 2)}, []int32{1, 2}, nil, nil, []int32{1, 2}, 1, 0},
		{
			"cancelled while a new one leads",
			[]func(*Image) Command{to(3, 4), isr(1, 2, 3), fenced(1), fenced(2), back(2), isr(3, 2), cancel},
			[]int32{1, 2},
			nil, nil,
			[]int32{2},
			2, 2,
		},
		{"a new one dies when it was in sync", []func(*Image) Command{to(3, 4), isr(1, 2, 3), fenced(3)}, []int32{3, 4, 1, 2}, []int32{3, 4}, []int32{1, 2}, []int32{1, 2}, 1, 0},
		{"the old leader dies", []func(*Image) Command{to(3, 4), fenced(1)}, []int32{3, 4, 1, 2}, []int32{3, 4}, []int32{1, 2}, []int32{2}, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			img := built(t, registered(1), registered(2), registered(3), registered(4),
				CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: [][]int32{{1, 2}}})
			img = after(t, img, c.commands...)
			p := img.Topics["t"].Partitions[0]
			require.Equal(t, c.replicas, p.Replicas)
			require.Equal(t, c.adding, p.AddingReplicas)
			require.Equal(t, c.removing, p.RemovingReplicas)
			require.ElementsMatch(t, c.isr, p.ISR)
			require.Equal(t, c.leader, p.Leader)
			require.Equal(t, c.epoch, p.LeaderEpoch)
		})
	}
}

func TestReassignmentsThatAreRefused(t *testing.T) {
	img := built(t, registered(1), registered(2), registered(3), registered(4),
		CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: [][]int32{{1, 2}}})
	for _, c := range []struct {
		name string
		c    Reassign
		want error
	}{
		{"no topic", Reassign{Topic: "u", Replicas: []int32{1}}, kerr.UnknownTopicOrPartition},
		{"no partition", Reassign{Topic: "t", Partition: 1, Replicas: []int32{1}}, kerr.UnknownTopicOrPartition},
		{"no replica", Reassign{Topic: "t", Replicas: []int32{}}, kerr.InvalidReplicaAssignment},
		{"twice the same", Reassign{Topic: "t", Replicas: []int32{3, 3}}, kerr.InvalidReplicaAssignment},
		{"no such broker", Reassign{Topic: "t", Replicas: []int32{9}}, kerr.InvalidReplicaAssignment},
		{"nothing to cancel", Reassign{Topic: "t"}, kerr.NoReassignmentInProgress},
		{"another number", Reassign{Topic: "t", Replicas: []int32{1, 2, 3}, SameFactor: true}, kerr.InvalidReplicationFactor},
	} {
		_, _, err := c.c.apply(img)
		require.ErrorIs(t, err, c.want, c.name)
	}
	// The only replica in sync is one that a cancellation would take away.
	img = after(t, img,
		func(*Image) Command { return Reassign{Topic: "t", Replicas: []int32{3, 4}} },
		func(img *Image) Command {
			p := img.Topics["t"].Partitions[0]
			return AlterPartition{Topic: "t", LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: 1, ISR: []int32{1, 3}}
		},
		func(img *Image) Command { return fence(img, 1) })
	require.Equal(t, []int32{3}, img.Topics["t"].Partitions[0].ISR)
	_, _, err := Reassign{Topic: "t"}.apply(img)
	require.ErrorIs(t, err, kerr.InvalidReplicaAssignment)
	img = after(t, img, func(*Image) Command {
		return AlterTopicConfigs{Name: "t", ID: [16]byte{1}, Changes: []ConfigChange{{Name: configUnclean, Value: "true"}}}
	}, func(*Image) Command { return Reassign{Topic: "t"} })
	require.Equal(t, []int32{2}, img.Topics["t"].Partitions[0].ISR, "unless the topic allows it")
}
