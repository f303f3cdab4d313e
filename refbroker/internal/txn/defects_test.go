package txn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/defect"
)

// wrong is a coordinator with a defect, which decides but has no log.
func wrong(t *testing.T, name defect.Name) *Coordinator {
	set, err := defect.Parse([]string{string(name)})
	require.NoError(t, err)
	return &Coordinator{cfg: Config{Defects: set}}
}

func TestDefectOfUsedUpEpochs(t *testing.T) {
	used := newTxn("x", 7)
	used.Epoch = math.MaxInt16 - 1
	right := used.initProducer(noIdentity(), 1000, noProducerID, 0)
	require.True(t, right.rotate)
	require.Equal(t, right, new(Coordinator).raised(used, right))
	c := wrong(t, defect.EpochGoesNegative)
	for _, want := range []int16{math.MaxInt16, math.MinInt16} {
		o := c.raised(used, used.initProducer(noIdentity(), 1000, noProducerID, 0))
		require.Equal(t, identity{7, want}, o.answer)
		used = *o.write
	}
	fresh := newTxn("y", noProducerID)
	require.True(t, c.raised(fresh, outcome{rotate: true}).rotate, "a new one needs an id")
}

func TestDefectOfLateEnds(t *testing.T) {
	open := newTxn("x", 7)
	open.State, open.Epoch = Ongoing, 4
	late := identity{7, 3}
	require.Equal(t, late, new(Coordinator).ending(open, late))
	c := wrong(t, defect.LateEndTxnAccepted)
	require.Equal(t, open.identity(), c.ending(open, late))
	require.Equal(t, identity{8, 3}, c.ending(open, identity{8, 3}))
	open.State = CompleteCommit
	require.Equal(t, late, c.ending(open, late))
}
