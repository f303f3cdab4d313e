package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/refbroker/internal/group"
)

// quickGroups are settings for tests that run in real time.
func quickGroups(c *Config) {
	c.Groups = group.Settings{InitialRebalanceDelay: 20 * time.Millisecond, MinSession: 100 * time.Millisecond}
}

// consumer is a group member that remembers what it was given.
type consumer struct {
	*kgo.Client
	mu    sync.Mutex
	holds map[string][]int32
	moved chan struct{}
}

// consumer joins a group with the balancers; it commits only when told.
func (n *testNode) consumer(name string, balancer kgo.GroupBalancer, opts ...kgo.Opt) *consumer {
	n.t.Helper()
	c := &consumer{holds: map[string][]int32{}, moved: make(chan struct{}, 1)}
	note := func(f func(topic string, ps []int32)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for topic, ps := range m {
				f(topic, ps)
			}
			select {
			case c.moved <- struct{}{}:
			default:
			}
		}
	}
	take := func(topic string, ps []int32) {
		c.holds[topic] = slices.DeleteFunc(slices.Clone(c.holds[topic]), func(p int32) bool { return slices.Contains(ps, p) })
	}
	c.Client = n.client(append([]kgo.Opt{
		kgo.ConsumerGroup(name), kgo.ConsumeTopics("t"), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(20 * time.Millisecond),
		kgo.SessionTimeout(5 * time.Second), kgo.RebalanceTimeout(5 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
		kgo.OnPartitionsAssigned(note(func(t string, ps []int32) { c.holds[t] = append(c.holds[t], ps...) })),
		kgo.OnPartitionsRevoked(note(take)), kgo.OnPartitionsLost(note(take)),
	}, opts...)...)
	return c
}

func (c *consumer) partitions() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.holds["t"]))
}

// shared waits until the consumers hold all partitions of t, each one once and
// each consumer some.
func (n *testNode) shared(partitions int32, cs ...*consumer) {
	n.t.Helper()
	var all []int32
	for i := range partitions {
		all = append(all, i)
	}
	var last string
	ok := func() bool {
		var got []int32
		last = ""
		for _, c := range cs {
			mine := c.partitions()
			last += fmt.Sprint(mine)
			if len(mine) == 0 {
				return false
			}
			got = append(got, mine...)
		}
		slices.Sort(got)
		return slices.Equal(got, all)
	}
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			require.Fail(n.t, "partitions are not shared", "%s", last)
		}
	}
}

// read polls until it has count values, and commits them.
func (n *testNode) read(count int, cs ...*consumer) []string {
	n.t.Helper()
	got := make(chan string)
	ctx, stop := context.WithCancel(n.ctx())
	var polling sync.WaitGroup
	defer polling.Wait()
	defer stop()
	for _, c := range cs {
		polling.Go(func() {
			for ctx.Err() == nil {
				c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
					select {
					case got <- string(r.Value):
					case <-ctx.Done():
					}
				})
			}
		})
	}
	var values []string
	for len(values) < count {
		select {
		case v := <-got:
			values = append(values, v)
		case <-ctx.Done():
			require.Fail(n.t, "records are missing", "have %d of %d: %v", len(values), count, values)
		}
	}
	return values
}

// spread writes count values, over the partitions in turn.
func (n *testNode) spread(partitions, from, count int) []string {
	n.t.Helper()
	cl := n.client()
	var values []string
	for i := range count {
		v := fmt.Sprint("v", from+i)
		r := &kgo.Record{Topic: "t", Partition: int32(i % partitions), Value: []byte(v)}
		require.NoError(n.t, cl.ProduceSync(n.ctx(), r).FirstErr())
		values = append(values, v)
	}
	return values
}

func TestGroupsShareAndResume(t *testing.T) {
	t.Parallel()
	for name, balancer := range map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer(), "sticky": kgo.StickyBalancer(), "round robin": kgo.RoundRobinBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, quickGroups)
			n.topic("t", 4)
			first := n.spread(4, 0, 20)
			a := n.consumer("g", balancer)
			n.shared(4, a)
			require.ElementsMatch(t, first, n.read(20, a))
			require.NoError(t, a.CommitUncommittedOffsets(n.ctx()))

			b := n.consumer("g", balancer)
			n.shared(4, a, b)
			c := n.consumer("g", balancer)
			n.shared(4, a, b, c)
			second := n.spread(4, 20, 20)
			require.ElementsMatch(t, second, n.read(20, a, b, c), "what was committed is not read again")
			for _, one := range []*consumer{a, b, c} {
				require.NoError(t, one.CommitUncommittedOffsets(n.ctx()))
			}

			b.Close()
			n.shared(4, a, c)
			a.Close()
			n.shared(4, c)
			third := n.spread(4, 40, 20)
			require.ElementsMatch(t, third, n.read(20, c))
			require.NoError(t, c.CommitUncommittedOffsets(n.ctx()))
			c.Close()

			adm := kadm.NewClient(n.client())
			lag, err := adm.Lag(n.ctx(), "g")
			require.NoError(t, err)
			require.NoError(t, lag.Error())
			require.Equal(t, "Empty", lag["g"].State)
			require.Zero(t, lag["g"].Lag.Total())

			// A node that starts anew knows what was committed.
			require.NoError(t, n.Close())
			n.start()
			d := n.consumer("g", balancer)
			n.shared(4, d)
			fourth := n.spread(4, 60, 4)
			require.ElementsMatch(t, fourth, n.read(4, d))
			d.Close()
		})
	}
}
