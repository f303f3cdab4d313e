package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/contract"
)

func TestALevelSaysHowMuchOfItWasPlayed(t *testing.T) {
	of := map[contract.Level][]Scenario{}
	for _, sc := range Scenarios(Default) {
		of[sc.Level()] = append(of[sc.Level()], sc)
	}
	low, high := of[contract.L1], of[contract.L4]
	require.NotEmpty(t, low)
	require.Greater(t, len(high), 1)
	cert := &Certificate{Unplayed: []Unplayed{{Scenario: high[1]}}}
	play := append(low[:len(low):len(low)], high[0])
	require.Equal(t, fmt.Sprintf(" (%d of %[1]d scenarios)", len(low)), cert.share(contract.L1, play))
	require.Equal(t, fmt.Sprintf(" (%d of %d scenarios)", len(low)+1, len(low)+2), cert.share(contract.L4, play))
}
