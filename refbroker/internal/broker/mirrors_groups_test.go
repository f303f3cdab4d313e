package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/defect"
)

// commitAs commits an offset of t-0 as a tool does, without a member.
func (n *mirrorNode) commitAs(group string, at int64) {
	n.t.Helper()
	var o kadm.Offsets
	o.AddOffset("t", 0, at, -1)
	_, err := kadm.NewClient(n.client()).CommitOffsets(n.t.Context(), group, o)
	require.NoError(n.t, err)
}

// committed is a group's offset in t-0, -1 for none.
func (n *mirrorNode) committed(group string) int64 {
	n.t.Helper()
	all, err := kadm.NewClient(n.client()).FetchOffsets(n.t.Context(), group)
	require.NoError(n.t, err)
	if o, ok := all.Lookup("t", 0); ok {
		return o.At
	}
	return -1
}

func (n *mirrorNode) awaitCommitted(want map[string]int64) {
	n.t.Helper()
	got := map[string]int64{}
	require.Eventually(n.t, func() bool {
		same := true
		for group, at := range want {
			got[group] = n.committed(group)
			same = same && got[group] == at
		}
		return same
	}, patience, 10*time.Millisecond, "want %v, got %v", want, got)
}

// mirrorGroupsFrom mirrors t, and groups' offsets often.
func (n *mirrorNode) mirrorGroupsFrom(a *mirrorNode, more map[string]string) mirrorrpc.Client {
	n.t.Helper()
	c := n.mirrors()
	configs := map[string]string{mirrorrpc.ConfigBootstrap: a.addr(), mirrorrpc.ConfigRefresh: "100"}
	for k, v := range more {
		configs[k] = v
	}
	require.NoError(n.t, c.Create(n.t.Context(), "m", configs))
	require.NoError(n.t, c.Start(n.t.Context(), "m", "t"))
	require.Eventually(n.t, func() bool {
		return n.part().Offsets().LogEnd == a.part().Offsets().HighWatermark
	}, patience, time.Millisecond)
	return c
}

// FA-09: offsets that are ahead of the mirrored log, behind its start, and
// within it.
func TestMirroredCommitsAreClamped(t *testing.T) {
	t.Parallel()
	a, b := startMirrorNode(t, "AAAAAAAAAAAAAAAAAAAAAA"), startBrokenNode(t)
	adm := kadm.NewClient(a.client())
	_, err := adm.CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	cl := a.client()
	for range 5 { // no batch reaches over the log's start
		var records []*kgo.Record
		for i := range 100 {
			records = append(records, kgo.StringRecord(fmt.Sprint(i)))
		}
		require.NoError(t, cl.ProduceSync(t.Context(), records...).FirstErr())
	}
	var start kadm.Offsets
	start.AddOffset("t", 0, 100, -1)
	_, err = adm.DeleteRecords(t.Context(), start)
	require.NoError(t, err)
	for group, at := range map[string]int64{"ahead": 700, "within": 300, "behind": 50, "left-out": 300} {
		a.commitAs(group, at)
	}
	c := b.mirrorGroupsFrom(a, map[string]string{mirrorrpc.ConfigGroupsExclude: "left-.*"})
	want := map[string]int64{"ahead": 500, "within": 300, "behind": 100}
	b.awaitCommitted(want)
	require.EqualValues(t, -1, b.committed("none"))
	require.EqualValues(t, -1, b.committed("left-out"))
	// It goes on, up and down.
	a.commitAs("within", 310)
	b.awaitCommitted(map[string]int64{"within": 310})

	require.NoError(t, c.Stop(t.Context(), "m", "t"))
	awaitMirror(t, c, "STOPPED")
	want["within"] = 310
	b.awaitCommitted(want)
	send(t, b.client(), "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, b.resume("ahead", 10))
}

func TestGroupOffsetsUnclamped(t *testing.T) {
	a, _ := sourceWithTraffic(t)
	b := startBrokenNode(t, defect.GroupOffsetsUnclamped)
	a.commitAs("ahead", 700)
	b.mirrorGroupsFrom(a, nil)
	b.awaitCommitted(map[string]int64{"ahead": 700})
}

// startBrokenNode starts cluster B, with defects or without, for groups.
func startBrokenNode(t *testing.T, names ...defect.Name) *mirrorNode {
	t.Helper()
	conf := startMirrorConfig(t, "BBBBBBBBBBBBBBBBBBBBBB")
	conf.Groups.InitialRebalanceDelay = -1
	for _, name := range names {
		var err error
		conf.Defects, err = defect.Parse([]string{string(name)})
		require.NoError(t, err)
	}
	b := &mirrorNode{t: t, conf: conf}
	b.start()
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// resume reads count records as the next member of a group.
func (n *mirrorNode) resume(group string, count int) []string {
	n.t.Helper()
	cl := n.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableAutoCommit())
	var values []string
	for len(values) < count {
		fs := cl.PollFetches(n.t.Context())
		require.NoError(n.t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// A stop cuts below what is mirrored, and groups were there already: those of
// the source, and one that is active here, which mirroring leaves alone.
func TestCommitsAreLoweredByAStop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		notLowered bool
	}{{"healthy", false}, {"not lowered", true}} {
		t.Run(c.name, func(t *testing.T) {
			a, lso := sourceWithTraffic(t)
			var broken []defect.Name
			if c.notLowered {
				broken = []defect.Name{defect.GroupOffsetsNotLowered}
			}
			b := startBrokenNode(t, broken...)
			end := a.part().Offsets().HighWatermark
			require.Less(t, lso, end)
			a.commitAs("theirs", end)
			a.commitAs("low", 1)
			m := b.mirrorGroupsFrom(a, nil)
			b.awaitCommitted(map[string]int64{"theirs": end, "low": 1})

			active := b.client(kgo.ConsumerGroup("active"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit())
			require.NoError(t, active.PollFetches(t.Context()).Err())
			var o kadm.Offsets
			o.AddOffset("t", 0, end, -1)
			require.NoError(t, kadm.NewClient(active).CommitAllOffsets(t.Context(), "own", o))
			active.CommitOffsetsSync(t.Context(), map[string]map[int32]kgo.EpochOffset{"t": {0: {Epoch: -1, Offset: end}}}, nil)
			a.commitAs("active", 2)
			a.commitAs("marker", 3)
			b.awaitCommitted(map[string]int64{"marker": 3, "active": end, "own": end})

			require.NoError(t, m.Stop(t.Context(), "m", "t"))
			p := awaitMirror(t, m, "STOPPED")
			require.Nil(t, p.ErrorMessage)
			want := lso
			if c.notLowered {
				want = end
			}
			for _, group := range []string{"theirs", "active", "own"} {
				require.Equal(t, want, b.committed(group), group)
			}
			require.EqualValues(t, 1, b.committed("low"))
			if !c.notLowered {
				send(t, b.client(), "first here", "second")
				require.Equal(t, []string{"first here", "second"}, b.resume("theirs", 2))
			}
		})
	}
}
