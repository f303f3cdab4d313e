package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"watershed.example/psm"
)

// Compaction is how a log is compacted, as its topic's configs say.
type Compaction struct {
	// DirtyRatio is min.cleanable.dirty.ratio.
	DirtyRatio float64
	// MinLagMs and MaxLagMs are min.compaction.lag.ms and
	// max.compaction.lag.ms; 0 is none.
	MinLagMs, MaxLagMs int64
	// DeleteRetentionMs is delete.retention.ms: how long tombstones, and
	// markers of transactions of which nothing is left, stay.
	DeleteRetentionMs int64
	// MaxKeys bounds the keys that one round looks at; 0 is four million.
	MaxKeys    int
	Decompress Decompress
	Compress   Compress
}

// Compacted is what a compaction did: offsets [From, To) were dirty, and the
// segments below To had Before bytes and have After. All zero: nothing.
type Compacted struct{ From, To, Before, After int64 }

// errOvertaken ends a compaction whose segments are no longer the log's.
var errOvertaken = errors.New("log was cut while it was compacted")

// Compact removes, as Kafka's log cleaner does, each record below the last
// stable offset for whose key there is a later one, aborted records, and
// tombstones and markers whose time has come. Offsets stay as they are. The
// active segment is left alone. Appends and reads go on meanwhile; a
// truncation makes it give up, which is no error.
//
// Whatever offset at or above [Log.CleanedUpTo] the log is replayed to, from
// nothing but its bytes, the producer state is what it would have been without
// compaction (SC-7): a producer's last batch and last marker stay, the batch
// without records if need be. So do the first batch of each leader epoch, and
// every barrier as it is: it costs some hundred bytes a stop, its effect needs
// no second source where lists of stops got lost (BAR-8), and logs are aligned
// by the bytes of their barriers.
//
// may is asked, if it is there, before the log is changed.
func (l *Log) Compact(ctx context.Context, c Compaction, may func() bool) (Compacted, error) {
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	r, err := l.planCompaction(ctx, c)
	if r == nil || err != nil {
		return Compacted{}, err
	}
	r.may = may
	done, err := r.run()
	if errors.Is(err, errOvertaken) {
		return Compacted{}, nil
	}
	if err != nil {
		err = fmt.Errorf("compact %s: %w", l.dir, err)
	}
	return done, err
}

// compaction is one round.
type compaction struct {
	Compaction
	*Log
	ctx context.Context
	may func() bool
	now int64
	gen uint64
	// segs are compacted; tail is the rest of the log.
	segs, tail []cleanSegment
	// settled is from where on nothing that the round relies on is cut away:
	// the bound, or behind the last marker of a transaction that began below.
	settled int64
	// [dirty, bound) is what was not compacted before.
	dirty, bound, logStart int64
	stops                  []psm.Stop
	aborted                abortedRanges
	groups                 []*cleanGroup

	keys map[string]int64
	// kept are base offsets of batches that stay, if without records; whole
	// those of the producers' last batches and markers among them.
	kept, whole map[int64]bool
	// forgotten is behind the last tombstone or marker that goes for good.
	forgotten int64
	// left: something stays of the producer's transaction.
	left map[int64]bool
	// after is the producer state of what stays, for the transaction index.
	after *psm.State
}

// cleanSegment is a segment as it was when the round began: truncation may
// change the segment itself meanwhile.
type cleanSegment struct {
	seg                       *segment
	base, end, size           int64
	indexEntries, timeEntries int
}

// cleanGroup is segments that become one.
type cleanGroup struct {
	segs []cleanSegment
	// out is what is left of them, nil when they stay as they are.
	out *segment
}

// planCompaction finds what can be compacted; nil for nothing worth it.
func (l *Log) planCompaction(ctx context.Context, c Compaction) (*compaction, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	if c.MaxKeys <= 0 {
		c.MaxKeys = 4 << 20
	}
	r := &compaction{
		Compaction: c, Log: l, ctx: ctx, now: l.cfg.Now().UnixMilli(), gen: l.gen, logStart: l.logStart,
		stops: l.state.Stops(), dirty: max(l.cleaned.dirty, l.segments[0].base),
		left: map[int64]bool{}, kept: map[int64]bool{}, whole: map[int64]bool{},
	}
	var clean, dirty int64
	must, past := false, false
	for i, s := range l.segments {
		end, active := l.logEnd, i == len(l.segments)-1
		if !active {
			end = l.segments[i+1].base
		}
		cs := cleanSegment{seg: s, base: s.base, end: end, size: s.size, indexEntries: len(s.index), timeEntries: len(s.times)}
		past = past || active || end > l.lastStable || end > r.dirty && c.MinLagMs > 0 && s.maxTime > r.now-c.MinLagMs
		if past {
			r.tail = append(r.tail, cs)
			continue
		}
		if end <= r.dirty {
			clean += s.size
		} else {
			must = must || c.MaxLagMs > 0 && dirty == 0 && s.firstTime >= 0 && r.now-s.firstTime > c.MaxLagMs
			dirty += s.size
		}
		r.segs, r.bound = append(r.segs, cs), end
	}
	if dirty == 0 || !must && float64(dirty) <= c.DirtyRatio*float64(clean+dirty) {
		return nil, nil
	}
	r.aborted = rangesOf(l.Aborted(nil, l.segments[0].base, r.bound))
	return r, nil
}

func (r *compaction) run() (Compacted, error) {
	if err := r.readKeys(); err != nil {
		return Compacted{}, err
	}
	r.group()
	if err := r.findKept(); err != nil {
		return Compacted{}, err
	}
	err := r.writeGroups()
	if err == nil {
		err = r.swapIn()
	}
	if err != nil {
		return Compacted{}, errors.Join(err, r.discard())
	}
	done := Compacted{From: r.dirty, To: r.bound}
	for _, g := range r.groups {
		before := int64(0)
		for _, s := range g.segs {
			before += s.size
		}
		done.Before += before
		if g.out != nil {
			before = g.out.size
		}
		done.After += before
	}
	return done, nil
}

// each goes through a segment's batches.
func (r *compaction) each(s cleanSegment, do func(b *psm.Batch, raw []byte) error) error {
	sc := newScanner(s.seg.r, 0, s.size, false)
	for sc.next() {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if r.leaving.Load() {
			return ErrClosed
		}
		if err := do(&sc.b, sc.bytes); err != nil {
			return err
		}
	}
	if err := sc.failure(); err != nil {
		if r.generation() != r.gen {
			return errOvertaken
		}
		return fmt.Errorf("segment %s: %w", s.seg.file(suffixLog), err)
	}
	return nil
}

// readKeys finds the last offset of each key in the dirty part. If there are
// too many, the round ends earlier, but not before its first dirty segment.
func (r *compaction) readKeys() error {
	r.keys = map[string]int64{}
	some := false
	for i, s := range r.segs {
		if s.end <= r.dirty {
			continue
		}
		if some && len(r.keys) >= r.MaxKeys {
			r.segs, r.tail, r.bound = r.segs[:i], append(slices.Clone(r.segs[i:]), r.tail...), s.base
			return nil
		}
		some = true
		err := r.each(s, func(b *psm.Batch, raw []byte) error {
			if b.IsControl() || b.Count == 0 || r.aborted.has(b) {
				return nil
			}
			records, err := recordsOf(b, raw, r.Decompress)
			if err != nil {
				return err
			}
			return eachRecord(b, records, func(rec *record) error {
				if rec.key != nil {
					r.keys[string(rec.key)] = rec.offset
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// group puts segments together that fit into one.
func (r *compaction) group() {
	var g *cleanGroup
	var size, index, times int64
	for _, s := range r.segs {
		n, t := int64(s.indexEntries*offsetEntrySize), int64(s.timeEntries*timeEntrySize)
		limit := int64(r.cfg.IndexBytes)
		if g == nil || size+s.size > r.cfg.SegmentBytes || index+n > limit || times+t > limit || s.end-1-g.segs[0].base > math.MaxInt32 {
			g = &cleanGroup{}
			r.groups = append(r.groups, g)
			size, index, times = 0, 0, 0
		}
		g.segs = append(g.segs, s)
		size, index, times = size+s.size, index+n, times+t
	}
}

// newState is the producer state of an empty log that knows this one's stops.
func (r *compaction) newState() *psm.State {
	s := psm.New(psm.Config{
		AnyBarrierExpires: r.cfg.Producers.AnyBarrierExpires, ExpirationMs: r.cfg.Producers.ExpirationMs, Faults: r.cfg.Producers.Faults,
	})
	s.SetStops(r.stops)
	return s
}

// advance takes a batch into a producer state.
func advance(s *psm.State, b *psm.Batch) ([]psm.Completed, error) {
	s.Begin(psm.Append{Origin: psm.Replication})
	if _, err := s.Add(b); err != nil {
		s.Discard()
		return nil, err
	}
	return s.Commit(), nil
}

// findKept finds the batches that have to stay whatever becomes of their
// records.
func (r *compaction) findKept() error {
	state := r.newState()
	epoch := int32(-1)
	batches, markers := map[int64]int64{}, map[int64]int64{} // last offset to base; producer to base
	for _, g := range r.groups {
		last := int64(-1)
		for _, s := range g.segs {
			err := r.each(s, func(b *psm.Batch, _ []byte) error {
				last = b.BaseOffset
				if b.LeaderEpoch > epoch {
					epoch, r.kept[b.BaseOffset] = b.LeaderEpoch, true
				}
				if b.LastOffset < r.logStart {
					return nil
				}
				switch {
				case b.ProducerID < 0:
				case !b.IsControl():
					batches[b.LastOffset] = b.BaseOffset
				case b.Control.Type == psm.ControlAbort || b.Control.Type == psm.ControlCommit:
					markers[b.ProducerID] = b.BaseOffset
				}
				_, err := advance(state, b)
				return err
			})
			if err != nil {
				return err
			}
		}
		// The last one says where the group ends.
		if last >= 0 {
			r.kept[last] = true
		}
	}
	r.settled = r.bound
	if err := r.findSettled(state.OpenTransactions()); err != nil {
		return err
	}
	state.Expire(r.now)
	for _, e := range state.SnapshotEntries() {
		if base, ok := batches[e.LastOffset]; ok {
			r.kept[base], r.whole[base] = true, true
		}
		if e.CurrentTxnFirstOffset >= 0 {
			// Its marker lies above: until there it is open.
			r.kept[e.CurrentTxnFirstOffset] = true
		}
		if base, ok := markers[e.ProducerID]; ok {
			r.kept[base], r.whole[base] = true, true
		}
	}
	return nil
}

// findSettled finds the last marker of transactions that are open at the bound.
// Their outcome is known: were it cut away, they might end otherwise.
func (r *compaction) findSettled(open []psm.OpenTxn) error {
	waiting := map[int64]bool{}
	for _, o := range open {
		waiting[o.ProducerID] = true
	}
	for _, s := range r.tail {
		if len(waiting) == 0 {
			return nil
		}
		err := r.each(s, func(b *psm.Batch, _ []byte) error {
			marks := b.Control.Type == psm.ControlAbort || b.Control.Type == psm.ControlCommit
			if b.IsBarrier() || marks && waiting[b.ProducerID] {
				r.settled = b.LastOffset + 1
				delete(waiting, b.ProducerID)
			}
			if len(waiting) == 0 {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

// errEnough ends a scan that has found what it looked for.
var errEnough = errors.New("found")

// abortedRanges are the offsets of aborted transactions by producer.
type abortedRanges map[int64][]psm.AbortedTxn

func rangesOf(entries []psm.AbortedTxn) abortedRanges {
	a := abortedRanges{}
	for _, e := range entries {
		a[e.ProducerID] = append(a[e.ProducerID], e)
	}
	return a
}

// has reports whether b is a batch of an aborted transaction.
func (a abortedRanges) has(b *psm.Batch) bool {
	if !b.Transactional() || b.IsControl() {
		return false
	}
	return slices.ContainsFunc(a[b.ProducerID], func(e psm.AbortedTxn) bool {
		return e.FirstOffset <= b.BaseOffset && b.LastOffset <= e.LastOffset
	})
}
