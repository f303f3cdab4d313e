package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func verdicts(t testing.TB, w *world) map[string]Verdict {
	t.Helper()
	byID := map[string]Verdict{}
	for _, v := range All(w.evidence(t)) {
		byID[v.Requirement] = v
	}
	return byID
}

func TestAGoodRunHoldsEverything(t *testing.T) {
	got := verdicts(t, newWorld(0))
	for _, id := range unprobed() {
		v := got[id]
		require.Equal(t, Held, v.Outcome, "%s: %s %v", id, v.Reason, v.Findings)
		require.NotEmpty(t, v.Reason, id)
	}
	require.Len(t, got, len(unprobed()))
}
