package wire

import (
	"math/bits"
	"sync"
)

// Buffers of these sizes (powers of two) are used again; smaller ones cost
// little to make, and larger ones are rare.
const (
	leastPooled = 64 << 10
	mostPooled  = 16 << 20
)

// buffers has the frames of bulk requests that were answered, to be used again:
// to make them anew, to clear them and to collect them costs more than all else
// that is done with a frame. A buffer has at most twice the size that was
// asked for; what lies here is the garbage collector's to take.
type buffers [9]sync.Pool // by the size's power of two

// classOf is the place of buffers of at least size bytes; false if none lie
// here.
func classOf(size int) (int, bool) {
	if size <= leastPooled/2 || size > mostPooled {
		return 0, false
	}
	return max(0, bits.Len(uint(size-1))-bits.Len(leastPooled-1)), true
}

// take returns an empty buffer with room for size bytes.
func (b *buffers) take(size int) []byte {
	class, ok := classOf(size)
	if !ok {
		return make([]byte, 0, size)
	}
	if used, ok := b[class].Get().(*[]byte); ok {
		return (*used)[:0]
	}
	return make([]byte, 0, leastPooled<<class)
}

// give takes a buffer back, which nobody may use any more.
func (b *buffers) give(buf []byte) {
	if class, ok := classOf(cap(buf)); ok && cap(buf) == leastPooled<<class {
		b[class].Put(&buf)
	}
}
