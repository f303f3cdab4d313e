package psm_test

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"watershed.example/psm"
)

// model is producer state again, written for clearness alone: plain maps and
// lists, copied whole where State is clever. It shares no code with psm.
type model struct {
	cfg       psm.Config
	producers map[int64]mProducer
	ended     []mSpan // completed, not below the high watermark
	end       int64
	stops     []psm.Stop
	verifying map[int64]mVerification
	// verified are the verifications that the append under way ends.
	verified []int64
}

type mProducer struct {
	epoch   int16
	coord   int32
	ts      int64
	txn     int64
	batches []psm.Remembered
}

type mSpan struct{ first, last int64 }

type mVerification struct {
	guard  psm.Guard
	epoch  int16
	lowest int32
	v2     bool
	ts     int64
}

func newModel(cfg psm.Config) *model {
	return &model{cfg: cfg, producers: map[int64]mProducer{}, verifying: map[int64]mVerification{}}
}

func (m *model) clone() *model {
	c := *m
	c.producers, c.verifying = maps.Clone(m.producers), maps.Clone(m.verifying)
	c.ended, c.stops = slices.Clone(m.ended), slices.Clone(m.stops)
	return &c
}

func (m *model) get(pid int64) mProducer {
	if p, ok := m.producers[pid]; ok {
		return p
	}
	return mProducer{epoch: -1, coord: -1, ts: -1, txn: -1}
}

// step is the outcome of one batch.
type step struct {
	dup  psm.Duplicate
	code int16
	done []psm.Completed
}

// add applies a batch at once.
func (m *model) add(a psm.Append, b *psm.Batch) step {
	control := b.Attributes&0x20 != 0
	out := step{done: m.pass(b.BaseOffset)}
	switch {
	case control && a.Origin == psm.Client:
		out.code = 87
	case control && b.Control.Type == 7:
		if a.Origin == psm.Coordinator || m.cfg.AnyBarrierExpires || m.own(b) {
			if a.Origin == psm.Coordinator && len(m.open()) > 0 {
				out.code = 48
			} else {
				out.done = append(out.done, m.barrier(b.BaseOffset)...)
			}
		}
	case b.ProducerID < 0:
	case !control:
		out.dup, out.code = m.data(a, b)
	case b.Control.Type == 0 || b.Control.Type == 1:
		var done []psm.Completed
		done, out.code = m.marker(a, b)
		out.done = append(out.done, done...)
	}
	if out.code == 0 && !out.dup.Found {
		own := control && b.Control.Type == 7 && (a.Origin == psm.Coordinator || m.own(b) || m.cfg.AnyBarrierExpires)
		m.end = b.LastOffset + 1
		if !own {
			m.end = b.BaseOffset
			out.done = append(out.done, m.pass(b.LastOffset+1)...)
			m.end = b.LastOffset + 1
		}
	}
	return out
}

// commit ends an append.
func (m *model) commit() {
	for _, pid := range m.verified {
		delete(m.verifying, pid)
	}
	m.verified = nil
}

// hints is a model that knows what s does of producers, to draw batches from.
func hints(s *psm.State) *model {
	m := newModel(psm.Config{})
	for _, e := range s.SnapshotEntries() {
		m.producers[e.ProducerID] = mProducer{
			epoch: e.Epoch, coord: e.CoordinatorEpoch, ts: e.Timestamp, txn: e.CurrentTxnFirstOffset, batches: s.RememberedOf(e.ProducerID),
		}
	}
	return m
}

// pass applies the stops from m.end up to but not at offset.
func (m *model) pass(offset int64) []psm.Completed {
	var at []int64
	for _, s := range m.stops {
		if s.BarrierOffset >= m.end && s.BarrierOffset < offset && !slices.Contains(at, s.BarrierOffset) {
			at = append(at, s.BarrierOffset)
		}
	}
	slices.Sort(at)
	var done []psm.Completed
	for _, o := range at {
		done = append(done, m.barrier(o)...)
		m.end = o + 1
	}
	return done
}

func (m *model) own(b *psm.Batch) bool {
	return slices.ContainsFunc(m.stops, func(s psm.Stop) bool {
		return s.BarrierOffset == b.BaseOffset && s.SourceClusterID == b.Control.SourceClusterID && b.LeaderEpoch >= s.Epoch
	})
}

// open gives the ids of producers with an open transaction, by first offset.
func (m *model) open() []int64 {
	var out []int64
	for pid, p := range m.producers {
		if p.txn >= 0 {
			out = append(out, pid)
		}
	}
	slices.SortFunc(out, func(a, b int64) int { return cmp.Compare(m.producers[a].txn, m.producers[b].txn) })
	return out
}

func (m *model) complete(pid, last int64, aborted, byBarrier bool) psm.Completed {
	p := m.producers[pid]
	c := psm.Completed{ProducerID: pid, FirstOffset: p.txn, LastOffset: last, Aborted: aborted, ByBarrier: byBarrier, LSO: last + 1}
	m.ended = append(m.ended, mSpan{p.txn, last})
	p.txn = -1
	m.producers[pid] = p
	if open := m.open(); len(open) > 0 {
		c.LSO = m.producers[open[0]].txn
	}
	return c
}

func (m *model) barrier(offset int64) []psm.Completed {
	var done []psm.Completed
	for _, pid := range m.open() {
		done = append(done, m.complete(pid, offset, true, true))
	}
	m.producers = map[int64]mProducer{}
	for pid := range m.verifying {
		m.verified = append(m.verified, pid)
	}
	return done
}

// seqAfter is the sequence n after s, counted the slow way round.
func seqAfter(s int32, n int64) int32 { return int32((int64(s) + n) % (math.MaxInt32 + 1)) }

func (m *model) data(a psm.Append, b *psm.Batch) (psm.Duplicate, int16) {
	p := m.get(b.ProducerID)
	txn := b.Attributes&0x10 != 0
	first, last := b.BaseSequence, int32(-1)
	if first >= 0 {
		last = seqAfter(first, b.LastOffset-b.BaseOffset)
	}
	if a.Origin == psm.Client {
		if first < 0 {
			return psm.Duplicate{}, 87
		}
		for _, r := range p.batches {
			if p.epoch == b.ProducerEpoch && r.First == first && r.Last == last {
				return psm.Duplicate{Found: true, BaseOffset: r.BaseOffset, LastOffset: r.LastOff, Timestamp: r.Timestamp}, 0
			}
		}
	}
	v, verifying := m.verifying[b.ProducerID]
	if a.Origin != psm.Replication {
		if b.ProducerEpoch < p.epoch {
			return psm.Duplicate{}, 47
		}
		ongoing := p.txn >= 0 && p.epoch == b.ProducerEpoch
		if txn && !ongoing && m.cfg.VerifyTransactions && (!verifying || a.Guard != v.guard) {
			return psm.Duplicate{}, 48
		}
	}
	if a.Origin == psm.Client {
		expect := int64(-1) // any
		if p.epoch >= 0 {
			expect = 0
			if p.epoch == b.ProducerEpoch && len(p.batches) > 0 {
				expect = int64(seqAfter(p.batches[len(p.batches)-1].Last, 1))
			}
		}
		late := verifying && (v.v2 && first != 0 && len(p.batches) == 0 || first > v.lowest)
		if late || expect >= 0 && int64(first) != expect {
			return psm.Duplicate{}, 45
		}
	}
	if p.txn >= 0 && !txn {
		return psm.Duplicate{}, 48
	}
	if p.epoch != b.ProducerEpoch {
		p.epoch, p.batches = b.ProducerEpoch, nil
	}
	p.batches = append(slices.Clone(p.batches), psm.Remembered{First: first, Last: last, BaseOffset: b.BaseOffset, LastOff: b.LastOffset, Timestamp: b.MaxTimestamp})
	if len(p.batches) > 5 {
		p.batches = p.batches[1:]
	}
	p.ts = b.MaxTimestamp
	if txn {
		m.verified = append(m.verified, b.ProducerID)
		if p.txn < 0 {
			p.txn = b.BaseOffset
		}
	}
	m.producers[b.ProducerID] = p
	return psm.Duplicate{}, 0
}

func (m *model) marker(a psm.Append, b *psm.Batch) ([]psm.Completed, int16) {
	p := m.get(b.ProducerID)
	if a.Origin != psm.Replication {
		tooLow := b.ProducerEpoch < p.epoch
		if a.TransactionVersion >= 2 && b.ProducerEpoch == p.epoch && p.txn >= 0 && b.ProducerEpoch != 32767 {
			tooLow = true
		}
		if tooLow {
			return nil, 47
		}
		if b.Control.CoordinatorEpoch < p.coord {
			return nil, 52
		}
	}
	if v, ok := m.verifying[b.ProducerID]; ok && (!v.v2 || v.epoch != b.ProducerEpoch) {
		m.verified = append(m.verified, b.ProducerID)
	}
	open := p.txn >= 0
	if p.epoch != b.ProducerEpoch {
		p.epoch, p.batches = b.ProducerEpoch, nil
	}
	p.coord, p.ts = b.Control.CoordinatorEpoch, b.Control.Timestamp
	m.producers[b.ProducerID] = p
	if !open {
		return nil, 0
	}
	return []psm.Completed{m.complete(b.ProducerID, b.BaseOffset, b.Control.Type == 0, false)}, 0
}

func (m *model) verify(v psm.Verification, guard psm.Guard) (needsGuard bool, code int16) {
	p := m.get(v.ProducerID)
	if v.ProducerEpoch < p.epoch {
		return false, 47
	}
	if p.txn >= 0 && p.epoch == v.ProducerEpoch || !m.cfg.VerifyTransactions {
		return false, 0
	}
	e, ok := m.verifying[v.ProducerID]
	if !ok {
		e = mVerification{guard: guard, epoch: v.ProducerEpoch, lowest: v.BaseSequence, v2: v.TransactionVersion >= 2, ts: v.NowMs}
	}
	if v.ProducerEpoch > e.epoch {
		e.epoch, e.lowest = v.ProducerEpoch, v.BaseSequence
	} else if v.ProducerEpoch == e.epoch {
		e.lowest = min(e.lowest, v.BaseSequence)
	}
	m.verifying[v.ProducerID] = e
	return true, 0
}

func (m *model) expire(now, after int64) {
	maps.DeleteFunc(m.producers, func(_ int64, p mProducer) bool { return p.txn < 0 && now-p.ts >= after })
	maps.DeleteFunc(m.verifying, func(_ int64, v mVerification) bool { return now-v.ts >= after })
}

func (m *model) highWatermark(hw int64) {
	m.ended = slices.DeleteFunc(m.ended, func(s mSpan) bool { return s.last < hw })
}

// lso is the last stable offset at a high watermark.
func (m *model) lso(hw int64) int64 {
	lso := hw
	for _, s := range m.ended {
		if s.last >= hw {
			lso = min(lso, s.first)
		}
	}
	for _, p := range m.producers {
		if p.txn >= 0 {
			lso = min(lso, p.txn)
		}
	}
	return lso
}

func (m *model) unstable() int64 {
	first := int64(math.MaxInt64)
	for _, s := range m.ended {
		first = min(first, s.first)
	}
	return min(first, m.lso(math.MaxInt64))
}

// snapshot is what a snapshot of the model would hold.
func (m *model) snapshot() []psm.SnapshotEntry {
	out := []psm.SnapshotEntry{}
	for _, pid := range slices.Sorted(maps.Keys(m.producers)) {
		p := m.producers[pid]
		e := psm.SnapshotEntry{
			ProducerID: pid, Epoch: p.epoch, LastSequence: -1, LastOffset: -1, Timestamp: p.ts,
			CoordinatorEpoch: p.coord, CurrentTxnFirstOffset: p.txn,
		}
		if n := len(p.batches); n > 0 {
			r := p.batches[n-1]
			e.LastSequence, e.LastOffset, e.OffsetDelta = r.Last, r.LastOff, int32(r.LastOff-r.BaseOffset)
		}
		out = append(out, e)
	}
	return out
}
