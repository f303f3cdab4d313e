package quorum

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"
)

// epochOf is a broker's epoch in an image.
func epochOf(img *Image, id int32) int64 { return img.Brokers[id].Epoch }

func fence(img *Image, id int32) FenceBroker { return FenceBroker{ID: id, Epoch: epochOf(img, id)} }

// after applies commands that may not be refused, each at an index of its own.
func after(t require.TestingT, img *Image, commands ...func(*Image) Command) *Image {
	for _, c := range commands {
		next, _, err := c(img).apply(img)
		require.NoError(t, err)
		next = next.clone()
		next.Index = img.Index + 1
		img = next
	}
	return img
}

func TestElections(t *testing.T) {
	fenced := func(id int32) func(*Image) Command {
		return func(img *Image) Command { return fence(img, id) }
	}
	unfenced := func(id int32) func(*Image) Command {
		return func(img *Image) Command { return UnfenceBroker{ID: id, Epoch: epochOf(img, id)} }
	}
	restarted := func(id int32, clean bool) func(*Image) Command {
		return func(img *Image) Command {
			return RegisterBroker{ID: id, Incarnation: fmt.Sprint("another, from ", img.Index), Clean: clean}
		}
	}
	isr := func(isr ...int32) func(*Image) Command {
		return func(img *Image) Command {
			p := img.Topics["t"].Partitions[0]
			return AlterPartition{Topic: "t", LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: p.Leader, ISR: isr}
		}
	}
	for _, c := range []struct {
		name     string
		unclean  bool
		commands []func(*Image) Command
		leader   int32
		isr      []int32
		epoch    int32
	}{
		{"as made", false, nil, 1, []int32{1, 2, 3}, 0},
		{"leader fenced", false, []func(*Image) Command{fenced(1)}, 2, []int32{2, 3}, 1},
		{"follower fenced", false, []func(*Image) Command{fenced(2)}, 1, []int32{1, 3}, 0},
		{"fenced twice", false, []func(*Image) Command{fenced(1), fenced(1)}, 2, []int32{2, 3}, 1},
		{"all fenced: the last stays in the ISR", false, []func(*Image) Command{fenced(1), fenced(2), fenced(3)}, -1, []int32{3}, 3},
		{"the last back", false, []func(*Image) Command{fenced(1), fenced(2), fenced(3), unfenced(3)}, 3, []int32{3}, 4},
		{"another than the last back", false, []func(*Image) Command{fenced(1), fenced(2), fenced(3), unfenced(1)}, -1, []int32{3}, 3},
		{"another than the last back, unclean", true, []func(*Image) Command{fenced(1), fenced(2), fenced(3), unfenced(1)}, 1, []int32{1}, 4},
		{"an unclean restart leaves the ISR", false, []func(*Image) Command{restarted(1, false)}, 2, []int32{2, 3}, 1},
		{"a clean one doesn't", false, []func(*Image) Command{restarted(1, true)}, 1, []int32{1, 2, 3}, 1},
		{"a follower's unclean restart", false, []func(*Image) Command{restarted(3, false)}, 1, []int32{1, 2}, 0},
		{"the last member's unclean restart", false, []func(*Image) Command{isr(1), restarted(1, false)}, 1, []int32{1}, 1},
		{"the last member fenced, and restarted", false, []func(*Image) Command{isr(1), fenced(1), restarted(1, false)}, 1, []int32{1}, 2},
		{"unclean with a live replica", true, []func(*Image) Command{isr(1), fenced(1)}, 2, []int32{2}, 1},
		{"not unclean with a live replica", false, []func(*Image) Command{isr(1), fenced(1)}, -1, []int32{1}, 1},
		{"asked for unclean", false, []func(*Image) Command{isr(1), fenced(1), func(*Image) Command { return ElectLeader{Topic: "t", Unclean: true} }}, 2, []int32{2}, 2},
		{"unclean allowed later", false, []func(*Image) Command{isr(1), fenced(1), func(img *Image) Command {
			return AlterTopicConfigs{Name: "t", ID: [16]byte{1}, Changes: []ConfigChange{{Name: configUnclean, Value: "true"}}}
		}}, 2, []int32{2}, 2},
		{"preferred again", false, []func(*Image) Command{fenced(1), unfenced(1), isr(1, 2, 3), func(*Image) Command { return ElectLeader{Topic: "t"} }}, 1, []int32{1, 2, 3}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			configs := map[string]string{}
			if c.unclean {
				configs[configUnclean] = "true"
			}
			img := built(t, registered(1), registered(2), registered(3),
				CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: [][]int32{{1, 2, 3}}, Configs: configs})
			img = after(t, img, c.commands...)
			p := img.Topics["t"].Partitions[0]
			require.Equal(t, c.leader, p.Leader)
			require.ElementsMatch(t, c.isr, p.ISR)
			require.Equal(t, c.epoch, p.LeaderEpoch)
		})
	}
}

func TestElectionsThatAreRefused(t *testing.T) {
	img := threeBrokers(t)
	_, _, err := ElectLeader{Topic: "t"}.apply(img)
	require.ErrorIs(t, err, kerr.ElectionNotNeeded)
	_, _, err = ElectLeader{Topic: "t", Unclean: true}.apply(img)
	require.ErrorIs(t, err, kerr.ElectionNotNeeded)
	img = after(t, img, func(img *Image) Command { return fence(img, 1) })
	_, _, err = ElectLeader{Topic: "t"}.apply(img)
	require.ErrorIs(t, err, kerr.PreferredLeaderNotAvailable)
	img = after(t, img, func(img *Image) Command { return fence(img, 2) }, func(img *Image) Command { return fence(img, 3) })
	_, _, err = ElectLeader{Topic: "t", Unclean: true}.apply(img)
	require.ErrorIs(t, err, kerr.EligibleLeadersNotAvailable)
	_, _, err = FenceBroker{ID: 1, Epoch: epochOf(img, 1) + 1}.apply(img)
	require.ErrorIs(t, err, kerr.StaleBrokerEpoch)
	_, _, err = UnfenceBroker{ID: 9}.apply(img)
	require.ErrorIs(t, err, kerr.BrokerIDNotRegistered)
}

// A replica that has started anew since it was seen to have caught up is not
// let into the ISR on the strength of that (KIP-903).
func TestAnISRMemberOfARunThatIsOver(t *testing.T) {
	img := after(t, threeBrokers(t), func(img *Image) Command { return fence(img, 3) }, func(img *Image) Command { return UnfenceBroker{ID: 3, Epoch: epochOf(img, 3)} })
	p := img.Topics["t"].Partitions[0]
	require.ElementsMatch(t, []int32{1, 2}, p.ISR)
	join := AlterPartition{
		Topic: "t", LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: 1, ISR: []int32{1, 2, 3},
		BrokerEpochs: map[int32]int64{3: epochOf(img, 3)},
	}
	_, _, err := join.apply(img)
	require.NoError(t, err)
	img = after(t, img, func(*Image) Command { return RegisterBroker{ID: 3, Incarnation: "anew"} })
	_, _, err = join.apply(img)
	require.ErrorIs(t, err, kerr.IneligibleReplica)
}

// Whatever happens to brokers: a leader lives and is in sync, an ISR is never
// empty, and epochs never fall; without unclean elections an ISR only ever
// changes by its leader's word, or loses members.
func TestElectionsKeepTheirRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		img := after(t, threeBrokers(t))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := rapid.Int32Range(1, 3).Draw(t, "broker")
			var c Command
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				c = fence(img, id)
			case 1:
				c = UnfenceBroker{ID: id, Epoch: epochOf(img, id)}
			case 2:
				c = RegisterBroker{ID: id, Incarnation: fmt.Sprint(img.Index), Clean: rapid.Bool().Draw(t, "clean")}
			case 3:
				i := rapid.IntRange(0, 1).Draw(t, "partition")
				p := img.Topics["t"].Partitions[i]
				if p.Leader < 0 {
					continue
				}
				next := []int32{p.Leader}
				for _, r := range p.Replicas {
					if r != p.Leader && rapid.Bool().Draw(t, "in") {
						next = append(next, r)
					}
				}
				c = AlterPartition{Topic: "t", Partition: int32(i), LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Leader: p.Leader, ISR: next}
			case 4:
				c = ElectLeader{Topic: "t", Partition: rapid.Int32Range(0, 1).Draw(t, "partition")}
			case 5:
				to := rapid.Permutation([]int32{1, 2, 3}).Draw(t, "to")[:rapid.IntRange(1, 3).Draw(t, "replicas")]
				c = Reassign{Topic: "t", Partition: rapid.Int32Range(0, 1).Draw(t, "partition"), Replicas: to}
			case 6:
				c = Reassign{Topic: "t", Partition: rapid.Int32Range(0, 1).Draw(t, "partition")}
			}
			next, _, err := c.apply(img)
			if err != nil {
				continue
			}
			next = next.clone()
			next.Index = img.Index + 1
			for i, p := range next.Topics["t"].Partitions {
				old := img.Topics["t"].Partitions[i]
				require.NotEmpty(t, p.ISR)
				require.Subset(t, p.Replicas, p.ISR)
				require.Subset(t, p.Replicas, slices.Concat(p.AddingReplicas, p.RemovingReplicas))
				require.NotEmpty(t, p.Settled())
				require.NotEmpty(t, without(p.Replicas, p.RemovingReplicas))
				require.GreaterOrEqual(t, p.LeaderEpoch, old.LeaderEpoch)
				require.GreaterOrEqual(t, p.PartitionEpoch, old.PartitionEpoch)
				if p.Leader >= 0 {
					require.True(t, next.live(p.Leader), "leader %d lives", p.Leader)
					require.Contains(t, p.ISR, p.Leader)
				} else {
					require.False(t, slices.ContainsFunc(p.ISR, next.live), "partition %d has no leader though one of %v lives", i, p.ISR)
				}
				if p.Leader != old.Leader {
					require.Greater(t, p.LeaderEpoch, old.LeaderEpoch)
				}
				if _, byLeader := c.(AlterPartition); !byLeader {
					require.Subset(t, old.ISR, p.ISR)
				}
				if p != old {
					require.Greater(t, p.PartitionEpoch, old.PartitionEpoch)
				}
			}
			img = next
		}
	})
}

func TestWhoFallsSilentIsFenced(t *testing.T) {
	const session = 10 * time.Second
	start := time.Unix(1000, 0)
	h := hearts{by: map[int32]heard{}}
	img := threeBrokers(t)
	at := func(d time.Duration) (fenced, unfenced []int32) {
		f, u := h.judge(img, start.Add(d), session)
		for _, b := range f {
			fenced = append(fenced, b.ID)
		}
		for _, b := range u {
			unfenced = append(unfenced, b.ID)
		}
		return fenced, unfenced
	}
	beat := func(id int32, d time.Duration, knowsFenced bool) {
		h.beat(heartbeat{ID: id, Epoch: epochOf(img, id), Fenced: knowsFenced}, start.Add(d))
	}
	fenced, unfenced := at(0)
	require.Empty(t, fenced, "sessions begin when the controller looks first")
	require.Empty(t, unfenced)
	beat(1, 5*time.Second, false)
	beat(2, 9*time.Second, false)
	fenced, _ = at(11 * time.Second)
	require.Equal(t, []int32{3}, fenced)
	img = after(t, img, func(img *Image) Command { return fence(img, 3) })
	fenced, unfenced = at(12 * time.Second)
	require.Empty(t, fenced)
	require.Empty(t, unfenced)
	beat(3, 12*time.Second, false)
	_, unfenced = at(13 * time.Second)
	require.Empty(t, unfenced, "it doesn't ask: it is about to stop")
	beat(3, 13*time.Second, true)
	_, unfenced = at(14 * time.Second)
	require.Equal(t, []int32{3}, unfenced)

	// A new run begins a new session, and what the old one still sent is nothing.
	old := epochOf(img, 1)
	img = after(t, img, func(*Image) Command { return RegisterBroker{ID: 1, Incarnation: "anew"} })
	fenced, _ = at(16 * time.Second)
	require.Empty(t, fenced)
	h.beat(heartbeat{ID: 1, Epoch: old}, start.Add(25*time.Second))
	beat(2, 25*time.Second, false)
	fenced, _ = at(27 * time.Second)
	require.Equal(t, []int32{1}, fenced)
	h.forgive()
	fenced, _ = at(28 * time.Second)
	require.Empty(t, fenced)
	h.forgive()
	h.suspect(img.Brokers[2], start.Add(30*time.Second))
	fenced, _ = at(39 * time.Second)
	require.Empty(t, fenced)
	fenced, _ = at(41 * time.Second)
	require.Equal(t, []int32{2}, fenced, "the controller before was silent longer than the others")
}
