package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/storage"
)

// Compaction follows the topic's configs, and leaves a log alone that mirrors
// (RO-3) until that is over.
func TestCompactionFollowsTheTopicsConfigs(t *testing.T) {
	w := newWorld(t)
	fill := func(name string, configs map[string]string) *Partition {
		configs["segment.bytes"] = "14"
		p := w.topic(name, configs, node)
		for _, v := range []string{"a", "b", "c"} {
			add(t, p, plain(v), anyEpoch(ForInternal)) // without keys: the cleaner drops them
		}
		return p
	}
	policy := func(more ...string) map[string]string {
		c := map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
		for i := 0; i < len(more); i += 2 {
			c[more[i]] = more[i+1]
		}
		return c
	}
	compacted := fill("compacted", policy())
	both := fill("both", policy("cleanup.policy", "compact,delete"))
	kept := fill("kept", policy("cleanup.policy", "delete"))
	clean := fill("clean", policy("min.cleanable.dirty.ratio", "1"))
	young := fill("young", policy("min.compaction.lag.ms", "999999999"))
	fill("mirrored", policy())
	mirrored := w.mirrored("mirrored", 3)
	w.m.compactAll(t.Context())
	all := []string{"0:a", "1:b", "2:c"}
	for _, c := range []struct {
		p    *Partition
		want []string
		upTo int64
	}{
		{compacted, []string{"2:c"}, 2},
		{both, []string{"2:c"}, 2},
		{kept, all, 0},
		{clean, all, 0},
		{young, all, 0},
		{mirrored, all, 0},
	} {
		require.Equal(t, c.want, left(t, c.p), c.p.Name())
		require.Equal(t, c.upTo, c.p.CleanedUpTo(), c.p.Name())
	}

	w.edit("mirrored", func(topic *quorum.Topic, p *quorum.Partition) { p.Mirror.State = quorum.Stopped })
	w.m.compactAll(t.Context())
	require.Equal(t, []string{"2:c"}, left(t, mirrored))
	w.restart(false)
	require.EqualValues(t, 2, w.get("mirrored").CleanedUpTo())
	require.EqualValues(t, 3, add(t, w.get("mirrored"), plain("d"), anyEpoch(ForInternal)).BaseOffset)
}

// A mirror that starts while a log is compacted finds it as it was.
func TestMirrorStartsDuringACompaction(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", map[string]string{"segment.bytes": "14", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}, node)
	for _, v := range []string{"a", "b", "c"} {
		add(t, p, records(1, 0, int32(v[0]-'a'), false, v), anyEpoch(ForInternal))
	}
	// Between the round's reading and its swap the mirror starts.
	started := false
	done, err := p.log.Compact(t.Context(), *p.role.compaction, func() bool {
		started = true
		p.mu.Lock()
		p.role.readOnly = true
		p.mu.Unlock()
		return p.mayCompact()
	})
	require.NoError(t, err)
	require.True(t, started)
	require.Equal(t, storage.Compacted{}, done)
	require.Equal(t, []string{"0:a", "1:b", "2:c"}, left(t, p))
	require.Zero(t, p.CleanedUpTo())
}

func TestDeflateKnowsEachCodec(t *testing.T) {
	w := newWorld(t)
	for codec := int8(1); codec <= 4; codec++ {
		packed, err := w.m.deflate([]byte("records"), codec)
		require.NoError(t, err)
		raw, err := w.m.inflate(packed, codec)
		require.NoError(t, err)
		require.Equal(t, "records", string(raw))
	}
	_, err := w.m.deflate(nil, 5)
	require.Error(t, err)
}
