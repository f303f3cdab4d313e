package check

import (
	"fmt"
	"slices"
	"strings"

	"watershed.example/suite/history"
)

// ro1 holds that while the partition mirrors, clients' writes are refused with
// a clear error and leave nothing behind. What was accepted once STOPPING had
// begun is RO-5's.
func (j *judge) ro1(r *ruling) {
	refused := map[string]int{}
	for _, p := range j.parts() {
		for _, s := range p.dests {
			for i := range s.below(p.windowEnd(s)) {
				if e := &s.entries[i]; e.origin == local && !e.IsControl() {
					r.findings = append(r.findings, j.at(s, WriteInWindow, i, "only mirrored batches below L", e.describe()))
				}
			}
		}
		for _, o := range j.local(p) {
			if o.began > p.mirroring && o.ended < p.stopped {
				j.refusal(r, p, o, refused)
			}
		}
	}
	for i := range j.ev.Events {
		if a := j.ev.Events[i].AddPartitions; a != nil {
			j.addRefusal(r, a, j.ev.Events[i].Seq, refused)
		}
	}
	for _, mode := range []history.Mode{history.Plain, history.Idempotent, history.Transactional} {
		r.need(refused[string(mode)] > 0, "no %s write was tried while mirroring", mode)
	}
	r.need(refused["AddPartitionsToTxn"] > 0, "AddPartitionsToTxn was not tried while mirroring")
	r.saw("refused while mirroring: %d plain, %d idempotent, %d transactional, %d AddPartitionsToTxn", refused["plain"], refused["idempotent"], refused["transactional"], refused["AddPartitionsToTxn"])
}

// windowEnd is the offset at which the read-only window ends in a log: L, or the
// log's end where the partition mirrors to the last.
func (p *part) windowEnd(s *side) int64 {
	if p.mirroring != never && p.stopRequested == never && s.barrier < 0 {
		return end(s.Replica)
	}
	return s.cut
}

// retriable holds codes that a broker answers while leaders or coordinators
// move: a client asks again, so they are no refusal.
var retriable = map[int16]bool{3: true, 5: true, 6: true, 7: true, 9: true, 14: true, 15: true, 16: true, 19: true, 20: true, 51: true, 74: true, 75: true, 76: true}

func (j *judge) refusal(r *ruling, p *part, o *operation, refused map[string]int) {
	tag := who(o.sent.Tag())
	switch o.result.Outcome {
	case history.OK:
		if o.ended < p.stopRequested || j.heldDuring(p, o, afterBarrier) {
			r.findings = append(r.findings, j.told(p, WriteInWindow, o.offset, fmt.Sprintf("the %s write of %s refused: the partition mirrors", o.sent.Mode, tag),
				fmt.Sprintf("acknowledged at offset %d", o.offset)))
		}
	case history.Refused:
		if retriable[o.result.Code] {
			return // says nothing about the window
		}
		refused[string(o.sent.Mode)]++
		if o.result.Message == "" || o.result.Code <= 0 {
			r.findings = append(r.findings, j.told(p, UnclearRefusal, -1, fmt.Sprintf("the %s write of %s refused with an error code and a message that say why", o.sent.Mode, tag),
				fmt.Sprintf("error code %d, message %q", o.result.Code, o.result.Message)))
		}
		for _, s := range p.dests {
			for _, at := range s.find(o.sent.stem, o.sent.index) {
				if at.offset >= s.cut { // below it is reported already
					r.findings = append(r.findings, j.finding(s, WriteInWindow, at.entry, at.offset,
						"nothing of a write that was refused: "+answer(*o.result), "its record"))
				}
			}
		}
	}
}

func (j *judge) addRefusal(r *ruling, a *history.AddPartitions, seq int64, refused map[string]int) {
	for _, p := range j.parts() {
		if a.Cluster != p.Destination || a.Topic != p.topic || a.Partition != p.index || seq < p.mirroring || seq > p.stopped {
			continue
		}
		switch {
		case a.Result.Outcome == history.Refused:
			refused["AddPartitionsToTxn"]++
		case a.Result.Outcome == history.OK && seq < p.stopRequested:
			r.findings = append(r.findings, j.told(p, WriteInWindow, -1,
				fmt.Sprintf("AddPartitionsToTxn of %s refused: the partition mirrors", a.TransactionalID), "accepted"))
		}
	}
}

// readOnly is the code of READ_ONLY_TOPIC in KIP-1279's development build.
const readOnly = 134

// ro4 holds that a stopped partition is writable for the very client that was
// refused before, without a restart of a broker.
func (j *judge) ro4(r *ruling) {
	j.needStop(r)
	again := 0
	for _, p := range j.parts() {
		refused := map[string]bool{}
		codes := map[int16]bool{readOnly: true}
		accepted := map[string]int64{} // writer → when it was first accepted
		tried := map[string]*operation{}
		note := func(o *operation) {
			if accepted[o.sent.Writer] == 0 {
				accepted[o.sent.Writer] = o.ended
			}
		}
		for _, o := range j.local(p) {
			if o.began < p.mirroring {
				continue
			}
			w := o.sent.Writer
			switch {
			case o.ended < p.stopped && o.result.Outcome == history.Refused:
				refused[w] = true
				codes[o.result.Code] = codes[o.result.Code] || o.sent.Mode == history.Plain
			case o.began < p.stopped || o.sent.Collision != "" || o.sent.Trial != "":
				if o.result.Outcome == history.OK {
					note(o)
				}
			case o.result.Outcome == history.OK:
				note(o)
			case o.result.Outcome == history.Refused && codes[o.result.Code] && j.mayNotKnow(p, o):
			case o.result.Outcome == history.Refused && codes[o.result.Code]:
				r.findings = append(r.findings, j.told(p, RefusedWrite, -1, fmt.Sprintf("the %s write of %s accepted: the partition is STOPPED", o.sent.Mode, who(o.sent.Tag())), answer(*o.result)))
			case o.result.Outcome == history.Refused:
				tried[w] = o
			}
		}
		for w := range inOrder(refused) {
			if at := accepted[w]; at > 0 && !j.restarted(p, at) {
				again++
			} else if o := tried[w]; o != nil && at == 0 && o.sent.Mode != history.Transactional {
				r.findings = append(r.findings, j.told(p, RefusedWrite, -1, fmt.Sprintf("a write of %s accepted after STOPPED", w), answer(*o.result)))
			}
		}
	}
	r.need(again > 0, "no client that was refused while mirroring was accepted later, without a restart between")
	r.saw("%d clients refused while mirroring were accepted later", again)
}

// mayNotKnow says whether a write may have reached a node that was struck, and had
// not heard yet of what went on without it: it takes itself for the leader still,
// of a partition that mirrors.
func (j *judge) mayNotKnow(p *part, o *operation) bool {
	if o.began > p.trafficAfter {
		return false
	}
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Kind == history.KindFaultStart && strings.HasPrefix(e.Fault.Link, "node:") && e.Seq < o.ended {
			return true
		}
	}
	return false
}

// restarted says whether a broker of the destination started between the stop's
// request and a later moment.
func (j *judge) restarted(p *part, before int64) bool {
	for i := range j.ev.Events {
		if e := &j.ev.Events[i]; e.Node != nil && e.Node.Cluster == p.Destination && e.Node.What == history.NodeStarted && e.Seq > p.stopRequested && e.Seq < before {
			return true
		}
	}
	return false
}

// ro5 holds that no write is accepted before the barrier is in the log.
func (j *judge) ro5(r *ruling) {
	j.needStop(r)
	tried, accepted, barriers := 0, 0, 0
	for _, p := range j.parts() {
		for _, s := range p.dests {
			if s.barrier < 0 {
				continue
			}
			barriers++
			for i := range s.entries[:s.barrier] {
				if e := &s.entries[i]; e.origin == local && !e.IsControl() && e.BaseOffset >= s.cut {
					r.findings = append(r.findings, j.at(s, EarlyWrite, i,
						fmt.Sprintf("no client's batch before the barrier at %d", s.barrierOffset()), e.describe()))
				}
			}
		}
		for _, o := range j.local(p) {
			if o.began < p.mirroring {
				continue
			}
			if o.began < p.stopped && o.ended > p.stopRequested {
				tried++
			}
			if o.result.Outcome != history.OK {
				continue
			}
			accepted++
			if p.stopped == never && p.lead != nil && p.lead.barrier < 0 && o.ended > p.stopRequested {
				r.findings = append(r.findings, j.told(p, EarlyWrite, o.offset, "no write accepted while the stop has not come to its end",
					fmt.Sprintf("%s acknowledged at offset %d, event %d", who(o.sent.Tag()), o.offset, o.ended)))
				continue
			}
			if o.ended > p.stopRequested && o.began < p.stopped && o.sent.Collision == "" && j.early(p, o) {
				r.findings = append(r.findings, j.told(p, EarlyWrite, o.offset, "no write accepted before the barrier is in the log",
					fmt.Sprintf("%s acknowledged at offset %d, event %d", who(o.sent.Tag()), o.offset, o.ended)))
			}
		}
	}
	r.need(barriers > 0, "no log holds a barrier to look at (see BAR-1)")
	r.need(tried > 0, "no write was tried while STOPPING")
	r.need(accepted > 0, "no write was accepted after the stop")
	r.saw("%d writes tried while STOPPING", tried)
}

// early says whether a write was acknowledged before its partition's barrier:
// below it, or while the suite itself held the partition at a gate before it.
// A write whose record lies between L and the barrier is reported from the log.
func (j *judge) early(p *part, o *operation) bool {
	if p.lead == nil || p.lead.barrier < 0 || len(p.lead.find(o.sent.stem, o.sent.index)) > 0 && o.offset < p.lead.barrierOffset() {
		return false
	}
	return o.offset >= 0 && o.offset < p.lead.barrierOffset() || j.heldDuring(p, o, beforeBarrier)
}

// Points of STOPPING at which a held partition can't have its barrier yet, and
// those at which it has it, but is not writable.
var (
	beforeBarrier = []string{
		"before:fetchers-removed", "after:fetchers-removed", "before:settled", "after:settled",
		"before:truncated", "recorded:truncated", "after:truncated", "before:last-mirrored-offset-persisted",
		"after:last-mirrored-offset-persisted", "before:open-transactions-aborted", "after:open-transactions-aborted",
		"before:barrier-appended",
	}
	afterBarrier = []string{"after:barrier-appended", "before:barrier-committed", "after:barrier-committed", "before:stopped"}
)

// heldDuring says whether the partition was held at one of the points from
// before the operation began until after it ended. That a partition is held is
// seen after it is, and that it is released is written before it is, so the
// window is one that surely was.
func (j *judge) heldDuring(p *part, o *operation, points []string) bool {
	since := map[string]int64{}
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if g := e.Gate; g != nil && g.Cluster == p.Destination && (g.Partition == "" || g.Partition == p.place()) && slices.Contains(points, g.Point) {
			switch g.What {
			case history.GateHeld:
				since[g.Point] = e.Seq
			case history.GateReleased:
				if at := since[g.Point]; at > 0 && at < o.began && o.ended < e.Seq {
					return true
				}
				delete(since, g.Point)
			}
		}
	}
	return false
}

// gateSeen is when the point was first reported for the partition; never where it was not.
func (j *judge) gateSeen(p *part, point string) int64 {
	for i := range j.ev.Events {
		g := j.ev.Events[i].Gate
		if g != nil && g.Cluster == p.Destination && g.Point == point && (g.Partition == "" || g.Partition == p.place()) {
			return j.ev.Events[i].Seq
		}
	}
	return never
}
