package check

import (
	"fmt"
	"time"

	"watershed.example/suite/history"
)

// aThousand is how many partitions the contract speaks of.
const aThousand = 1000

// How much longer than linearly a stop of many partitions may take on a machine
// that others use too, and what counts as the least time of one of few.
const (
	wideSlack = 3
	wideFloor = time.Second
)

// stopAPI is the request that stops a mirror's topics.
const stopAPI = "StopMirrorTopics"

// ops3 holds that a thousand partitions (or as many as the run says) stop in one request, each with its own
// barrier at L, in time that grows no faster than linearly from a smaller stop of
// the same run.
func (t *trial) ops3(r *ruling) {
	var few, many *history.Event
	wanted := t.run.Options.many()
	for _, e := range t.probes(history.ProbeStopMany) {
		if e.Probe.Many == nil || e.Probe.Result.Outcome == history.Unknown {
			continue
		}
		if !t.stoppedWhole(r, e) {
			continue
		}
		if n := e.Probe.Many.Partitions; n >= wanted {
			many = e
		} else if n > 1 && 5*n <= wanted {
			few = e
		}
	}
	r.need(few != nil, "no stop of fewer partitions, to compare with, came to its end")
	r.need(many != nil, "no stop of %d partitions came to its end", wanted)
	if few == nil || many == nil {
		return
	}
	a, b := few.Probe.Many, many.Probe.Many
	took := max(time.Duration(a.Took), wideFloor)
	linear := took * time.Duration(b.Partitions) / time.Duration(a.Partitions)
	if time.Duration(b.Took) > wideSlack*linear {
		r.findings = append(r.findings, t.about(many, SlowStop, fmt.Sprintf("%d partitions to stop within %s, %d times what is linear from %d in %s", b.Partitions, wideSlack*linear, wideSlack, a.Partitions, took.Round(time.Millisecond)),
			time.Duration(b.Took).Round(time.Millisecond).String()))
	}
	r.saw("%d partitions stopped by one request in %s, %d in %s", b.Partitions, time.Duration(b.Took).Round(time.Millisecond), a.Partitions, time.Duration(a.Took).Round(time.Millisecond))
}

// stoppedWhole judges one stop of many partitions: one request, every partition
// STOPPED, and in its log, which was empty, the barrier at L and nothing else.
func (t *trial) stoppedWhole(r *ruling, e *history.Event) bool {
	p := e.Probe
	found := len(r.findings)
	note := func(a Anomaly, expected, got string) { r.findings = append(r.findings, t.about(e, a, expected, got)) }
	if p.Result.Outcome == history.Refused {
		note(RefusedStop, fmt.Sprintf("the stop of %d partitions accepted", p.Many.Partitions), answer(*p.Result))
		return false
	}
	asked := 0
	for i := range t.ev.Events {
		m := t.ev.Events[i].MirrorRPC
		if m == nil || m.API != stopAPI || m.Mirror != p.Mirror || len(m.Topics) != 1 || m.Topics[0] != p.Topic {
			continue
		}
		switch {
		case t.ev.Events[i].Kind == history.KindMirrorRPCBegin:
			asked++
		case m.Result != nil && m.Result.Outcome == history.Refused && (m.Result.Code == notController || retriable[m.Result.Code]):
			asked-- // leaders changed, and it was carried out by none
		}
	}
	if asked != 1 {
		r.need(false, "the stop of topic %s was asked for %d times", p.Topic, asked)
		return false
	}
	byState, wrong := map[string]int{}, 0
	seen := map[int32]bool{}
	for _, end := range p.Many.Ends {
		seen[end.Partition] = true
		byState[end.State]++
		if end.State == "STOPPED" && (end.L != 0 || end.Barrier != end.L || end.End != end.Barrier+1) {
			if wrong == 0 {
				note(MisplacedBarrier, fmt.Sprintf("partition %d, which was empty, to hold one barrier, at L", end.Partition),
					fmt.Sprintf("L %d, barrier at %d, log end %d", end.L, end.Barrier, end.End))
			}
			wrong++
		}
	}
	if n := byState["STOPPED"]; n != int(p.Many.Partitions) || len(seen) != int(p.Many.Partitions) {
		note(StuckStop, fmt.Sprintf("all %d partitions STOPPED", p.Many.Partitions), fmt.Sprintf("%d of them after %s: %v", n, time.Duration(p.Many.Took).Round(time.Millisecond), byState))
	}
	return len(r.findings) == found
}
