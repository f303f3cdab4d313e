package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/quorum"
)

// What retention drops stays dropped after a crash; a log that is compacted, or
// mirrors, is left alone.
func TestRetentionFollowsTheTopicsConfigs(t *testing.T) {
	w := newWorld(t)
	fill := func(name string, configs map[string]string) *Partition {
		configs["segment.bytes"] = "14"
		p := w.topic(name, configs, node)
		for _, v := range []string{"a", "b", "c"} {
			add(t, p, plain(v), anyEpoch(ForInternal))
		}
		return p
	}
	sized := fill("sized", map[string]string{"retention.bytes": "0"})
	aged := fill("aged", map[string]string{"retention.ms": "0"})
	kept := fill("kept", map[string]string{})
	compacted := fill("compacted", map[string]string{"retention.bytes": "0", "cleanup.policy": "compact"})
	both := fill("both", map[string]string{"retention.bytes": "0", "cleanup.policy": "compact,delete"})
	fill("mirrored", map[string]string{"retention.bytes": "0"})
	mirrored := w.mirrored("mirrored", 3)
	w.m.retainAll()
	require.Equal(t, []string{"2:c"}, left(t, sized))
	require.Empty(t, left(t, aged))
	require.Equal(t, []string{"0:a", "1:b", "2:c"}, left(t, kept))
	require.Equal(t, []string{"0:a", "1:b", "2:c"}, left(t, compacted))
	require.Equal(t, []string{"2:c"}, left(t, both))
	require.Equal(t, []string{"0:a", "1:b", "2:c"}, left(t, mirrored))

	w.restart(false)
	require.Equal(t, []string{"2:c"}, left(t, w.get("sized")))
	require.EqualValues(t, 3, w.get("aged").Offsets().LogStart)
	require.EqualValues(t, 3, add(t, w.get("aged"), plain("d"), anyEpoch(ForInternal)).BaseOffset)

	// A new configuration counts from the next time on.
	w.edit("kept", func(topic *quorum.Topic, _ *quorum.Partition) {
		topic.Configs = map[string]string{"retention.bytes": "0"}
	})
	w.m.retainAll()
	require.Equal(t, []string{"2:c"}, left(t, w.get("kept")))
}

// left is what a consumer that starts at the log's start sees, a segment at a time.
func left(t *testing.T, p *Partition) []string {
	t.Helper()
	var all []string
	for o := p.Offsets(); o.LogStart < o.LogEnd; o.LogStart++ {
		all = append(all, values(t, read(t, p, consumer(o.LogStart)).Raw)...)
	}
	return all
}
