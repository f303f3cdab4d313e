package psm

import (
	"math/bits"
	"math/rand/v2"
)

// chunkSize is how many slots are allocated at once, so that a big table
// grows without being copied.
const (
	chunkBits = 9
	chunkSize = 1 << chunkBits
)

// none is the slot number of no slot.
const none = ^uint32(0)

// slot holds one producer in a [table].
type slot struct {
	producer
	// before and after chain the slots with an open transaction by its first
	// offset; a free slot's after is the next free one. none ends a chain.
	before, after uint32
	// mark is where in the pending append's views this producer is, if that
	// view says the same.
	mark uint32
}

// table maps producer ids to slots: an open-addressed index over slots in
// chunks. A slot keeps its number until it is removed. Memory: 168 bytes a
// slot and 8 bytes an index place, at most 4/5 of which are in use.
type table struct {
	index       []uint64 // upper half: of the hash; lower: slot number + 1; 0: empty
	chunks      [][]slot
	free        uint32
	n           int // producers
	used        int // slots handed out, the free ones included
	seed        uint64
	first, last uint32 // chain of open transactions
	open        int    // its length
}

func newTable() table {
	return table{free: none, first: none, last: none, seed: rand.Uint64()}
}

func (t *table) hash(pid int64) uint64 {
	hi, lo := bits.Mul64(uint64(pid)^t.seed, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

func (t *table) at(i uint32) *slot { return &t.chunks[i>>chunkBits][i&(chunkSize-1)] }

const tagMask uint64 = 0xffffffff_00000000

// find gives the slot of pid, or none.
func (t *table) find(pid int64) uint32 {
	if len(t.index) == 0 {
		return none
	}
	h := t.hash(pid)
	mask := uint64(len(t.index) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := t.index[i]
		if e == 0 {
			return none
		}
		if (e^h)&tagMask == 0 {
			if s := uint32(e) - 1; t.at(s).pid == pid {
				return s
			}
		}
	}
}

// reserve makes room for n producers in the index of an empty table.
func (t *table) reserve(n int) {
	if len(t.index) > 0 || n == 0 {
		return
	}
	size := 8
	for n*5 > size*4 {
		size *= 2
	}
	t.index = make([]uint64, size)
}

// insert adds an unknown producer pid, which must not be there.
func (t *table) insert(pid int64) uint32 {
	if (t.n+1)*5 > len(t.index)*4 {
		t.rehash(max(8, len(t.index)*2))
	}
	s := t.take(pid)
	t.link(t.hash(pid), s)
	return s
}

// take gives pid a slot that the index does not know yet.
func (t *table) take(pid int64) uint32 {
	s := t.free
	if s != none {
		t.free = t.at(s).after
	} else {
		s = uint32(t.used)
		t.used++
		t.grow(s)
	}
	p := t.at(s)
	p.reset(pid)
	p.before, p.after, p.mark = none, none, 0
	t.n++
	return s
}

// grow makes room for slot s, the next unused one.
func (t *table) grow(s uint32) {
	c := int(s >> chunkBits)
	if c == len(t.chunks) {
		size := chunkSize
		if c == 0 {
			size = 2
		}
		t.chunks = append(t.chunks, make([]slot, size))
		return
	}
	if i := int(s & (chunkSize - 1)); i == len(t.chunks[c]) {
		bigger := make([]slot, min(chunkSize, 2*i))
		copy(bigger, t.chunks[c])
		t.chunks[c] = bigger
	}
}

// link puts slot s with hash h into the index.
func (t *table) link(h uint64, s uint32) {
	mask := uint64(len(t.index) - 1)
	i := h & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = h&tagMask | uint64(s+1)
}

func (t *table) rehash(size int) {
	t.index = make([]uint64, size)
	t.each(func(s uint32, p *slot) { t.link(t.hash(p.pid), s) })
}

// each visits the producers in slot order. f may remove the one it gets.
func (t *table) each(f func(uint32, *slot)) {
	for i := range t.used {
		if p := t.at(uint32(i)); p.pid != -1 {
			f(uint32(i), p)
		}
	}
}

// remove forgets the producer in slot s, which must have no open transaction.
func (t *table) remove(s uint32) {
	p := t.at(s)
	mask := uint64(len(t.index) - 1)
	i := t.hash(p.pid) & mask
	for uint32(t.index[i])-1 != s {
		i = (i + 1) & mask
	}
	// Close the gap: what lies behind it in the same run moves up where its
	// own place allows.
	for j := (i + 1) & mask; t.index[j] != 0; j = (j + 1) & mask {
		home := t.hash(t.at(uint32(t.index[j])-1).pid) & mask
		if (j-home)&mask >= (j-i)&mask {
			t.index[i] = t.index[j]
			i = j
		}
	}
	t.index[i] = 0
	*p = slot{after: t.free}
	p.pid = -1
	t.free = s
	t.n--
}

// shrink gives back memory when most of it is unused. Slots are renumbered.
func (t *table) shrink() {
	if t.used < 2*chunkSize || t.n > t.used/4 {
		return
	}
	small := newTable()
	t.each(func(_ uint32, p *slot) {
		i := small.insert(p.pid)
		small.at(i).producer = p.producer
		if p.txnFirst >= 0 {
			small.openTxn(i)
		}
	})
	*t = small
}

// openTxn chains slot s by its transaction's first offset.
func (t *table) openTxn(s uint32) {
	p := t.at(s)
	prev := t.last
	for prev != none && t.at(prev).txnFirst > p.txnFirst {
		prev = t.at(prev).before
	}
	p.before = prev
	if prev == none {
		p.after = t.first
		t.first = s
	} else {
		p.after = t.at(prev).after
		t.at(prev).after = s
	}
	if p.after == none {
		t.last = s
	} else {
		t.at(p.after).before = s
	}
	t.open++
}

// closeTxn takes slot s out of the chain.
func (t *table) closeTxn(s uint32) {
	p := t.at(s)
	if p.before == none {
		t.first = p.after
	} else {
		t.at(p.before).after = p.after
	}
	if p.after == none {
		t.last = p.before
	} else {
		t.at(p.after).before = p.before
	}
	p.before, p.after = none, none
	t.open--
}

// firstOpen is the lowest first offset of an open transaction.
func (t *table) firstOpen() (int64, bool) {
	if t.first == none {
		return 0, false
	}
	return t.at(t.first).txnFirst, true
}
