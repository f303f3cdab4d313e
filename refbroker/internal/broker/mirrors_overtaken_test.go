package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// FA-12: the source's retention overtakes a mirror that was paused. That is told,
// with where the hole begins and ends, and never passed over in silence.
func TestASourceWhoseRetentionOvertakesTheMirror(t *testing.T) {
	a, b := newSource(t, clusterA), startMirrorNode(t, clusterB)
	plain := a.client(kgo.DisableIdempotentWrite())
	send(t, plain, "0", "1")
	b.mirrorOf(a)
	name := b.linkTo(a)
	m := b.mirrors()
	require.NoError(t, m.Pause(t.Context(), name, "t"))
	awaitNamed(t, m, name, "PAUSED")
	send(t, plain, "2", "3", "4")
	require.Eventually(t, func() bool { return a.part().Offsets().HighWatermark == 5 }, 20*time.Second, 5*time.Millisecond)
	_, err := a.part().DeleteRecords(4)
	require.NoError(t, err)
	require.NoError(t, m.Resume(t.Context(), name, "t"))
	failed := awaitNamed(t, m, name, "FAILED")
	require.NotNil(t, failed.ErrorMessage)
	require.Contains(t, *failed.ErrorMessage, "at offset 4")
	require.Contains(t, *failed.ErrorMessage, "ends at 2")
	require.EqualValues(t, 2, b.end(), "nothing comes behind a hole")
}
