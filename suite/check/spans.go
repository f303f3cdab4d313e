package check

import (
	"bytes"
	"fmt"
	"slices"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// probed are the checks of one stop that need probes or samples made for them,
// which not every episode makes.
var probed = []check{
	{"LOG-5", (*judge).log5},
	{"BAR-5", (*judge).bar5},
	{"BAR-7", (*judge).bar7},
	{"RO-2", (*judge).ro2},
	{"RO-3", (*judge).ro3},
	{"PSM-2", (*judge).psm2},
	{"PSM-3", (*judge).psm3},
	{"PSM-4", (*judge).psm4},
	{"PSM-5", (*judge).psm5},
	{"PSM-6", (*judge).psm6},
	{"PSM-7", (*judge).psm7},
	{"PSM-8", (*judge).psm8},
	{"PSM-9", (*judge).psm9},
	{"IDEM-3", (*judge).idem3},
	{"TXN-5", (*judge).txn5},
	{"TXN-6", (*judge).txn6},
	{"GRP-1", (*judge).grp1},
	{"OPS-4", (*judge).ops4},
}

// spans are the checks that look at all episodes together, in the order of the
// contract.
var spans = []spanCheck{
	{"SC-1", (*trial).sc1},
	{"SC-2", (*trial).sc2},
	{"SC-3", (*trial).sc3},
	{"SC-4", (*trial).sc4},
	{"SC-5", (*trial).sc5},
	{"SC-6", (*trial).sc6},
	{"SC-7", (*trial).sc7},
	{"SC-8", (*trial).sc8},
	{"LOG-4", (*trial).log4},
	{"BAR-8", (*trial).bar8},
	{"LINK-4", (*trial).link4},
	{"FB-1", (*trial).fb1},
	{"FB-2", (*trial).fb2},
	{"FB-3", (*trial).fb3},
	{"FB-4", (*trial).fb4},
	{"FO-1", (*trial).fo1},
	{"FO-2", (*trial).fo2},
	{"FI-1", (*trial).fi1},
	{"FI-2", (*trial).fi2},
	{"CH-1", (*trial).ch1},
	{"CH-2", (*trial).ch2},
	{"CH-3", (*trial).ch3},
	{"CH-4", (*trial).ch4},
	{"AL-1", (*trial).al1},
	{"OPS-1", (*trial).ops1},
	{"OPS-2", (*trial).ops2},
	{"OPS-3", (*trial).ops3},
	{"OPS-5", (*trial).ops5},
}

// shares says whether both mirrors carry a topic in common.
func (e *edge) shares(other *edge) bool {
	return slices.ContainsFunc(e.Topics, func(t string) bool { return slices.Contains(other.Topics, t) })
}

// failback is a stop of a mirror whose source had been promoted, earlier, by a
// stop of the mirror the other way round.
type failback struct {
	out  *judge // the stop that promoted the other cluster
	back *judge // the stop that promoted the old primary again
}

// failbacks lists the run's failbacks.
func (t *trial) failbacks() []failback {
	var all []failback
	for i, j := range t.views {
		for k := i - 1; k >= 0; k-- {
			out := t.views[k]
			if out.edge.Source == j.edge.Destination && out.edge.Destination == j.edge.Source && out.edge.shares(j.edge) {
				all = append(all, failback{out, j})
				break
			}
		}
	}
	return all
}

// hop is a mirror from a cluster that mirrors itself, and the mirror into that
// one: two edges in a row.
type hop struct{ up, down *judge }

// hops lists them; both carry a topic in common, and the upstream's stop comes
// first, while the downstream runs.
func (t *trial) hops() []hop {
	var all []hop
	for _, up := range t.views {
		for _, down := range t.views {
			if up.edge.Destination == down.edge.Source && up.edge.Source != down.edge.Destination && up.edge.shares(down.edge) &&
				down.edge.mirroring < up.edge.stopRequested && up.edge.stopRequested < down.edge.stopRequested {
				all = append(all, hop{up, down})
			}
		}
	}
	return all
}

// barrierLine lists the barriers of a log, in their order.
func barrierLine(s *side) []*wirelog.Batch {
	var all []*wirelog.Batch
	for i := range s.entries {
		if s.entries[i].IsBarrier() {
			all = append(all, s.entries[i].Batch)
		}
	}
	return all
}

// expectedBarriers is the line of barriers that the destination of view j must
// hold in a partition at the view's end: what its source held below L, by the
// source's own last stop, and this stop's.
func (t *trial) expectedBarriers(j *judge, p *part) []*wirelog.Batch {
	var all []*wirelog.Batch
	for i := len(t.views) - 1; i >= 0; i-- {
		other := t.views[i]
		q := other.part(p.topic, p.index)
		if q == nil || q.lead == nil || other.edge.Destination != j.edge.Source || other.edge.stopRequested >= j.edge.stopRequested {
			continue
		}
		for _, b := range t.expectedBarriers(other, q) {
			if b.BaseOffset < p.lead.cut {
				all = append(all, b)
			}
		}
		break
	}
	if p.lead.barrier >= 0 {
		all = append(all, p.lead.entries[p.lead.barrier].Batch)
	}
	return all
}

// holdsLine compares the barriers of a log with those that it must hold and
// returns how many it has to.
func (j *judge) holdsLine(r *ruling, s *side, want []*wirelog.Batch, where string) int {
	got := barrierLine(s)
	for _, b := range want {
		k := s.at(b.BaseOffset)
		if k < 0 || !bytes.Equal(s.entries[k].Raw, b.Raw) {
			r.findings = append(r.findings, j.finding(s, MissingBarrier, k, b.BaseOffset, fmt.Sprintf("%s the barrier of a stop at %d, byte for byte", where, b.BaseOffset), "something else, or nothing"))
		}
	}
	for _, b := range got {
		if !slices.ContainsFunc(want, func(w *wirelog.Batch) bool { return bytes.Equal(w.Raw, b.Raw) }) {
			r.findings = append(r.findings, j.finding(s, ExtraBarrier, s.at(b.BaseOffset), b.BaseOffset, fmt.Sprintf("%s one barrier for each stop, %d", where, len(want)), fmt.Sprintf("%d barriers, one at %d", len(got), b.BaseOffset)))
		}
	}
	return len(want)
}

// window is a span of events.
type window struct{ from, to int64 }

func (w window) holds(seq int64) bool { return w.from < seq && seq < w.to }

// during calls f for every event of the whole run within w.
func (t *trial) during(w window, f func(e *history.Event)) {
	for i := range t.ev.Events {
		if e := &t.ev.Events[i]; w.holds(e.Seq) {
			f(e)
		}
	}
}

// anotherStop is a mirror that runs while another one is stopped: its events
// from the request of that stop until its own, or until its source begins to
// mirror: what is cut there is given up here.
func anotherStop(first, other *judge) (window, bool) {
	w := window{first.edge.stopRequested, other.edge.stopRequested}
	for _, v := range first.trial.views {
		if v.edge.Destination == other.edge.Source && v.edge.started > w.from {
			w.to = min(w.to, v.edge.started)
		}
	}
	return w, other.edge.mirroring < first.edge.stopRequested && w.from < w.to
}

// goesOn judges that mirror other is left alone by what befell another one
// within w: it stays MIRRORING, without an error, and mirrors new records. It
// returns how many.
func (t *trial) goesOn(r *ruling, other *judge, w window, what string) (records, samples int) {
	ends := map[string]int64{}
	t.during(w, func(e *history.Event) {
		m := e.Mirror
		if m == nil || m.Mirror != other.edge.Mirror || m.Cluster != other.edge.Destination {
			return
		}
		p := other.part(m.Topic, m.Partition)
		if p == nil {
			return
		}
		samples++
		ends[p.place()] = max(ends[p.place()], m.DestinationOffset)
		if m.State != "MIRRORING" || m.Error != "" {
			r.findings = append(r.findings, other.told(p, DisturbedMirror, -1, fmt.Sprintf("mirror %s of %s to stay MIRRORING: %s", m.Mirror, p.place(), what),
				fmt.Sprintf("%s%s (event %d)", m.State, because(m.Error), e.Seq)))
		}
	})
	for _, p := range other.parts() {
		if p.lead == nil {
			continue
		}
		for _, o := range other.order {
			if o.sent.Cluster != other.edge.Source || o.sent.Topic != p.topic || o.sent.Partition != p.index ||
				o.result.Outcome != history.OK || !w.holds(o.began) || o.offset >= ends[p.place()] {
				continue
			}
			for _, at := range p.lead.find(o.sent.stem, o.sent.index) {
				if at.offset == o.offset && p.lead.entries[at.entry].origin == fromSource {
					records++
				}
			}
		}
	}
	return records, samples
}

func because(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}
