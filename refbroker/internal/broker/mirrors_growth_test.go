package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/replica"
)

// A source's topic that grows does so on the destination: the new partitions are
// read-only from their first moment on, are mirrored, and their stop leaves a
// barrier.
func TestASourceThatGrowsPartitions(t *testing.T) {
	t.Parallel()
	a := newSource(t, clusterA)
	b := startMirrorNode(t, clusterB)
	write := func(partition int32, values ...string) {
		cl := a.client() // a fresh one knows of all partitions
		for _, v := range values {
			r := kgo.StringRecord(v)
			r.Partition = partition
			require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
		}
	}
	grow := func(n *mirrorNode, to int) error {
		all, err := kadm.NewClient(n.client()).UpdatePartitions(t.Context(), to, "t")
		require.NoError(t, err)
		return all["t"].Err
	}
	write(0, "first")
	b.mirrorOf(a)
	link := b.linkTo(a)
	require.Error(t, grow(b, 4), "a topic that mirrors has its source's partitions")

	require.NoError(t, grow(a, 3))
	write(1, "one")
	write(2, "two", "three")
	b.awaitPartitions(link, 3, "MIRRORING")
	write(2, "four")
	for p := range int32(3) {
		b.equalsAt(a, p)
	}
	refused := b.client(kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	r := kgo.StringRecord("not here")
	r.Partition = 2
	require.Error(t, refused.ProduceSync(t.Context(), r).FirstErr())

	// While it is paused too: it is seen when the mirror goes on.
	require.NoError(t, b.mirrors().Pause(t.Context(), link, "t"))
	b.awaitPartitions(link, 3, "PAUSED")
	require.NoError(t, grow(a, 4))
	write(3, "late")
	require.NoError(t, b.mirrors().Resume(t.Context(), link, "t"))
	b.awaitPartitions(link, 4, "MIRRORING")
	b.equalsAt(a, 3)

	require.NoError(t, b.mirrors().Stop(t.Context(), link, "t"))
	b.awaitPartitions(link, 4, "STOPPED")
	for p := range int32(4) {
		part, err := b.Env().Replicas.Partition("t", p)
		require.NoError(t, err)
		raw := batchesWithin(t, part)
		last, err := psm.DecodeBatch(raw[len(raw)-1])
		require.NoError(t, err)
		require.True(t, last.IsBarrier(), "partition %d ends with its barrier", p)
		r := kgo.StringRecord("b's own")
		r.Partition = p
		require.NoError(t, b.client().ProduceSync(t.Context(), r).FirstErr())
	}
	// A stopped topic is this cluster's own: it does not follow any more.
	require.NoError(t, grow(a, 6))
	require.NoError(t, grow(b, 5))
}

// awaitPartitions waits until a topic "t" of a mirror has so many partitions, all
// in one state.
func (n *mirrorNode) awaitPartitions(link string, want int, state string) {
	n.t.Helper()
	var seen string
	require.Eventually(n.t, func() bool {
		all, err := n.mirrors().Describe(n.t.Context(), link)
		if err != nil {
			return false
		}
		seen = fmt.Sprintf("%+v", all)
		for _, m := range all {
			for _, topic := range m.Topics {
				in := 0
				for _, p := range topic.Partitions {
					if p.StateValue == state {
						in++
					}
				}
				if in == want && len(topic.Partitions) == want {
					return true
				}
			}
		}
		return false
	}, 30*time.Second, 10*time.Millisecond, "%d partitions are %s: %s", want, state, laterString{&seen})
}

// laterString is shown as it is when it is printed.
type laterString struct{ s *string }

func (l laterString) String() string { return *l.s }

// equalsAt waits until a partition is another cluster's, byte for byte.
func (n *mirrorNode) equalsAt(source *mirrorNode, index int32) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		theirs, err := source.Env().Replicas.Partition("t", index)
		if err != nil {
			return false
		}
		own, err := n.Env().Replicas.Partition("t", index)
		return err == nil && own.Offsets().HighWatermark == theirs.Offsets().HighWatermark &&
			fmt.Sprint(laterBatches(own)) == fmt.Sprint(laterBatches(theirs))
	}, 20*time.Second, 5*time.Millisecond, "partition %d is the same", index)
}

// laterBatches is nil while a log is on its way.
func laterBatches(part replica.API) [][]byte {
	all, _ := batchesIn(part)
	return all
}

func batchesWithin(t *testing.T, part replica.API) [][]byte {
	t.Helper()
	all, err := batchesIn(part)
	require.NoError(t, err)
	return all
}
