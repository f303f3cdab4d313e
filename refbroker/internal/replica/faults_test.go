package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// What these do is tried where producer state is.
func TestDefectsOfProducerState(t *testing.T) {
	for name, want := range map[defect.Name]psm.Faults{
		defect.WindowOfOne:                   {OneBatch: true},
		defect.OldCoordinatorAccepted:        {OldCoordinators: true},
		defect.ProducersForgottenWithRecords: {ForgetDeleted: true},
	} {
		set, err := defect.Parse([]string{string(name)})
		require.NoError(t, err)
		require.Equal(t, want, faultsOf(set), name)
	}
	require.Zero(t, faultsOf(defect.Set{}))
}
