package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever was given back before, a buffer has room for what is asked for, and
// less than twice that where it is one of those that are used again.
func TestABufferHasTheRoomThatWasAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b buffers
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			size := rapid.OneOf(
				rapid.IntRange(0, 200_000), rapid.IntRange(0, mostPooled+10),
				rapid.SampledFrom([]int{leastPooled / 2, leastPooled/2 + 1, leastPooled, leastPooled + 1, mostPooled, mostPooled + 1}),
			).Draw(t, "size")
			buf := b.take(size)
			require.Empty(t, buf)
			require.GreaterOrEqual(t, cap(buf), size)
			require.LessOrEqual(t, cap(buf), 2*size)
			b.give(buf[:size])
		}
	})
}
