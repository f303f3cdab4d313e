package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"
)

// manyMirrored is an image whose topics t and u have three mirrored partitions
// each.
func manyMirrored() *Image {
	img := mirrored(Mirroring, true)
	for _, name := range []string{"t", "u"} {
		topic := *img.Topics["t"]
		topic.Name, topic.Partitions = name, nil
		for range 3 {
			p := *img.Topics["t"].Partitions[0]
			topic.Partitions = append(topic.Partitions, &p)
		}
		img.Topics[name] = &topic
	}
	return img
}

// Commands together do what they do one after the other, refusals included, and
// leave the image that they met alone.
func TestCommandsTogetherAreCommandsInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := rapid.SampledFrom([]string{"t", "u", "none"})
		index := rapid.Int32Range(0, 3)
		epoch := rapid.Int32Range(4, 6)
		state := rapid.SampledFrom(MirrorStates())
		command := rapid.Custom(func(t *rapid.T) PartitionCommand {
			name, i, e := topic.Draw(t, "topic"), index.Draw(t, "partition"), epoch.Draw(t, "epoch")
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				return SetMirrorState{Topic: name, Partition: i, LeaderEpoch: e, From: state.Draw(t, "from"), To: state.Draw(t, "to")}
			case 1:
				return AlignMirror{Topic: name, Partition: i, LeaderEpoch: e, Target: 3, LogEpoch: 2, Anew: rapid.Bool().Draw(t, "anew")}
			case 2:
				return CutForStop{Topic: name, Partition: i, LeaderEpoch: e, L: 7, LogEpoch: 4}
			case 3:
				return FinishStop{Topic: name, Partition: i, LeaderEpoch: e}
			}
			return SetUpstream{Topic: name, Partition: i, LeaderEpoch: e, Upstream: []string{"a"}}
		})
		img := manyMirrored()
		if rapid.Bool().Draw(t, "stopping") {
			next, _, err := SetMirrorTopics{Mirror: "m", Topics: []string{"t", "u"}, Desired: Stopped}.apply(img)
			require.NoError(t, err)
			img = next
		}
		before := fmt.Sprintf("%+v", images(img))
		commands := rapid.SliceOfN(command, 1, 20).Draw(t, "commands")
		together, err := NewTogether(commands)
		require.NoError(t, err)
		got, result, err := together.apply(img)
		require.NoError(t, err)
		require.Equal(t, before, fmt.Sprintf("%+v", images(img)), "the old image changed")
		want := img
		for i, c := range commands {
			next, _, err := c.apply(want)
			verdict := result.([]Verdict)[i].Err()
			if err != nil {
				require.EqualError(t, verdict, err.Error())
				var k *kerr.Error
				require.Equal(t, errors.As(err, &k), errors.As(verdict, &k))
				continue
			}
			require.NoError(t, verdict)
			want = next
		}
		require.Equal(t, images(want), images(got))
	})
}

// images is what partitions an image has, by value.
func images(img *Image) map[string][]Partition {
	all := map[string][]Partition{}
	for name, t := range img.Topics {
		for _, p := range t.Partitions {
			all[name] = append(all[name], *p)
		}
	}
	return all
}

// What comes while a proposal is on its way is one record, and each proposer
// hears of its own command.
func TestProposalsAreGathered(t *testing.T) {
	var mu sync.Mutex
	img := manyMirrored()
	var records []Command
	first, goOn := make(chan struct{}), make(chan struct{})
	b := NewBatcher(func(_ context.Context, c Command) (any, error) {
		mu.Lock()
		records = append(records, c)
		alone := len(records) == 1
		mu.Unlock()
		if alone {
			close(first)
			<-goOn
		}
		mu.Lock()
		defer mu.Unlock()
		next, result, err := c.apply(img)
		if err == nil {
			img = next
		}
		return result, err
	})
	fence := func(topic string, index, epoch int32) error {
		return b.Apply(t.Context(), t.Context(), SetMirrorState{Topic: topic, Partition: index, LeaderEpoch: epoch, From: Mirroring, To: EpochFencing})
	}
	var all sync.WaitGroup
	all.Go(func() { require.NoError(t, fence("t", 0, 4)) })
	<-first
	for i := range int32(3) {
		all.Go(func() { require.NoError(t, fence("u", i, 4)) })
	}
	all.Go(func() { require.ErrorIs(t, fence("t", 1, 3), kerr.FencedLeaderEpoch) })
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.waiting) == 4
	}, 20*time.Second, time.Millisecond, "four wait")
	close(goOn)
	all.Wait()
	b.Wait()
	require.Len(t, records, 2)
	require.Len(t, records[1].(Together).Commands, 4)
	require.Equal(t, EpochFencing, img.Topics["u"].Partitions[2].Mirror.State)
	require.Equal(t, Mirroring, img.Topics["t"].Partitions[1].Mirror.State)

	// Who no longer waits is told so; what the others proposed goes on.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	require.EqualError(t, b.Apply(ctx, t.Context(), FinishStop{Topic: "t"}), "enough")
	b.Wait()
}

// A quorum that can't be asked is an error for everybody who shared the record.
func TestALostRecordIsLostForAll(t *testing.T) {
	lost := errors.New("no quorum")
	block, entered := make(chan struct{}), make(chan struct{}, 1)
	b := NewBatcher(func(context.Context, Command) (any, error) {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-block
		return nil, lost
	})
	var all sync.WaitGroup
	for i := range int32(5) {
		all.Go(func() {
			require.ErrorIs(t, b.Apply(t.Context(), t.Context(), FinishStop{Topic: "t", Partition: i}), lost)
		})
	}
	<-entered
	close(block)
	all.Wait()
	b.Wait()
}
