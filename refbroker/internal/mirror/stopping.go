package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/txn"
)

// The steps of STOPPING, in order. Their names are API: describe shows them,
// and test hooks arm "before:" and "after:" them.
const (
	StepFetchersRemoved  = "fetchers-removed"
	StepSettled          = "settled"
	StepTruncated        = "truncated"
	StepLastMirrored     = "last-mirrored-offset-persisted"
	StepAborted          = "open-transactions-aborted" // in profile kip1279-latest only
	StepBarrierAppended  = "barrier-appended"
	StepBarrierCommitted = "barrier-committed"
	StepStopped          = "stopped"
)

// PointRecorded is a gate within [StepTruncated]: the quorum has recorded the
// cut, and the log is not cut yet.
const PointRecorded = "recorded:" + StepTruncated

// Steps lists the steps of STOPPING in the default profile, in order.
func Steps() []string { return StepsIn(quorum.V42) }

// StepsIn lists those of a profile.
func StepsIn(p quorum.Profile) []string {
	var names []string
	for _, s := range steps(p) {
		names = append(names, s.name)
	}
	return names
}

// stopping is one stop of one partition, as far as this driver has come.
type stopping struct {
	d     *driver
	part  replica.API
	queue []step
	// entered is set once the first of queue has passed its first gate.
	entered bool
	// lowerBy is when the wait for the groups' commits ends.
	lowerBy time.Time
	// asked is set from the proposal of the cut's record until its gate is passed:
	// the answer may get lost, and the record be there at the next try.
	asked bool
	// settledAt are the marks of the log once it was settled.
	settledAt replica.Offsets
}

// step is one step of STOPPING. done says, from the quorum's record and the
// log alone, whether this stop has it behind itself; run does it, and may be
// repeated.
type step struct {
	name string
	done func(s *stopping, v view) bool
	run  func(s *stopping, ctx context.Context, v view) error
	// aligned steps are left out of a stop that comes before the mirror has
	// aligned the log: that is still this cluster's own, so it is neither cut
	// nor does it need a barrier (BAR-1).
	aligned bool
}

func steps(p quorum.Profile) []step {
	all := []step{
		// Nothing records that no response is in flight; it costs nothing to
		// make sure again.
		{StepFetchersRemoved, never, (*stopping).removeFetchers, false},
		{StepSettled, recorded, (*stopping).settle, true},
		{StepTruncated, isCut, (*stopping).truncate, true},
		{StepLastMirrored, isCut, (*stopping).persistLast, true},
		{StepBarrierAppended, (*stopping).hasBarrier, (*stopping).appendBarrier, true},
		{StepBarrierCommitted, never, (*stopping).commitBarrier, true},
		{StepStopped, never, (*stopping).finish, false},
	}
	if p.CutsAtStop() {
		return all
	}
	at := slices.IndexFunc(all, func(s step) bool { return s.name == StepBarrierAppended })
	return slices.Insert(all, at, step{StepAborted, (*stopping).hasBarrier, (*stopping).abortOpen, true})
}

// stop takes the partition from STOPPING to STOPPED. It needs no source. After
// an error it goes on at the same step when it is called again; a driver that
// finds a stop that another has begun goes on at the first step not done.
func (d *driver) stop(part replica.API) error {
	if d.stopping == nil {
		v, err := d.view()
		if err != nil {
			return err
		}
		s := &stopping{d: d, part: part}
		for _, st := range steps(v.profile) {
			again := st.name == StepBarrierAppended && d.m.defects.Has(defect.NextLeaderAddsBarrier)
			if (v.part.Mirror.Aligned || !st.aligned) && (again || !st.done(s, v)) {
				s.queue = append(s.queue, st)
			}
		}
		d.stopping = s
	}
	s := d.stopping
	for len(s.queue) > 0 {
		st := s.queue[0]
		d.m.setStatus(d.key, func(s *Status) { s.Phase = st.name })
		if !s.entered {
			if err := d.m.gate.Pass(d.ctx, "before:"+st.name, d.key.String()); err != nil {
				return err
			}
			s.entered = true
		}
		v, err := d.view()
		if err != nil {
			return err
		}
		err = whileLate(lateStep, func() { s.tellLate(st.name) }, func() error { return st.run(s, d.ctx, v) })
		if err != nil {
			return fmt.Errorf("step %s: %w", st.name, err)
		}
		s.queue, s.entered = s.queue[1:], false
		d.log.Info("mirror stop", "step", st.name)
		d.m.setStatus(d.key, func(s *Status) { s.Error, s.Attempts = "", 0 })
		if err := d.m.gate.Pass(d.ctx, "after:"+st.name, d.key.String()); err != nil {
			return err
		}
	}
	d.stopping = nil
	d.m.setStatus(d.key, func(s *Status) { s.Phase = "" })
	return nil
}

// lateStep is how long a step may take before describe says what it waits for.
const lateStep = 2 * time.Second

// tellLate says what a step that takes long may be waiting for (OPS-2).
func (s *stopping) tellLate(step string) {
	o := s.part.Offsets()
	why := fmt.Sprintf("step %s has taken longer than %s: log end %d, high watermark %d", step, lateStep, o.LogEnd, o.HighWatermark)
	if v, err := s.d.view(); err == nil {
		if late := NotLowered(s.d.m.quorum.Image(), v.part); late != "" {
			why += ", " + late
		}
		why += fmt.Sprintf(", in-sync replicas %v of %v", v.part.ISR, v.part.Replicas)
	}
	s.d.m.setStatus(s.d.key, func(st *Status) {
		if st.Phase == step {
			st.Error = why
		}
	})
}

func never(*stopping, view) bool { return false }

// recorded says whether the quorum has the cut.
func recorded(_ *stopping, v view) bool { return v.part.Mirror.Current != nil }

// isCut says whether the log has followed the recorded cut.
func isCut(s *stopping, v view) bool {
	c := v.part.Mirror.Current
	return c != nil && (s.part.Offsets().LogEnd <= c.L || s.hasBarrier(v) ||
		c.Markers > 0 && s.part.EpochAt(c.L) >= c.Epoch)
}

// hasBarrier says whether this stop's own barrier is in the log: one at its place
// with the stop's epoch or a later one. A barrier there that came from the source
// has a lower epoch.
func (s *stopping) hasBarrier(v view) bool {
	c := v.part.Mirror.Current
	if c == nil {
		return false
	}
	for _, b := range s.part.Barriers() {
		if b.Offset == c.Stop().BarrierOffset && b.LeaderEpoch >= c.Epoch && b.SourceClusterID == c.SourceClusterID {
			return true
		}
	}
	return false
}

// removeFetchers ends the session: what is in flight is not appended from here
// on (LINK-1), and nothing else comes from the source (LINK-3).
func (s *stopping) removeFetchers(context.Context, view) error {
	s.d.removeFetcher()
	s.part.EndMirror()
	return nil
}

// settle waits until the high watermark has reached the log's end: that of a
// new leader is stale and low, and so is its last stable offset.
func (s *stopping) settle(ctx context.Context, _ view) error {
	o, err := s.part.Settle(ctx)
	if err != nil {
		return err
	}
	if s.keepsOpen() {
		o.LastStable = o.LogEnd
	}
	s.settledAt = o
	return nil
}

// truncate records the cut to the last stable offset, and then cuts. In profile
// kip1279-latest L is the log's end: the record begins the leader epoch of what
// this cluster writes, and nothing is cut.
func (s *stopping) truncate(ctx context.Context, v view) error {
	d := s.d
	c := v.part.Mirror.Current
	if c == nil {
		o := s.settledAt
		cut, err := s.report(o)
		if err != nil {
			return err
		}
		s.asked = true
		err = d.record(ctx, quorum.CutForStop{
			Topic: d.key.topic, Partition: d.key.index, LeaderEpoch: v.part.LeaderEpoch,
			L: o.LastStable, Markers: s.markers(v), LogEpoch: o.LogEpoch,
			LastMirroredOffset: o.LastStable - 1, LastMirroredEpoch: epochBelow(s.part, o.LastStable),
			SourceClusterID: s.sourceID(v), Cut: cut,
		})
		if err != nil {
			return fmt.Errorf("record the cut to %d: %w", o.LastStable, err)
		}
		// What is in force now, this record or one that followed it.
		if v, err = d.view(); err != nil {
			return err
		}
		if c = v.part.Mirror.Current; c == nil {
			return errNoRecord
		}
	}
	if s.asked {
		if err := d.m.gate.Pass(ctx, PointRecorded, d.key.String()); err != nil {
			return err
		}
		s.asked = false
	}
	if err := inEpoch(ctx, s.part, c.Epoch); err != nil {
		return err
	}
	if s.d.m.defects.Has(defect.BarrierBeforeTruncation) {
		if _, err := s.part.AppendBarrier(c.Stop()); err != nil {
			return err
		}
	}
	return s.part.Cut(c.L, c.Epoch)
}

// report counts what the cut takes: source's records that were mirrored, and
// are no part of what is promoted.
func (s *stopping) report(o replica.Offsets) (*quorum.CutReport, error) {
	if o.LastStable >= o.LogEnd {
		return nil, nil
	}
	records, err := s.part.CountRecords(o.LastStable)
	if err != nil {
		return nil, err
	}
	s.d.log.Warn("cut: what is not stable", "from", o.LastStable, "to", o.LogEnd, "records", records)
	return &quorum.CutReport{From: o.LastStable, To: o.LogEnd, Records: records}, nil
}

// epochBelow is the leader epoch of the last record below an offset, -1 for
// none.
func epochBelow(part replica.API, offset int64) int32 {
	o := part.Offsets()
	for epoch := o.LogEpoch; epoch >= 0 && offset > o.LogStart; {
		before, end := part.EndOffsetForEpoch(epoch - 1)
		if before < 0 || before >= epoch || end < offset {
			return epoch
		}
		epoch = before
	}
	return -1
}

// errNoRecord is a quorum that lost what it had confirmed.
var errNoRecord = errors.New("the quorum has no record of this stop's cut")

// persistLast makes sure that the last mirrored offset is recorded: it went
// into the quorum together with the cut.
func (s *stopping) persistLast(_ context.Context, v view) error {
	if v.part.Mirror.Current == nil {
		return errNoRecord
	}
	return nil
}

// markers is how many ABORT markers this stop will write before its barrier.
func (s *stopping) markers(v view) int64 {
	if v.profile.CutsAtStop() || s.keepsOpen() {
		return 0
	}
	return s.part.OpenTransactions()
}

// abortOpen ends every transaction that is still open, which nobody else will:
// its coordinator is the source's (TXN-1).
func (s *stopping) abortOpen(ctx context.Context, v view) error {
	c := v.part.Mirror.Current
	if c == nil {
		return errNoRecord
	}
	if s.keepsOpen() {
		return nil
	}
	err := s.part.AbortOpen(c.Stop())
	var other *replica.OpenTransactionsError
	if !errors.As(err, &other) {
		return err
	}
	// Whoever recorded the stop knew of others: see quorum.MoveBarrier.
	d, end := s.d, s.part.Offsets().LogEnd
	d.log.Warn("not as many transactions are open as the stop has markers for", "open", other.Open, "wanted", other.Wanted, "log_end", end)
	err = d.record(ctx, quorum.MoveBarrier{
		Topic: d.key.topic, Partition: d.key.index, LeaderEpoch: v.part.LeaderEpoch, Markers: end - c.L + other.Open,
	})
	if err != nil {
		return fmt.Errorf("record another place of the barrier: %w", err)
	}
	if v, err = d.view(); err != nil {
		return err
	}
	if c = v.part.Mirror.Current; c == nil {
		return errNoRecord
	}
	if err := inEpoch(ctx, s.part, v.part.LeaderEpoch); err != nil {
		return err
	}
	return s.part.AbortOpen(c.Stop())
}

// appendBarrier appends this stop's barrier at its place, or finds it there.
func (s *stopping) appendBarrier(ctx context.Context, v view) error {
	c := v.part.Mirror.Current
	if c == nil {
		return errNoRecord
	}
	if s.leavesOut(ctx, v) {
		return nil
	}
	found := s.hasBarrier(v)
	_, err := s.part.AppendBarrier(c.Stop())
	if err == nil && (s.d.m.defects.Has(defect.TwoBarriers) || found && s.d.m.defects.Has(defect.NextLeaderAddsBarrier)) {
		again := c.Stop()
		again.BarrierOffset++
		_, err = s.part.AppendBarrier(again)
	}
	return err
}

// commitBarrier waits until every in-sync replica holds the barrier (BAR-5).
func (s *stopping) commitBarrier(ctx context.Context, v view) error {
	if v.part.Mirror.Current == nil {
		return errNoRecord
	}
	if s.d.m.defects.Has(defect.BarrierNotWaitedFor) || s.leavesOut(ctx, v) && !s.hasBarrier(v) {
		return nil
	}
	return s.part.WaitCommitted(ctx, v.part.Mirror.Current.Stop().BarrierOffset)
}

// finish records STOPPED: from here on the partition is writable. A log that
// was not aligned still has this cluster's own transactions in it: the markers
// that were kept out meanwhile come first (RO-2).
func (s *stopping) finish(ctx context.Context, v view) error {
	if v.part.Mirror.State == quorum.Stopped { // the answer to the record was lost
		return nil
	}
	if !v.part.Mirror.Aligned {
		if err := s.d.m.debts.SettleDebts(ctx, txn.Partition{Topic: s.d.key.topic, Index: s.d.key.index}); err != nil {
			return fmt.Errorf("transaction markers that the partition owes: %w", err)
		}
	}
	s.awaitLowered(ctx)
	err := s.d.record(ctx, quorum.FinishStop{
		Topic: s.d.key.topic, Partition: s.d.key.index, LeaderEpoch: v.part.LeaderEpoch,
	})
	if err == nil && s.d.m.defects.Has(defect.HealedLinkAborts) {
		s.whenBack(v, s.abortOpenHere)
	}
	if err == nil && s.d.m.defects.Has(defect.FetchedAfterHealing) {
		s.whenBack(v, func(ctx context.Context) { s.fetchOnceMore(ctx, v) })
	}
	if err == nil && s.d.m.defects.Has(defect.BarrierAfterWritable) && v.part.Mirror.Current != nil {
		return s.lateBarrier(ctx, v.part.Mirror.Current)
	}
	return err
}
