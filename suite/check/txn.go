package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// openAtStop returns the source's transactions that were open on the
// destination when it stopped: it held a record of theirs, as its own log end
// showed, and no marker.
func (p *part) openAtStop() []*txn {
	if p.source == nil || p.lead == nil {
		return nil
	}
	if p.latest {
		return p.source.openAt(p.lead.cut)
	}
	var open []*txn
	for _, t := range p.source.txns {
		held := t.first < p.lead.cut || t.first < p.maxEndSeen
		if held && !t.endedBelow(p.lead.cut) && (t.end < 0 || t.end >= p.maxEndSeen || t.first < p.lead.cut) {
			open = append(open, t)
		}
	}
	return open
}

// txn1 holds that no mirrored transaction is open after the barrier: the LSO
// reaches the high watermark once local transactions have ended.
func (j *judge) txn1(r *ruling) {
	j.needStop(r)
	open, samples := 0, 0
	for _, p := range j.parts() {
		if p.lead == nil {
			continue
		}
		wasOpen := len(p.openAtStop()) > 0
		sampled := false
		for i := range j.ev.Events {
			e := &j.ev.Events[i]
			if d := e.Producers; d != nil && d.When == history.WhenAfterStop && d.Code == 0 && d.Cluster == p.Destination && d.Topic == p.topic && d.Partition == p.index {
				for _, a := range d.Active {
					if a.CurrentTxnStart >= 0 && a.CurrentTxnStart < p.lead.localFrom() {
						r.findings = append(r.findings, j.told(p, OrphanTransaction, a.CurrentTxnStart, "no open transaction from before the barrier",
							fmt.Sprintf("node %d describes producer id %d with a transaction open since %d", d.Node, a.ProducerID, a.CurrentTxnStart)))
					}
				}
			}
			hw, lso, ok := p.ends(e)
			if !ok || e.Seq < p.settled {
				continue
			}
			sampled = true
			samples++
			if want := p.lead.localStable(hw); lso < want {
				r.findings = append(r.findings, j.told(p, OrphanTransaction, lso, fmt.Sprintf("last stable offset %d at high watermark %d: every local transaction below it has ended", want, hw),
					fmt.Sprintf("%d (event %d)", lso, e.Seq)))
			}
		}
		if wasOpen && sampled {
			open++
		}
	}
	r.need(samples > 0, "the last stable offset was never sampled after all local transactions had ended")
	r.need(open > 0, "no mirrored transaction was open at STOPPING, or its partition was not sampled after")
	r.saw("%d samples; a transaction was open at STOPPING in %d partitions", samples, open)
}

// ends reads high watermark and LSO from an event about the partition.
func (p *part) ends(e *history.Event) (hw, lso int64, ok bool) {
	if o := e.Offsets; o != nil && o.LastStableOffset >= 0 && o.Cluster == p.Destination && o.Topic == p.topic && o.Partition == p.index {
		return o.HighWatermark, o.LastStableOffset, true
	}
	if f := e.Fetch; f != nil && f.Code == 0 && f.LastStableOffset >= 0 && f.Cluster == p.Destination && f.Topic == p.topic && f.Partition == p.index {
		return f.HighWatermark, f.LastStableOffset, true
	}
	return 0, 0, false
}

// localStable is the LSO if no transaction but local ones counted.
func (s *side) localStable(hw int64) int64 {
	lso := hw
	for _, t := range s.txns {
		if !t.mirrored && t.first < lso && !t.endedBelow(hw) {
			lso = t.first
		}
	}
	return lso
}

// txn2 holds that markers close only transactions of their own provenance, and
// that read_committed shows what the model says, record by record.
func (j *judge) txn2(r *ruling) {
	j.needStop(r)
	readers := 0
	var kinds [2][2]int // [mirrored][committed]
	for _, p := range j.parts() {
		if p.lead == nil {
			continue
		}
		for _, s := range p.dests {
			for _, o := range s.odd {
				r.findings = append(r.findings, j.at(s, o.anomaly, o.entry, "markers and batches that meet only their own writer's transaction", o.says))
			}
		}
		j.outcomes(r, p)
		readers += j.views(r, p)
		for _, t := range p.lead.txns {
			if t.end >= 0 {
				kinds[b2i(t.mirrored)][b2i(t.committed)]++
			}
		}
		torn := tearsOf(j.ev.Events, p.lead, func(e *history.Event) (hw, lso int64, ok bool) {
			hw, lso, ok = p.ends(e)
			return hw, lso, ok && e.Seq > p.stopped && hw <= end(p.lead.Replica)
		})
		for _, is := range torn.readings {
			if most := p.lead.stableOffset(is.hw); is.lso > most && !torn.excuse(is.event) {
				r.findings = append(r.findings, j.told(p, WrongLSO, is.lso, fmt.Sprintf("a last stable offset of at most %d at high watermark %d", most, is.hw), fmt.Sprintf("%d (event %d)", is.lso, j.ev.Events[is.event].Seq)))
			}
		}
	}
	r.need(readers > 0, "no read_committed reader crossed a barrier to its end")
	r.need(kinds[0][1] > 0, "no local transaction was committed")
	r.need(kinds[0][0] > 0, "no local transaction was aborted")
	r.need(kinds[1][1] > 0, "no mirrored transaction was committed")
	r.need(kinds[1][0] > 0, "no mirrored transaction was aborted")
	r.saw("%d read_committed views equal the model's; local transactions: %d committed, %d aborted", readers, kinds[0][1], kinds[0][0])
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// outcomes compares what clients were told about their transactions with the log.
func (j *judge) outcomes(r *ruling, p *part) {
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Kind != history.KindTxnEnd || e.Txn.Cluster != p.Destination || e.Txn.Result.Outcome != history.OK {
			continue
		}
		for _, t := range p.lead.txns {
			if t.mirrored || t.writer != e.Txn.Cluster+"/"+e.Txn.Writer || t.number != e.Txn.Number {
				continue
			}
			commit := e.Txn.Intent == history.IntentCommit
			switch {
			case t.end < 0 && p.settled != never:
				r.findings = append(r.findings, j.at(p.lead, OrphanTransaction, t.entry, fmt.Sprintf("a marker for transaction %d of %s, whose end (%s) was acknowledged", t.number, t.writer, e.Txn.Intent), "none"))
			case t.end >= 0 && t.committed != commit:
				r.findings = append(r.findings, j.at(p.lead, TornOutcome, p.lead.at(t.end), fmt.Sprintf("transaction %d of %s to %s, as was acknowledged", t.number, t.writer, e.Txn.Intent), p.lead.entries[p.lead.at(t.end)].describe()))
			}
		}
	}
}

// txn3 holds that a mirrored transaction that ended below L ended as at its
// source, and that of one which did not, no record is there, or in profile
// kip1279-latest that it is aborted.
func (j *judge) txn3(r *ruling) {
	j.needStop(r)
	open, ended := 0, [2]int{}
	for _, p := range j.parts() {
		// What an unfinished stop has not cut yet tells nothing.
		if p.source == nil || p.lead == nil || p.stopped == never {
			continue
		}
		open += len(p.openAtStop())
		for _, s := range p.dests {
			copied := map[int64]*txn{}
			for _, t := range s.txns {
				copied[t.first] = t
			}
			for _, t := range p.source.txns {
				name := fmt.Sprintf("transaction %d of %s", t.number, t.writer)
				switch {
				case t.endedBelow(s.cut):
					ended[b2i(t.committed)]++
					c := copied[t.first]
					if c == nil || s.at(t.end) < 0 {
						continue // LOG-1's: its batches are not there
					}
					if c.end != t.end || c.committed != t.committed {
						r.findings = append(r.findings, j.at(s, TornOutcome, s.at(t.end), fmt.Sprintf("%s ended at %d (committed: %t), as at its source", name, t.end, t.committed), fmt.Sprintf("ended at %d (committed: %t)", c.end, c.committed)))
					}
				case t.first < s.cut && p.latest:
					j.aborted(r, s, t, copied[t.first], name)
				case t.first < s.cut && j.episode.ForeignStop:
					// PSM-8's.
				case t.first < s.cut:
					r.findings = append(r.findings, j.at(s, OrphanTransaction, s.at(t.first), fmt.Sprintf("no record of %s: it did not end below L = %d", name, s.cut), "its record from offset "+fmt.Sprint(t.first)))
				}
			}
		}
	}
	r.need(open > 0, "no mirrored transaction was open at STOPPING")
	r.need(ended[0] > 0, "no transaction was aborted below L")
	r.need(ended[1] > 0, "no transaction was committed below L")
	became := "left no record"
	if j.run.latest() {
		became = "were aborted"
	}
	r.saw("%d transactions open at STOPPING %s; %d committed and %d aborted ones ended as at the source", open, became, ended[1], ended[0])
}
