package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// abandoned is a transaction of a client of the destination that was open when
// the mirror into it started.
type abandoned struct {
	writer string
	number int64
	txnID  string
	id     int64 // the producer id, -1 where the history does not tell
	parts  []*part
}

// abandonedTxns lists the transactions with a record in a mirrored partition
// whose end nobody had asked for when the mirror started.
func (j *judge) abandonedTxns() []*abandoned {
	started := j.edge.started
	byTxn := map[string]*abandoned{}
	var all []*abandoned
	key := func(writer string, number int64) string { return fmt.Sprint(number, " of ", writer) }
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Seq > started {
			break
		}
		if t := e.Txn; t != nil && t.Cluster == j.edge.Destination {
			k := key(t.Writer, t.Number)
			switch e.Kind {
			case history.KindTxnBegin:
				a := &abandoned{writer: t.Writer, number: t.Number, txnID: t.TransactionalID, id: -1}
				byTxn[k] = a
				all = append(all, a)
			default:
				delete(byTxn, k)
			}
		}
	}
	var open []*abandoned
	for _, a := range all {
		if byTxn[key(a.writer, a.number)] != a {
			continue
		}
		for _, o := range j.order {
			if o.sent.Writer != a.writer || o.sent.Mode != history.Transactional || o.sent.Tag().Txn != a.number || o.ended > started || o.result.Outcome != history.OK {
				continue
			}
			for _, p := range j.parts() {
				if o.at(p) && !slices.Contains(a.parts, p) {
					a.parts = append(a.parts, p)
				}
			}
			if o.sent.Batch != nil {
				a.id = o.sent.Batch.ProducerID
			}
		}
		if len(a.parts) > 0 {
			open = append(open, a)
		}
	}
	return open
}

// ro2 holds that no marker of the destination's own coordinator lies in what was
// mirrored, nor one after the barrier for a transaction that was cut when
// mirroring started, and that such a transaction's id can be used at once.
func (j *judge) ro2(r *ruling) {
	j.needStop(r)
	open := j.abandonedTxns()
	for _, p := range j.parts() {
		for _, s := range p.dests {
			for i := range s.below(p.windowEnd(s)) {
				e := &s.entries[i]
				// Where the source has a marker too, only the id tells whose it is.
				theirs := e.origin == alteredCopy && slices.ContainsFunc(open, func(a *abandoned) bool { return a.id >= 0 && a.id == e.ProducerID })
				if e.IsControl() && (e.origin == local || theirs) {
					r.findings = append(r.findings, j.at(s, WriteInWindow, i, fmt.Sprintf("no marker of cluster %s's own coordinator while the partition mirrored", p.Destination), e.describe()))
				}
			}
		}
	}
	left, again := 0, 0
	for _, a := range open {
		left++
		for _, p := range a.parts {
			j.lateMarker(r, p, a)
		}
		used, refused := j.usedAgain(a)
		switch {
		case used:
			again++
		case refused != nil:
			for _, p := range a.parts {
				r.findings = append(r.findings, j.told(p, WedgedId, -1,
					fmt.Sprintf("transactional id %q usable at once, though %s takes no marker while it mirrors", a.txnID, p.place()),
					fmt.Sprintf("InitProducerId: %s (event %d)", answer(*refused.InitPID.Result), refused.Seq)))
				break
			}
		}
	}
	r.need(left > 0, "no transaction was open on the destination when the mirror into it started")
	r.need(again > 0, "no transactional id with such a transaction was used again before the stop")
	r.saw("%d transactions were open when mirroring started and left no marker; %d of their ids were used again", left, again)
}

// lateMarker finds a marker after the barrier that ends no transaction of this
// writable period, for the producer id of one that was cut.
func (j *judge) lateMarker(r *ruling, p *part, a *abandoned) {
	if a.id < 0 {
		return
	}
	for _, s := range p.dests {
		for i := s.boundary(); i < len(s.entries); i++ {
			e := &s.entries[i]
			if e.ProducerID != a.id || e.origin != local {
				continue
			}
			if e.control != nil && (e.control.Type == wirelog.Abort || e.control.Type == wirelog.Commit) {
				r.findings = append(r.findings, j.at(s, StaleMarker, i,
					fmt.Sprintf("no marker for transaction %d of %s: it was cut when the mirror started", a.number, a.writer), e.describe()))
			}
			break // its id is in use again
		}
	}
}

// usedAgain says whether the transaction's id was given out again between the
// mirror's start and the stop, and returns the last refusal.
func (j *judge) usedAgain(a *abandoned) (used bool, refused *history.Event) {
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Seq < j.edge.started || e.Seq > j.edge.stopped {
			continue
		}
		if n := e.InitPID; n != nil && n.Cluster == j.edge.Destination && n.TransactionalID == a.txnID {
			if n.Result.Outcome == history.OK {
				return true, nil
			}
			refused = e
		}
	}
	return false, refused
}

// ro3 holds that nobody can delete records of a partition that mirrors.
func (j *judge) ro3(r *ruling) {
	tried := 0
	for _, p := range j.parts() {
		asked := false
		start := j.sourceStart(p)
		for i := range j.ev.Events {
			e := &j.ev.Events[i]
			if e.Seq < p.mirroring || e.Seq > p.stopped {
				continue
			}
			if b := e.Probe; b != nil && b.What == history.ProbeDeleteRecords && p.of(p.Destination, b.Cluster, b.Topic, b.Partition) {
				asked = true
				switch {
				case b.Result.Outcome == history.OK:
					r.findings = append(r.findings, j.told(p, Mutation, -1, fmt.Sprintf("DeleteRecords refused: the partition is %s", b.State), fmt.Sprintf("accepted (event %d)", e.Seq)))
				case b.Result.Outcome == history.Refused && !retriable[b.Result.Code]:
					tried++
				}
			}
			if at := p.startShown(e); asked && at > start {
				r.findings = append(r.findings, j.told(p, Mutation, at, fmt.Sprintf("a log that starts at %d, as the source's: DeleteRecords must do nothing while the partition mirrors", start), fmt.Sprintf("log start offset %d (event %d)", at, e.Seq)))
			}
		}
	}
	r.need(tried > 0, "DeleteRecords was not tried while mirroring, or not answered")
	r.saw("%d tries to delete records were refused, and every log starts where it did", tried)
}

// sourceStart is the highest log start that the source has shown, which the
// destination follows.
func (j *judge) sourceStart(p *part) int64 {
	start := int64(0)
	if p.source != nil && len(p.source.entries) > 0 {
		start = p.source.entries[0].BaseOffset
	}
	for i := range j.ev.Events {
		if o := j.ev.Events[i].Offsets; o != nil && p.of(p.Source, o.Cluster, o.Topic, o.Partition) {
			start = max(start, o.LogStartOffset)
		}
	}
	return start
}

// startShown is the log start that an event shows for the destination's
// partition, -1 where it shows none.
func (p *part) startShown(e *history.Event) int64 {
	if o := e.Offsets; o != nil && p.of(p.Destination, o.Cluster, o.Topic, o.Partition) {
		return o.LogStartOffset
	}
	if f := e.Fetch; f != nil && f.Code == 0 && p.of(p.Destination, f.Cluster, f.Topic, f.Partition) {
		return f.LogStartOffset
	}
	return -1
}
