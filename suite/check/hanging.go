package check

import (
	"cmp"
	"fmt"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// localTxn is a transaction of the promoted cluster as its writer tells it.
type localTxn struct {
	began, ended int64 // events: the begin, and when its end was asked for
	intent       history.Intent
	result       history.Result
}

type writerTxn struct {
	writer string // cluster/writer
	number int64
}

func (k writerTxn) compare(other writerTxn) int {
	return cmp.Or(cmp.Compare(k.writer, other.writer), cmp.Compare(k.number, other.number))
}

// localTxns are the transactions that writers of the destination tell of.
func (j *judge) localTxns() map[writerTxn]*localTxn {
	all := map[writerTxn]*localTxn{}
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Txn == nil || e.Txn.Cluster != j.edge.Destination {
			continue
		}
		key := writerTxn{e.Txn.Cluster + "/" + e.Txn.Writer, e.Txn.Number}
		t := all[key]
		if t == nil {
			t = &localTxn{began: never, ended: never}
			all[key] = t
		}
		switch e.Kind {
		case history.KindTxnBegin:
			t.began = e.Seq
		case history.KindTxnEndBegin:
			t.ended = e.Seq
		case history.KindTxnEnd:
			t.ended, t.intent, t.result = min(t.ended, e.Seq), e.Txn.Intent, *e.Txn.Result
		}
	}
	return all
}

// comesBack lists when the source link healed, or a node of the source was
// started again, after STOPPED.
func (j *judge) comesBack() []int64 {
	var all []int64
	for _, f := range j.strikes() {
		if j.onMirror(&f.Fault) && f.Bit() && f.stop != never && f.stop > j.edge.stopped {
			all = append(all, f.stop)
		}
	}
	for i := range j.ev.Events {
		if e := &j.ev.Events[i]; e.Node != nil && e.Node.Cluster == j.edge.Source && e.Node.What == history.NodeStarted && e.Seq > j.edge.stopped {
			all = append(all, e.Seq)
		}
	}
	return all
}

// txn5 holds that a local transaction which is open while the source link comes
// back stays whole: it has all its records, ends once, and as its writer asked.
func (j *judge) txn5(r *ruling) {
	j.needStop(r)
	told := j.localTxns()
	across, more := 0, 0
	for key, t := range inOrderOf(told, writerTxn.compare) {
		open := false
		for _, at := range j.comesBack() {
			open = open || t.began < at && at < t.ended && j.wroteWithin(key, t.began, at)
		}
		if open && t.result.Outcome == history.OK {
			across++
			for _, p := range j.parts() {
				if p.lead != nil {
					j.whole(r, p, key, t)
				}
			}
		}
	}
	for _, p := range j.parts() {
		if p.source != nil && p.lead != nil && p.source.cut > p.lead.cut {
			more++
		}
	}
	r.need(across > 0, "no local transaction that ended later was open, with a record, when the source link came back")
	r.need(more > 0, "the source had nothing more to give when its link came back")
	r.saw("%d transactions were open when the source link came back, and are whole", across)
}

func (j *judge) wroteWithin(key writerTxn, after, before int64) bool {
	for _, o := range j.order {
		if o.began > after && o.ended < before && o.result.Outcome == history.OK && key == txnOf(o.sent.stem) {
			return true
		}
	}
	return false
}

func txnOf(s *stem) writerTxn { return writerTxn{s.writer, s.Txn} }

// whole judges one transaction in one partition.
func (j *judge) whole(r *ruling, p *part, key writerTxn, told *localTxn) {
	name := fmt.Sprintf("transaction %d of %s, open while the source link came back,", key.number, key.writer)
	commit := told.intent == history.IntentCommit
	var first *txn
	for _, o := range j.local(p) {
		if txnOf(o.sent.stem) != key || o.result.Outcome != history.OK {
			continue
		}
		for k := range int64(o.sent.Count) {
			at := p.lead.ownPlaces(o.sent.Tag().Add(k))
			if len(at) == 0 {
				r.findings = append(r.findings, j.told(p, LostWrite, o.offset+k, name+" to keep its records", fmt.Sprintf("%s is nowhere", who(o.sent.Tag().Add(k)))))
				continue
			}
			t := p.lead.txnAt(at[0])
			switch {
			case t == nil || t.end < 0:
				r.findings = append(r.findings, j.finding(p.lead, OrphanTransaction, at[0].entry, at[0].offset, name+" to end", "no marker ends it"))
			case t.committed != commit:
				r.findings = append(r.findings, j.finding(p.lead, TornOutcome, p.lead.at(t.end), t.end, fmt.Sprintf("%s to end by %s", name, told.intent), p.lead.entries[p.lead.at(t.end)].describe()))
			case first != nil && t != first:
				r.findings = append(r.findings, j.finding(p.lead, TornOutcome, at[0].entry, at[0].offset, name+" in one piece", fmt.Sprintf("it had ended at %d", first.end)))
			}
			if first == nil {
				first = t
			}
		}
	}
	if first == nil || first.end < 0 {
		return
	}
	for _, o := range p.lead.odd {
		e := &p.lead.entries[o.entry]
		if o.anomaly == ForeignMarker && e.ProducerID == first.producerID && e.BaseOffset > first.first && e.BaseOffset <= first.end {
			r.findings = append(r.findings, j.at(p.lead, ForeignMarker, o.entry, name+" to be ended by its own marker alone", o.says))
		}
	}
}

// txnAt is the transaction of the record at a place.
func (s *side) txnAt(at place) *txn { return s.entries[at.entry].txn }

// doubtful says whether a writer asked for its transaction's end and never learnt
// what came of that, as when the coordinator is killed: if it was not asked in
// fact, the transaction is open until its own time is up, which is later than a
// run's end (FA-16).
func doubtful(t *localTxn) bool { return t != nil && t.result.Outcome == history.Unknown }

// txn6 holds that no partition ends with an open transaction, and that what is
// delivered after its transaction ended opens none.
func (j *judge) txn6(r *ruling) {
	j.needStop(r)
	late, ended := 0, 0
	told := j.localTxns()
	for _, p := range j.parts() {
		for _, s := range p.dests {
			for _, t := range s.txns {
				if t.end >= 0 {
					ended++
				} else if p.settled != never && !doubtful(told[writerTxn{t.writer, t.number}]) {
					r.findings = append(r.findings, j.at(s, OrphanTransaction, t.entry, "no open transaction once every client is done",
						fmt.Sprintf("transaction %d of %s, which nobody will finish", t.number, t.writer)))
				}
			}
		}
		for _, o := range j.local(p) {
			if o.began < p.stopped || o.sent.Trial != history.TrialLate || p.lead == nil || !p.hasEnded(o) {
				continue
			}
			if p.inTime(o) {
				continue
			}
			expected := batchWords(o) + " refused: its transaction has ended"
			if !j.inAnyLog(r, p, o, ZombieAppend, expected) && o.result.Code > 0 && !retriable[o.result.Code] {
				late++
			}
		}
	}
	r.need(late > 0, "no batch was delivered after its transaction had ended")
	r.need(ended > 0, "no transaction ended on the promoted cluster")
	r.need(j.edge.settled != never, "the run did not settle")
	r.saw("%d batches delivered late were refused, %d transactions ended", late, ended)
}

// inTime says whether the batch came before the marker of its own transaction,
// which a coordinator writes after it has answered: then it is part of that.
func (p *part) inTime(o *operation) bool {
	key := txnOf(o.sent.stem)
	for _, at := range p.lead.ownPlaces(o.sent.Tag()) {
		t := p.lead.txnAt(at)
		return t != nil && t.writer == key.writer && t.number == key.number && t.first < at.offset && t.end > at.offset
	}
	return false
}

// hasEnded says whether the log holds the marker of the transaction to which o
// belongs.
func (p *part) hasEnded(o *operation) bool {
	key := txnOf(o.sent.stem)
	for _, t := range p.lead.txns {
		if t.writer == key.writer && t.number == key.number && t.end >= 0 && p.lead.entries[p.lead.at(t.end)].marks() {
			return true
		}
	}
	return false
}

// marks says whether the batch is a transaction's marker.
func (e *entry) marks() bool {
	return e.control != nil && (e.control.Type == wirelog.Commit || e.control.Type == wirelog.Abort)
}
