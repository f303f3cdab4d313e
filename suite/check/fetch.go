package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// txn4 holds that the aborted-transaction lists of raw fetches after the stop
// name exactly what the fetched range needs: every aborted transaction with a
// record in it, and none that is not one.
func (j *judge) txn4(r *ruling) {
	j.needStop(r)
	var spans, polls, both, aborted [2]int // by served (at once, long poll); by side
	for _, p := range j.parts() {
		if p.lead == nil {
			continue
		}
		for _, t := range p.lead.txns {
			if t.end >= 0 && !t.committed {
				aborted[b2i(t.mirrored)]++
			}
		}
		for i := range j.ev.Events {
			f := j.ev.Events[i].Fetch
			if f == nil || f.Code != 0 || f.Cluster != p.Destination || f.Topic != p.topic || f.Partition != p.index || j.ev.Events[i].Seq < p.stopped {
				continue
			}
			j.abortedList(r, p, f)
			if f.Isolation != history.ReadCommitted || f.NextOffset <= f.FetchOffset {
				continue
			}
			served := b2i(f.Served == history.LongPoll)
			polls[served]++
			if b := p.lead.barrierOffset(); b >= 0 && f.FetchOffset < b && b < f.NextOffset {
				spans[served]++
			} else if b >= 0 {
				both[b2i(f.FetchOffset > b)]++
			}
		}
	}
	r.need(polls[0] > 0, "no read_committed fetch was answered at once")
	r.need(polls[1] > 0, "no read_committed fetch waited at the broker")
	r.need(spans[0]+spans[1] > 0, "no read_committed fetch spanned a barrier")
	r.need(aborted[1] > 0, "no mirrored transaction was aborted")
	r.need(aborted[0] > 0, "no local transaction was aborted")
	r.saw("%d fetches at once, %d after a long poll, %d across a barrier", polls[0], polls[1], spans[0]+spans[1])
}

func (j *judge) abortedList(r *ruling, p *part, f *history.Fetch) { j.abortedOf(r, p, p.lead, f) }

// abortedOf holds one fetch's list to the transactions of a log, and returns how
// many it has to name.
func (j *judge) abortedOf(r *ruling, p *part, log *side, f *history.Fetch) (needed int) {
	how := fmt.Sprintf("the %s fetch of [%d, %d), %s", f.Isolation, f.FetchOffset, f.NextOffset, f.Served)
	if f.Isolation == history.ReadUncommitted {
		if len(f.Aborted) > 0 {
			r.findings = append(r.findings, j.told(p, StaleAbort, f.FetchOffset, "no aborted list in "+how, fmt.Sprintf("%d entries", len(f.Aborted))))
		}
		return 0
	}
	listed := map[history.Aborted]bool{}
	for _, a := range f.Aborted {
		listed[a] = true
	}
	real := map[history.Aborted]bool{}
	for _, t := range log.txns {
		if t.end < 0 || t.committed {
			continue
		}
		a := history.Aborted{ProducerID: t.producerID, FirstOffset: t.first}
		if t.end >= f.FetchOffset {
			real[a] = true
		}
		if f.NextOffset <= f.FetchOffset || t.first >= f.NextOffset || t.last < f.FetchOffset {
			continue
		}
		needed++
		if !listed[a] {
			r.findings = append(r.findings, j.told(p, MissingAbort, t.first, fmt.Sprintf("producer id %d, first offset %d in the aborted list of %s", a.ProducerID, a.FirstOffset, how), "it is not there: aborted records would be shown"))
		}
	}
	for _, a := range f.Aborted {
		if !real[a] {
			r.findings = append(r.findings, j.told(p, StaleAbort, a.FirstOffset, fmt.Sprintf("only aborted transactions that end at or above the fetch offset in the list of %s", how),
				fmt.Sprintf("producer id %d, first offset %d: its committed records above would be hidden", a.ProducerID, a.FirstOffset)))
		}
	}
	return needed
}
