package psm

// span is a completed transaction that the high watermark has not passed.
type span struct{ first, last int64 }

// unreplicated holds completed transactions in the order of their last
// offsets, and knows the lowest first offset among them.
type unreplicated struct {
	queue []span
	// low is the subsequence of queue that can still become the minimum:
	// each element's first offset is below all that came after it in queue.
	low         []span
	head, lhead int
}

func (u *unreplicated) push(s span) {
	if u.head == len(u.queue) {
		u.queue, u.head = u.queue[:0], 0
	}
	u.queue = append(u.queue, s)
	for len(u.low) > u.lhead && u.low[len(u.low)-1].first >= s.first {
		u.low = u.low[:len(u.low)-1]
	}
	if u.lhead == len(u.low) {
		u.low, u.lhead = u.low[:0], 0
	}
	u.low = append(u.low, s)
}

// passed drops what ends below offset.
func (u *unreplicated) passed(offset int64) {
	u.queue, u.head = dropBelow(u.queue, u.head, offset)
	u.low, u.lhead = dropBelow(u.low, u.lhead, offset)
}

// dropBelow moves head past the spans that end below offset, and gives room
// back once half of q is unused.
func dropBelow(q []span, head int, offset int64) ([]span, int) {
	for head < len(q) && q[head].last < offset {
		head++
	}
	if head > len(q)/2 {
		return q[:copy(q, q[head:])], 0
	}
	return q, head
}

func (u *unreplicated) min() (int64, bool) {
	if u.lhead == len(u.low) {
		return 0, false
	}
	return u.low[u.lhead].first, true
}

// minAt is the lowest first offset among those that end at or above offset.
func (u *unreplicated) minAt(offset int64) (int64, bool) {
	// low's firsts grow, and each covers what came before it in queue.
	for _, s := range u.low[u.lhead:] {
		if s.last >= offset {
			return s.first, true
		}
	}
	return 0, false
}
