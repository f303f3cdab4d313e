package chaos

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table in the docs has every fault that exists.
func TestEveryFaultIsInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/faults.md")
	require.NoError(t, err)
	for _, k := range AllKinds() {
		require.Contains(t, string(page), "`"+string(k)+"`")
	}
	for _, a := range AllActs() {
		require.Contains(t, string(page), "`"+string(a)+"`")
	}
}
