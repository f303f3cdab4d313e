package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

var (
	// errNotOurs ends a driver whose partition this node no longer leads.
	errNotOurs = errors.New("the partition is no longer led by this node")
	// errStateChanged ends a driver's work on a state that is over.
	errStateChanged = errors.New("the mirror's state has changed")
)

// driver takes one partition through the states of mirroring, one at a time.
type driver struct {
	m      *Manager
	key    partitionKey
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelCauseFunc
	// fetchers is the context of fetchers, which outlive this driver.
	fetchers context.Context

	// reg is the partition in a fetcher, from MIRRORING until the step
	// fetchers-removed. Only the driver's goroutine uses it.
	reg *registration
	// stopping is the stop in progress.
	stopping *stopping
	// fenceTo is the source's leader epoch that EPOCH_FENCING is about.
	fenceTo int32
	// asked is the generation of what the source told when it was last asked, 0
	// when it is to be asked anew.
	asked uint64

	// oldEnd is where the log ended before it was cut: see defect.ResumesAtOldEnd.
	oldEnd int64

	mu sync.Mutex
	// working is the state that is being worked on; endWork ends that.
	working quorum.MirrorState
	endWork context.CancelCauseFunc
}

// view is the metadata of a driver's partition at one moment.
type view struct {
	topic  *quorum.Topic
	part   *quorum.Partition
	mirror *quorum.Mirror
	name   string // of the log
	// profile is the cluster's.
	profile quorum.Profile
}

func newDriver(ctx context.Context, m *Manager, key partitionKey) *driver {
	d := &driver{m: m, key: key, log: m.log.With("topic", key.topic, "partition", key.index), fetchers: ctx}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	return d
}

// view reads the newest metadata. It fails when the partition is not this
// driver's any more.
func (d *driver) view() (view, error) {
	img := d.m.quorum.Image()
	t, p, err := img.Partition(d.key.topic, d.key.index)
	if err != nil {
		return view{}, err
	}
	if t.ID != d.key.id || p.Leader != d.m.node {
		return view{}, errNotOurs
	}
	mirror, ok := img.Mirrors[t.Mirror]
	if !ok {
		return view{}, fmt.Errorf("mirror %q of topic %q: %w", t.Mirror, t.Name, quorum.ErrNoMirror)
	}
	return view{t, p, mirror, img.LogName(p), img.Profile}, nil
}

// stateIs ends the work on another state. A stop in progress goes on: it is
// not over before it has recorded STOPPED itself.
func (d *driver) stateIs(s quorum.MirrorState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.endWork != nil && d.working != s && d.working != quorum.Stopping {
		d.endWork(errStateChanged)
	}
}

func (d *driver) run() {
	defer d.cancel(nil)
	defer d.removeFetcher()
	retry := newBackoff()
	for d.ctx.Err() == nil {
		v, err := d.view()
		if err != nil || !driven(v.part.Mirror.State) {
			return
		}
		err = d.work(v)
		switch {
		case err == nil:
			retry.reset()
			d.m.setStatus(d.key, func(s *Status) { s.Error, s.Attempts = "", 0 })
			continue
		case d.ctx.Err() != nil:
			return
		case errors.Is(err, errStateChanged):
			continue
		}
		d.log.Warn("mirroring is held up", "state", v.part.Mirror.State, "error", err)
		d.m.setStatus(d.key, func(s *Status) {
			s.Error = err.Error()
			s.Attempts++
		})
		if v.part.Mirror.State != quorum.Stopping && permanent(err) {
			if d.fail(v, err) == nil {
				continue
			}
		}
		// A new state is worth a look before the wait is over.
		wait, done := d.begin(v.part.Mirror.State)
		retry.wait(wait)
		done()
	}
}

// begin makes the context of work on a state.
func (d *driver) begin(s quorum.MirrorState) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.mu.Lock()
	d.working, d.endWork = s, cancel
	d.mu.Unlock()
	// The state may have moved on between the view and now.
	if v, err := d.view(); err == nil {
		d.stateIs(v.part.Mirror.State)
	}
	return ctx, func() {
		d.mu.Lock()
		d.endWork = nil
		d.mu.Unlock()
		cancel(nil)
	}
}

// work does what a state asks for, until the state is another or err.
func (d *driver) work(v view) error {
	ctx, done := d.begin(v.part.Mirror.State)
	defer done()
	part, err := d.m.partition(d.key)
	if err != nil {
		return err
	}
	switch {
	case v.part.Mirror.Cutting != nil:
		// Whatever the operator has asked for since: the record is there, and
		// what lies above it must not be taken for the source's.
		d.removeFetcher()
		return d.finishCut(ctx, v, part)
	}
	switch v.part.Mirror.State {
	case quorum.LogTruncation:
		d.removeFetcher()
		err = d.align(ctx, v, part)
	case quorum.EpochFencing:
		d.removeFetcher()
		err = d.fence(ctx, v, part)
	case quorum.Mirroring:
		err = d.mirror(ctx, v, part)
	case quorum.Pausing:
		d.removeFetcher()
		part.EndMirror()
		err = d.moveTo(ctx, v, quorum.Paused)
	case quorum.Stopping:
		if err = d.tooMany(); err == nil {
			err = d.stop(part)
		}
	}
	if err != nil && errors.Is(context.Cause(ctx), errStateChanged) {
		return errStateChanged
	}
	return err
}

// finishCut cuts the log to where an alignment's record says, and records that
// it did. In LOG_TRUNCATION that is the step to mirroring.
func (d *driver) finishCut(ctx context.Context, v view, part replica.API) error {
	part.EndMirror()
	c := v.part.Mirror.Cutting
	if d.m.defects.Has(defect.ResumesAtOldEnd) {
		d.oldEnd = part.Offsets().LogEnd
	}
	if err := inEpoch(ctx, part, c.Epoch); err != nil {
		return err
	}
	var err error
	switch start := part.Offsets().LogStart; {
	case c.Anew:
		err = part.CutAnew(c.At, c.Epoch, replicaBarriers(c.Below))
	case c.At < part.CleanedUpTo() && !d.m.defects.Has(defect.CleanedLogTruncated):
		// Whoever led when this was recorded had what this log's own cleaner has
		// removed. The source still has it.
		below := slices.DeleteFunc(part.Barriers(), func(b replica.Barrier) bool { return b.Offset >= start })
		err = part.CutAnew(start, c.Epoch, below)
	default:
		err = part.Cut(c.At, c.Epoch)
	}
	if err != nil {
		return fmt.Errorf("cut to %d, where the logs part: %w", c.At, err)
	}
	d.log.Info("log aligned with the source's", "at", c.At, "anew", c.Anew)
	to := v.part.Mirror.State
	if to == quorum.LogTruncation {
		to = quorum.Mirroring
	}
	err = d.record(ctx, quorum.SetMirrorState{
		Topic: d.key.topic, Partition: d.key.index,
		LeaderEpoch: v.part.LeaderEpoch, From: v.part.Mirror.State, To: to, Cut: true,
	})
	if err != nil {
		return fmt.Errorf("record that the log was cut to %d: %w", c.At, err)
	}
	return nil
}

func replicaBarriers(list []quorum.Barrier) []replica.Barrier {
	var all []replica.Barrier
	for _, b := range list {
		all = append(all, replica.Barrier{Offset: b.Offset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.SourceClusterID, Writer: b.Writer, Markers: b.Markers})
	}
	return all
}

// record has the quorum record a change of this driver's partition. Those of
// others that come at the same time go with it.
func (d *driver) record(ctx context.Context, c quorum.PartitionCommand) error {
	return d.m.batcher.Apply(ctx, d.fetchers, c)
}

// moveTo records the next state.
func (d *driver) moveTo(ctx context.Context, v view, to quorum.MirrorState) error {
	err := d.record(ctx, quorum.SetMirrorState{
		Topic: d.key.topic, Partition: d.key.index,
		LeaderEpoch: v.part.LeaderEpoch, From: v.part.Mirror.State, To: to,
	})
	if err != nil {
		return fmt.Errorf("record %s: %w", to, err)
	}
	d.log.Info("mirror state", "from", v.part.Mirror.State, "to", to)
	return nil
}

// fail records FAILED, with the reason for the operator. The partition stays
// read-only.
func (d *driver) fail(v view, reason error) error {
	d.removeFetcher()
	if part, err := d.m.partition(d.key); err == nil {
		part.EndMirror()
	}
	err := d.record(d.ctx, quorum.SetMirrorState{
		Topic: d.key.topic, Partition: d.key.index,
		LeaderEpoch: v.part.LeaderEpoch, From: v.part.Mirror.State, To: quorum.Failed,
		Error: reason.Error(), Attempts: -1,
	})
	if err != nil {
		return fmt.Errorf("record %s: %w", quorum.Failed, err)
	}
	return nil
}

// removeFetcher takes the partition out of its fetcher.
func (d *driver) removeFetcher() {
	if d.reg != nil {
		d.reg.remove()
		d.reg = nil
	}
}

// inEpoch waits until this node's replica leads in the epoch that a record
// gave.
func inEpoch(ctx context.Context, part replica.API, epoch int32) error {
	err := awaitRole(ctx, part, func() bool { _, now := part.Leader(); return now >= epoch })
	if err != nil {
		return err
	}
	return part.CheckLeader(-1)
}

// readOnly waits until this node's replica keeps clients' writes out, as the
// record of the mirror start said (RO-1).
func readOnly(ctx context.Context, part replica.API) error {
	return awaitRole(ctx, part, part.ReadOnly)
}

func awaitRole(ctx context.Context, part replica.API, ok func() bool) error {
	for {
		changed := part.Changed()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
