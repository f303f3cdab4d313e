package psm

import "fmt"

// Append says what an append is.
type Append struct {
	Origin Origin
	// Guard is what [State.StartVerification] gave for this append.
	Guard Guard
	// TransactionVersion is that of the markers in an append of a
	// coordinator: from 2 on a marker needs a higher epoch than the
	// producer's (equal passes for a repeated marker, and at the epochs'
	// end).
	TransactionVersion int8
}

// Duplicate is the answer to a batch that is already in the log.
type Duplicate struct {
	// Found says that it is; else the rest is zero.
	Found bool
	// BaseOffset, LastOffset and Timestamp (ms) are those of the batch in
	// the log.
	BaseOffset, LastOffset, Timestamp int64
}

type opKind uint8

const (
	opData opKind = iota
	opMarker
	opBarrier // own barrier, or the effect of one that is gone
)

// op is a checked batch that waits for Commit.
type op struct {
	kind       opKind
	txn        bool // transactional data
	abort      bool
	guarded    bool // ends a verification
	epoch      int16
	slot       uint32 // of pid, none if it had none
	lastSeq    int32
	coordEpoch int32
	pid        int64
	base, last int64
	ts         int64
}

// view is a producer as it is in the middle of an append.
type view struct {
	producer
	slot uint32
}

// pending is an append between Begin and Commit.
type pending struct {
	Append
	active, failed bool
	// reset says that a barrier came: what the state knows is gone.
	reset    bool
	open     int // open transactions
	end      int64
	nextStop int64
	ops      []op
	// views are the producers touched so far, once there is a second batch:
	// found by the mark of their slot or, for those without, by fresh.
	views   []view
	viewed  int // ops that views show
	fresh   map[int64]int
	scratch producer
}

// newOp adds an op, to be filled in whole: it has an old one's content.
func (p *pending) newOp() *op {
	n := len(p.ops)
	if n == cap(p.ops) {
		p.ops = append(p.ops, op{})
	} else {
		p.ops = p.ops[:n+1]
	}
	return &p.ops[n]
}

// Begin begins an append. One that was begun and not committed is discarded.
func (s *State) Begin(a Append) {
	p := &s.app
	if p.active {
		s.Discard()
	}
	p.Append = a
	p.active = true
	p.open = s.table.open
	p.end = s.end
	p.nextStop = s.nextStop
}

// Discard ends an append that was not written: the state is as before it.
func (s *State) Discard() {
	p := &s.app
	p.active, p.failed, p.reset = false, false, false
	p.ops = p.ops[:0]
	p.forgetViews()
}

func (p *pending) forgetViews() {
	p.viewed = len(p.ops)
	if len(p.views) > 0 {
		p.views = p.views[:0]
		clear(p.fresh)
	}
}

// Add checks the next batch of the append, offsets assigned. If it is a
// duplicate, or an error comes (an [*Error] with Kafka's code, or one that
// wraps [ErrOffsetOrder] or [ErrNoAppend]), the append must be discarded.
// Add keeps nothing of b.
func (s *State) Add(b *Batch) (Duplicate, error) {
	p := &s.app
	if !p.active || p.failed {
		return Duplicate{}, ErrNoAppend
	}
	dup, err := s.add(p, b)
	if err != nil || dup.Found {
		p.failed = true
	}
	return dup, err
}

func (s *State) add(p *pending, b *Batch) (Duplicate, error) {
	if b.BaseOffset < p.end && (p.Origin != Replication || b.LastOffset < p.end) || b.LastOffset < b.BaseOffset {
		return Duplicate{}, fmt.Errorf("batch at offsets %d to %d, log ends at %d: %w", b.BaseOffset, b.LastOffset, p.end, ErrOffsetOrder)
	}
	if b.LastOffset >= p.nextStop || b.Attributes.Control() {
		return s.addSpecial(p, b)
	}
	p.end = b.LastOffset + 1
	if b.ProducerID < 0 && !s.keeps(b.ProducerID) {
		return Duplicate{}, nil
	}
	return s.addData(p, b)
}

// addSpecial takes control batches, and whatever lies at or beyond the next
// stop's barrier.
func (s *State) addSpecial(p *pending, b *Batch) (dup Duplicate, err error) {
	own := b.IsBarrier() && (p.Origin == Coordinator || s.cfg.AnyBarrierExpires || owns(s.stops, b))
	for p.nextStop < b.BaseOffset {
		s.passStop(p)
	}
	p.end = b.LastOffset + 1
	switch {
	case b.Attributes.Control() && p.Origin == Client:
		return dup, refuse(CodeInvalidRecord, b, "a client wrote a control batch")
	case own:
		if p.open > 0 && p.Origin == Coordinator && !s.cfg.Faults.overOpen() {
			return dup, refuse(CodeInvalidTxnState, b, fmt.Sprintf("a barrier over %d open transactions", p.open))
		}
		s.barrier(p, b.BaseOffset)
	case b.ProducerID < 0 && !s.keeps(b.ProducerID):
	case !b.Attributes.Control():
		dup, err = s.addData(p, b)
	case b.Control.Type == ControlAbort || b.Control.Type == ControlCommit:
		err = s.addMarker(p, b)
	}
	if own {
		p.nextStop = nextStop(s.stops, p.end)
	}
	for p.nextStop < p.end {
		// Not the barrier that belongs here: its effect holds all the same.
		s.passStop(p)
	}
	return dup, err
}

// passStop gives a barrier that is no longer in the log its effect (BAR-8).
func (s *State) passStop(p *pending) {
	s.barrier(p, p.nextStop)
	p.nextStop = nextStop(s.stops, p.nextStop+1)
}

// barrier makes everything before offset unknown.
func (s *State) barrier(p *pending, offset int64) {
	p.ops = append(p.ops, op{kind: opBarrier, base: offset, last: offset, slot: none})
	p.reset = true
	p.open = 0
	p.forgetViews()
}

// addData checks a data batch with a producer id.
func (s *State) addData(p *pending, b *Batch) (Duplicate, error) {
	cur, slot := s.current(p, b.ProducerID)
	lastSeq := b.LastSequence()
	if p.Origin != Replication {
		if dup, err := s.check(p, b, cur, lastSeq); err != nil || dup.Found {
			return dup, err
		}
	} else if b.ProducerEpoch < cur.epoch {
		s.warnEpoch(b, cur.epoch)
	}
	txn := b.Attributes.Transactional()
	if txn {
		if cur.txnFirst < 0 {
			p.open++
		}
	} else if cur.txnFirst >= 0 {
		return Duplicate{}, refuse(CodeInvalidTxnState, b, "data outside a transaction while one is open")
	}
	o := p.newOp()
	o.kind, o.txn, o.abort, o.guarded = opData, txn, false, txn
	o.epoch, o.lastSeq, o.slot, o.pid = b.ProducerEpoch, lastSeq, slot, b.ProducerID
	o.base, o.last, o.ts = b.BaseOffset, b.LastOffset, b.MaxTimestamp
	return Duplicate{}, nil
}
