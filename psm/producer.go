package psm

// remembered is how many batches of a producer are kept to recognise retries.
const remembered = 5

// producer is the state of one producer id. It is laid out so that the checks
// of an append touch its first bytes only.
type producer struct {
	pid      int64
	txnFirst int64 // -1: no open transaction
	// lastTs is that of the last batch or marker.
	lastTs     int64
	coordEpoch int32 // -1: no marker yet
	epoch      int16 // -1: unknown
	n          uint8 // remembered batches
	next       uint8 // where in the rings the next batch goes
	lastSeq    [remembered]int32
	delta      [remembered]int32 // last offset minus first
	at         [remembered]place
}

// place is the rest of a remembered batch.
type place struct {
	last int64 // last offset
	ts   int64 // max timestamp
}

// unknown is what is known of a producer id never seen.
func unknown(pid int64) producer {
	return producer{pid: pid, txnFirst: -1, lastTs: -1, coordEpoch: -1, epoch: -1}
}

// reset makes p what is known of pid, which was never seen. The rings keep what
// they hold: n says how much of it counts.
func (p *producer) reset(pid int64) {
	p.pid, p.txnFirst, p.lastTs, p.coordEpoch, p.epoch, p.n, p.next = pid, -1, -1, -1, -1, 0, 0
}

// newest is the ring index of the newest batch; n must not be 0.
func (p *producer) newest() int {
	if p.next == 0 {
		return remembered - 1
	}
	return int(p.next) - 1
}

// oldest is the ring index of the oldest batch.
func (p *producer) oldest() int {
	i := int(p.next) - int(p.n)
	if i < 0 {
		i += remembered
	}
	return i
}

// sequence is the last batch's last sequence, -1 without one.
func (p *producer) sequence() int32 {
	if p.n == 0 {
		return -1
	}
	return p.lastSeq[p.newest()]
}

// setEpoch moves to epoch; another epoch's batches are forgotten.
func (p *producer) setEpoch(epoch int16) {
	if p.epoch != epoch {
		p.epoch = epoch
		p.n = 0
	}
}

// push remembers a data batch.
func (p *producer) push(epoch int16, lastSeq, delta int32, last, ts int64) {
	p.setEpoch(epoch)
	i := p.next
	if i >= remembered { // never; spares the bounds checks
		i = 0
	}
	p.lastSeq[i] = lastSeq
	p.delta[i] = delta
	p.at[i] = place{last: last, ts: ts}
	p.next = i + 1
	if p.next == remembered {
		p.next = 0
	}
	if p.n < remembered {
		p.n++
	}
	p.lastTs = ts
}

// marker applies an end-transaction marker.
func (p *producer) marker(epoch int16, coordEpoch int32, ts int64) {
	p.setEpoch(epoch)
	p.coordEpoch = coordEpoch
	p.lastTs = ts
	p.txnFirst = -1
}

// mayRepeat says whether a batch in the rings, be it one no longer
// remembered, ends with the sequence last: if not, there is no duplicate.
func (p *producer) mayRepeat(last int32) bool {
	l := &p.lastSeq
	return l[0] == last || l[1] == last || l[2] == last || l[3] == last || l[4] == last
}

// duplicate gives the ring index of the oldest remembered batch with just
// these sequences, -1 for none.
func (p *producer) duplicate(epoch int16, first, last int32) int {
	if p.epoch != epoch {
		return -1
	}
	i := p.oldest()
	for range p.n {
		if p.lastSeq[i] == last && SubSequence(last, p.delta[i]) == first {
			return i
		}
		if i++; i == remembered {
			i = 0
		}
	}
	return -1
}

// inSequence says whether seq may follow last.
func inSequence(last, seq int32) bool {
	return int64(seq) == int64(last)+1 || (seq == 0 && last == 1<<31-1)
}

func (p *producer) export() Producer {
	return Producer{
		ProducerID: p.pid, Epoch: p.epoch, LastSequence: p.sequence(), LastTimestamp: p.lastTs,
		CoordinatorEpoch: p.coordEpoch, CurrentTxnFirstOffset: p.txnFirst,
	}
}
