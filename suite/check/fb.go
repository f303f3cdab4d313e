package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// fb1 holds that a failback begins where the two logs part: the old primary's
// log equals the new one's from there, its barrier included, and holds nothing
// of its own from after the parting.
func (t *trial) fb1(r *ruling) {
	failbacks, barriers, cut := 0, 0, 0
	for _, f := range t.failbacks() {
		failbacks++
		f.back.needStop(r)
		for _, p := range f.back.parts() {
			q := f.out.part(p.topic, p.index)
			if q == nil || q.lead == nil || p.lead == nil || p.source == nil {
				continue
			}
			for _, s := range p.dests {
				f.back.oneLine(r, p, s)
				if q.lead.barrier >= 0 {
					barriers++
					b := q.lead.entries[q.lead.barrier].Batch
					if k := s.at(b.BaseOffset); k < 0 || string(s.entries[k].Raw) != string(b.Raw) {
						r.findings = append(r.findings, f.back.finding(s, MissingBarrier, k, b.BaseOffset,
							fmt.Sprintf("the barrier of cluster %s from episode %d, byte for byte", q.Destination, f.out.number), "something else, or nothing"))
					}
				}
			}
			for _, o := range f.parted(p, q) {
				cut++
				for _, s := range p.dests {
					for _, at := range s.find(o.sent.stem, o.sent.index) {
						r.findings = append(r.findings, f.back.finding(s, UncutSuffix, at.entry, at.offset,
							fmt.Sprintf("nothing of cluster %s's own from above %d, where its log and cluster %s's part", p.Destination, q.lead.cut, p.Source), "the record of "+who(o.sent.Tag())))
					}
				}
			}
		}
	}
	r.need(failbacks > 0, "no failback: no mirror was stopped that ran from a cluster back to its former source")
	r.need(barriers > 0, "no log of a failback holds the barrier of the stop before")
	r.need(cut > 0, "the old primary had nothing above the place where the two logs part")
	r.saw("%d failbacks: %d barriers at their offsets, %d acknowledged writes of the old primary above the parting are gone", failbacks, barriers, cut)
}

// oneLine holds that below the stop's L a destination's log is its source's.
func (j *judge) oneLine(r *ruling, p *part, s *side) {
	for i := range s.below(s.cut) {
		if e := &s.entries[i]; e.origin != fromSource {
			expected := "no batch: the other log has none at this offset"
			if k := p.source.at(e.BaseOffset); k >= 0 {
				expected = "the batch of cluster " + p.Source + ", " + p.source.entries[k].describe()
			}
			r.findings = append(r.findings, j.at(s, DivergedLogs, i, expected, e.describe()))
		}
	}
}

// parted lists the writes that the old primary acknowledged above the place
// where the logs part, before it began to mirror.
func (f failback) parted(p, q *part) []*operation {
	var all []*operation
	for _, o := range f.back.local(p) {
		if o.result.Outcome == history.OK && o.began > f.out.edge.stopRequested && o.ended < p.since() && o.offset >= q.lead.cut {
			all = append(all, o)
		}
	}
	return all
}

// fb2 holds that repeated cycles leave one barrier for each stop, in both logs.
func (t *trial) fb2(r *ruling) {
	failbacks := t.failbacks()
	r.need(len(failbacks) > 0, "no failback: there was no cycle")
	barriers := 0
	last := map[string]*judge{} // by cluster: the last view with it as destination
	for _, j := range t.views {
		last[j.edge.Destination] = j
		if len(failbacks) == 0 {
			continue
		}
		for _, p := range j.parts() {
			if p.lead == nil || p.stopped == never {
				continue
			}
			r.need(p.lead.barrier >= 0, "the stop of episode %d left no barrier in %s (see BAR-1)", j.number, p.place())
			for _, s := range p.dests {
				barriers += j.holdsLine(r, s, t.expectedBarriers(j, p), fmt.Sprintf("at the end of episode %d", j.number))
			}
		}
	}
	final := 0
	for cluster, j := range inOrder(last) {
		if len(failbacks) == 0 {
			break
		}
		for _, p := range j.parts() {
			s := t.final(cluster, p.topic, p.index)
			if s == nil {
				r.need(false, "the last log of %s on cluster %s is missing", p.place(), cluster)
				continue
			}
			if p.lead != nil && p.stopped != never {
				final++
				j.holdsLine(r, s, t.expectedBarriers(j, p), "at the run's end")
			}
		}
	}
	r.need(final > 0, "no log of the run's end was looked at")
	r.saw("%d barriers in the logs of %d stops, and in %d logs at the run's end", barriers, len(t.views), final)
}

// fb3 holds that what the writable cluster acknowledged below the next stop's L
// survives all cycles, on both clusters.
func (t *trial) fb3(r *ruling) {
	failbacks := t.failbacks()
	r.need(len(failbacks) > 0, "no failback: there was no cycle")
	survived := map[int]int{}
	for n, j := range t.views {
		if len(failbacks) == 0 {
			break
		}
		for _, p := range j.parts() {
			if p.lead == nil || p.stopped == never {
				continue
			}
			logs := []*side{t.final(p.Source, p.topic, p.index), t.final(p.Destination, p.topic, p.index)}
			r.need(logs[0] != nil, "the last log of %s on cluster %s is missing", p.place(), p.Source)
			r.need(logs[1] != nil, "the last log of %s on cluster %s is missing", p.place(), p.Destination)
			for _, o := range j.order {
				if o.sent.Cluster != p.Source || o.sent.Topic != p.topic || o.sent.Partition != p.index ||
					o.result.Outcome != history.OK || o.began < p.writable || o.offset < 0 || o.offset+int64(o.sent.Count) > p.lead.cut {
					continue
				}
				for _, s := range logs {
					if s != nil {
						survived[n] += j.survives(r, s, o)
					}
				}
			}
		}
	}
	r.need(len(failbacks) == 0 || len(survived) > 1, "records were acknowledged below L in %d of %d writable periods", len(survived), len(t.views))
	total := 0
	for _, n := range survived {
		total += n
	}
	r.saw("%d records of %d writable periods are in the logs of the run's end", total, len(survived))
}

func (j *judge) survives(r *ruling, s *side, o *operation) (there int) {
	for k := range int64(o.sent.Count) {
		tag := o.sent.Tag().Add(k)
		found := false
		for _, at := range s.places(tag) {
			found = found || at.offset == o.offset+k
		}
		if found {
			there++
			continue
		}
		r.findings = append(r.findings, j.finding(s, LostWrite, s.at(o.offset+k), o.offset+k,
			fmt.Sprintf("the record of %s, acknowledged at %d, below the L of episode %d", who(tag), o.offset+k, j.number), "it is not there at the run's end"))
	}
	return there
}

// fb4 holds that zombies of the old primary leave no byte in its mirrored log:
// neither producers that do not know that it mirrors, nor transactions whose
// time is up, which its own coordinator ends.
func (t *trial) fb4(r *ruling) {
	failbacks, tried, timedOut := 0, 0, 0
	for _, f := range t.failbacks() {
		failbacks++
		j := f.back
		for _, p := range j.parts() {
			if p.lead == nil {
				continue
			}
			for _, s := range p.dests {
				for i := range s.entries {
					if s.barrier >= 0 && i >= s.barrier {
						break
					}
					if e := &s.entries[i]; e.origin == local && e.marks() {
						r.findings = append(r.findings, j.at(s, ForeignMarker, i, fmt.Sprintf("no marker of cluster %s's own coordinator in its mirrored log", p.Destination), e.describe()))
					}
				}
			}
			known := map[string]bool{}
			for _, o := range j.local(p) {
				if o.began < p.since() {
					known[o.sent.Writer] = known[o.sent.Writer] || o.result.Outcome == history.OK
					continue
				}
				if !known[o.sent.Writer] || o.began < p.mirroring || o.ended > p.stopped {
					continue
				}
				expected := fmt.Sprintf("nothing of %s, a writer of the old primary: cluster %s mirrors", who(o.sent.Tag()), p.Destination)
				if !j.zombieInLog(r, p, o, expected) && o.result.Outcome == history.Refused && !retriable[o.result.Code] {
					tried++
				}
			}
		}
		timedOut += j.timedOut()
	}
	r.need(failbacks > 0, "no failback: no old primary mirrored")
	r.need(tried > 0, "no writer of the old primary tried to go on while it mirrored")
	r.need(timedOut > 0, "no transaction of the old primary was left open whose time was up while it mirrored")
	r.saw("%d writes of %d old primaries' writers refused; %d abandoned transactions timed out", tried, failbacks, timedOut)
}

func (j *judge) zombieInLog(r *ruling, p *part, o *operation, expected string) (found bool) {
	for _, s := range p.dests {
		for _, at := range s.find(o.sent.stem, o.sent.index) {
			found = true
			r.findings = append(r.findings, j.finding(s, ZombieAppend, at.entry, at.offset, expected, "its record"))
		}
	}
	if !found && o.result.Outcome == history.OK {
		found = true
		r.findings = append(r.findings, j.told(p, ZombieAppend, o.offset, expected, fmt.Sprintf("acknowledged with offset %d", o.offset)))
	}
	return found
}

// timedOut counts the transactions that were begun on the view's destination
// before it mirrored, never ended by their writer, and whose transactional id
// was taken up anew, with a newer epoch, while it mirrored.
func (j *judge) timedOut() int {
	open := map[string]bool{}
	n := 0
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		switch {
		case e.Txn != nil && e.Txn.Cluster == j.edge.Destination && e.Seq < j.edge.started:
			open[e.Txn.TransactionalID] = e.Kind == history.KindTxnBegin
		case e.InitPID != nil && e.InitPID.Cluster == j.edge.Destination && open[e.InitPID.TransactionalID] && e.InitPID.Result.Outcome == history.OK &&
			e.Seq > j.edge.mirroring && e.Seq < j.edge.stopRequested && e.InitPID.Epoch > 0:
			n++
			delete(open, e.InitPID.TransactionalID)
		}
	}
	return n
}
