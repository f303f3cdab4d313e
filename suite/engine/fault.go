package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"watershed.example/chaos"
	"watershed.example/fixtures"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// fault is what strikes in a scenario, and records what it did.
type fault struct {
	rec      *traffic.Recorder
	link     *fixtures.Link
	plans    []check.PlannedFault
	strike   *chaos.Strike
	nudger   *traffic.Producer
	started  bool
	healedAt time.Time // zero while the fault lasts

	// A cut without a plan: from before the stop is requested until it ended.
	cut    bool
	before fixtures.Counts

	// way is that to the source where a target's proxies cut it, and withheld what the
	// destination did not get then.
	way      *fixtures.Way
	withheld int64
}

// newFault prepares the scenario's fault, if it has one, for the stop of mirror
// m, which is that of the recorder's episode. Nudges go to parts of the source,
// through its client link.
func newFault(w *world, rec *traffic.Recorder, sc Scenario, m topologies.Mirror, parts []traffic.Partition) (*fault, error) {
	f := &fault{rec: rec, link: w.env.MirrorLink(m.Name)}
	planned := check.PlannedFault{ID: fmt.Sprintf("fault-%d", rec.Episode()), Episode: rec.Episode(), Link: "mirror:" + m.Link()}
	plan := sc.linkPlan(int(rec.Episode()))
	switch {
	case sc.Amid == CutOff && int32(sc.strikes()) == rec.Episode():
		planned.Name, planned.Phase, f.way = string(sc.Amid), "before the stop", w.env.SourceWay(m.Name)
		if f.way == nil {
			return nil, fmt.Errorf("nothing can cut the way that mirror %s takes to its source", m.Name)
		}
	case sc.RestartDestination && w.env.SourceWay(m.Name) != nil && int32(sc.strikes()) == rec.Episode():
		planned.Name, planned.Phase, f.way = string(CutOff), "before the stop", w.env.SourceWay(m.Name)
	case sc.RestartDestination && int32(sc.strikes()) == rec.Episode():
		planned.Name, planned.Phase = string(chaos.Partition), "before the stop"
	case plan != nil:
		planned.Name, planned.Phase = string(plan.Kind), plan.Point
		var err error
		if f.nudger, err = traffic.NewProducer(rec, w.cluster(m.From), traffic.ProducerOptions{
			Name: prefix(m.From, int(rec.Episode())) + "nudge", Mode: history.Plain, Attempts: traffic.Patiently,
		}); err != nil {
			return nil, err
		}
		f.strike, err = chaos.New(*plan, f.link, func(ctx context.Context, bytes int) error {
			// A record with its tag twice is longer than 64 bytes.
			return f.nudger.Send(ctx, bytes/64+1, parts[0])
		})
		if err != nil {
			return nil, err
		}
	default:
		return f, nil
	}
	f.plans = append(f.plans, planned)
	return f, nil
}

func (f *fault) planned() []check.PlannedFault { return f.plans }

func (f *fault) event(kind history.Kind, e history.Fault) {
	p := f.plans[0]
	e.ID, e.Name, e.Link, e.Phase = p.ID, p.Name, p.Link, p.Phase
	f.rec.Add(history.Event{Kind: kind, Fault: &e})
}

// proof is what the strike did so far, as histories tell it.
func proof(p chaos.Proof) history.Fault {
	return history.Fault{
		HeldBefore: p.InFlight, BytesHeld: p.Held, BytesDropped: p.Dropped, BytesDelayed: p.Delayed,
		BytesReleased:      p.Released + p.Undelivered,
		ConnectionsRefused: p.Stalled + p.Refused, ConnectionsReset: p.Reset,
		Effects: p.Messages + p.Cut,
	}
}

// prepare puts a response in flight, before the stop is requested.
func (f *fault) prepare(ctx context.Context) error {
	if f.strike == nil {
		return nil
	}
	if f.strike.Plan().InFlight() {
		f.started = true
		f.event(history.KindFaultStart, history.Fault{})
	}
	return f.strike.Prepare(ctx)
}

// strikeAt lets the fault happen, if this is its point.
func (f *fault) strikeAt(ctx context.Context, point string) error {
	if f.strike == nil || f.strike.Plan().Point != point {
		return nil
	}
	if !f.started {
		f.started = true
		f.event(history.KindFaultStart, history.Fault{})
	}
	if err := f.strike.Hit(ctx); err != nil {
		// Whether it bit is told by its counters, and judged.
		f.rec.Note("%v", err)
	}
	f.event(history.KindFaultProof, proof(f.strike.Proof()))
	return nil
}

// cutNow cuts the source off for good, until heal.
func (f *fault) cutNow(ctx context.Context) error {
	f.before = f.link.Counts()
	f.event(history.KindFaultStart, history.Fault{})
	f.link.Cut()
	f.cut = true
	// The destination's fetchers are alive: what they ask for is lost.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if c := f.counted(); c.Bit() {
			f.event(history.KindFaultProof, c)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("cut the source off: nothing was lost on %s: %w", f.link.Name(), context.Cause(ctx))
		}
	}
}

func (f *fault) counted() history.Fault {
	c := f.link.Counts().Since(f.before)
	return history.Fault{
		BytesHeld: c.ToServer.Held + c.FromServer.Held, BytesDropped: c.ToServer.Dropped + c.FromServer.Dropped,
		ConnectionsRefused: c.Stalled + c.Refused, ConnectionsReset: c.Reset,
	}
}

// heal ends the fault, if it still lasts.
func (f *fault) heal(ctx context.Context) error {
	switch {
	case !f.healedAt.IsZero() || len(f.plans) == 0:
		return nil
	case f.way != nil:
		if err := errors.Join(f.way.Holds(ctx), f.way.Heal(ctx)); err != nil {
			return err
		}
		f.event(history.KindFaultStop, history.Fault{Withheld: f.withheld})
	case f.cut:
		e := f.counted()
		f.link.Heal()
		f.event(history.KindFaultStop, e)
	case f.strike != nil:
		p := f.strike.Heal()
		f.event(history.KindFaultStop, proof(p))
		f.rec.Note("%s", p)
	}
	f.healedAt = time.Now()
	return nil
}

func (f *fault) close() {
	if f.nudger != nil {
		f.nudger.Close()
	}
}
