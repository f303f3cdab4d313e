package check

import (
	"fmt"
	"math"
	"slices"

	"watershed.example/suite/history"
)

// alone is what the checks of the SC family share: one cluster of a run without
// mirrors, seen as a view whose destination it is and which mirrored nothing.
type alone struct {
	*judge
	parts []*alonePart
}

// alonePart is one partition with what was written to it.
type alonePart struct {
	*part
	// complete says that no batch was taken from the log since it began, by
	// retention or a cleaner: what is not in it never was.
	complete bool
	ops      []*operation
}

// aloneIn calls do for each cluster of a run without mirrors. Another run does
// not exercise the requirement: mirrored records have states of their own.
func (t *trial) aloneIn(r *ruling, do func(*alone)) {
	if len(t.run.Edges) > 0 {
		r.need(false, "the run mirrors: requirements of a single cluster are judged on one")
		return
	}
	for i := range t.run.Clusters {
		do(t.aloneOn(&t.run.Clusters[i]))
	}
}

func (t *trial) aloneOn(c *Cluster) *alone {
	if known := t.alone[c.Name]; known != nil {
		return known
	}
	j := &judge{
		trial: t, run: t.run, ev: t.ev, end: t.ledger.last, streams: t.ledger.streams,
		edge: &edge{
			Edge: Edge{Destination: c.Name}, dst: c, started: never, mirroring: never,
			stopRequested: never, stopped: never, trafficAfter: never, settled: never,
		},
	}
	for i := range t.ev.Events {
		j.event(&t.ev.Events[i])
	}
	j.takeWrites()
	a := &alone{judge: j}
	for _, topic := range t.run.Topics {
		for index := range topic.Partitions {
			p := &alonePart{part: &part{edge: j.edge, topic: topic.Name, index: index}}
			if r := longest(t.ev.replicasOf(c.Name, topic.Name, index)); r != nil {
				p.lead = t.line(r)
				p.dests = []*side{p.lead}
				p.complete = !topic.Compacted && p.lead.gapless()
			}
			p.ops = j.local(p.part)
			a.parts = append(a.parts, p)
		}
	}
	if t.alone == nil {
		t.alone = map[string]*alone{}
	}
	t.alone[c.Name] = a
	return a
}

// gapless says whether the log begins at offset 0 and holds every offset since.
func (s *side) gapless() bool {
	next := int64(0)
	for i := range s.entries {
		if s.entries[i].BaseOffset != next {
			return false
		}
		next = s.entries[i].NextOffset()
	}
	return true
}

// about says whether an event's sample is about the partition.
func (p *alonePart) about(cluster, topic string, index int32) bool {
	return p.of(p.Destination, cluster, topic, index)
}

// numbered is one of a producer's batches, as its answer told.
type numbered struct {
	op     *operation
	next   int32 // the sequence that follows it
	offset int64
}

// numbering is what a broker has to know of one producer in one partition: the
// protocol's rules for clients that are only idempotent, kept by the book.
type numbering struct {
	known bool
	epoch int16
	sent  []numbered // of that epoch, the newest last
	lost  bool       // an answer was lost, or was wrong: nothing can be told any more
}

// kept is how many batches of a producer a broker has to know.
const kept = 5

// wanted is what the rules say of one batch.
type wanted struct {
	rule sequenceRule
	// back is how many batches of the producer came after the one that is sent
	// again.
	back  int
	first numbered
}

// sequenceRule names the rule that a batch falls under.
type sequenceRule int

const (
	toAppend    sequenceRule = iota
	toRepeat                 // a retry of one of the last batches
	tooOld                   // a retry of one before them
	toBeGap                  // its sequence does not follow
	toFence                  // its epoch is old
	toBeginAnew              // a newer epoch, from sequence 0
	anewTooHigh              // a newer epoch, from another sequence
)

func follows(sequence int32, n int32) int32 {
	next := int64(sequence) + int64(n)
	if next > math.MaxInt32 {
		next -= math.MaxInt32 + 1
	}
	return int32(next)
}

func (n *numbering) want(o *operation) wanted {
	b := o.sent.Batch
	switch {
	case !n.known:
		return wanted{rule: toAppend}
	case b.Epoch < n.epoch:
		return wanted{rule: toFence}
	case b.Epoch > n.epoch && b.BaseSequence == 0:
		return wanted{rule: toBeginAnew}
	case b.Epoch > n.epoch:
		return wanted{rule: anewTooHigh}
	}
	for back := range n.sent {
		first := n.sent[len(n.sent)-1-back]
		if first.op.sent.Batch.BaseSequence == b.BaseSequence && first.op.sent.Count == o.sent.Count {
			w := wanted{rule: toRepeat, back: back, first: first}
			if back >= kept {
				w.rule = tooOld
			}
			return w
		}
	}
	if len(n.sent) > 0 && n.sent[len(n.sent)-1].next == b.BaseSequence {
		return wanted{rule: toAppend}
	}
	return wanted{rule: toBeGap}
}

// learn takes in what became of a batch that was to be appended.
func (n *numbering) learn(o *operation) {
	b := o.sent.Batch
	if !n.known || b.Epoch != n.epoch {
		n.known, n.epoch, n.sent = true, b.Epoch, nil
	}
	n.sent = append(n.sent, numbered{o, follows(b.BaseSequence, o.sent.Count), o.offset})
}

// numberings goes through the idempotent batches of a partition in their order,
// and calls do with what the rules say of each.
func (a *alone) numberings(p *alonePart, do func(o *operation, w wanted)) {
	all := map[int64]*numbering{}
	for _, o := range p.ops {
		if o.sent.Batch == nil || o.sent.Mode != history.Idempotent {
			continue
		}
		n := all[o.sent.Batch.ProducerID]
		if n == nil {
			n = &numbering{}
			all[o.sent.Batch.ProducerID] = n
		}
		if n.lost {
			continue
		}
		if a.cutAway(p, o) {
			continue // the truncation took it: nobody is to know of it
		}
		w := n.want(o)
		do(o, w)
		appends := w.rule == toAppend || w.rule == toBeginAnew
		switch {
		case o.result.Outcome == history.Refused && retriable[o.result.Code]:
			// As if it had never been sent.
		case o.result.Outcome == history.Unknown, retriable[o.result.Code]:
			n.lost = true
		case appends && o.result.Outcome == history.OK:
			n.learn(o)
		case appends, o.result.Outcome == history.OK && w.rule != toRepeat && w.rule != tooOld:
			n.lost = true // what is wrong was found
		}
	}
}

// places are where a log holds the first record of a batch.
func (p *alonePart) places(o *operation) []place {
	if p.lead == nil {
		return nil
	}
	return p.lead.find(o.sent.stem, o.sent.index)
}

// lies says whether the batch lies at the offset, whole; so it does where the log
// can't tell.
func (p *alonePart) lies(o *operation, offset int64) bool {
	if !p.complete {
		return true
	}
	return slices.ContainsFunc(p.places(o), func(at place) bool {
		e := &p.lead.entries[at.entry]
		return at.offset == offset && e.BaseOffset == offset && e.Count == o.sent.Count
	})
}

// appendedOnce finds the faults of a batch that was to be appended, once, and
// was acknowledged.
func (a *alone) appendedOnce(r *ruling, p *alonePart, o *operation, offset int64) bool {
	expected := fmt.Sprintf("%s at %d, once", batchWords(o), offset)
	switch at := p.places(o); {
	case len(at) > 1:
		r.findings = append(r.findings, a.finding(p.lead, Duplicate, at[1].entry, at[1].offset, expected, fmt.Sprintf("it lies there %d times", len(at))))
	case !p.lies(o, offset):
		r.findings = append(r.findings, a.told(p.part, PhantomAck, offset, expected, "it is not there"))
	default:
		return true
	}
	return false
}

// refusedAs holds that a batch was refused with one of the codes, and is nowhere.
func (a *alone) refusedAs(r *ruling, p *alonePart, o *operation, anomaly Anomaly, why string, codes ...int16) bool {
	expected := fmt.Sprintf("%s refused with error %d: %s", batchWords(o), codes[0], why)
	switch at := p.places(o); {
	case len(at) > 0 && o.sent.Trial != history.TrialRetry:
		r.findings = append(r.findings, a.finding(p.lead, anomaly, at[0].entry, at[0].offset, expected, "it was appended"))
	case o.result.Outcome == history.OK:
		r.findings = append(r.findings, a.told(p.part, anomaly, o.offset, expected, fmt.Sprintf("acknowledged with offset %d", o.offset)))
	case o.result.Outcome != history.Refused, retriable[o.result.Code]:
	case !slices.Contains(codes, o.result.Code):
		r.findings = append(r.findings, a.told(p.part, UnclearRefusal, -1, expected, answer(*o.result)))
	default:
		return true
	}
	return false
}

// went says whether a node of the cluster came back between two events, or had
// its log cut: what it knows of producers then comes from snapshots, which hold
// one batch of each.
func (a *alone) went(after, before int64) bool {
	return a.nodeBetween(a.edge.Destination, history.NodeStarted, after, before) ||
		slices.ContainsFunc(a.ev.Events, func(e history.Event) bool {
			d := e.Disturbance
			return d != nil && d.What == history.Truncation && d.Cluster == a.edge.Destination && e.Seq > after && e.Seq < before
		})
}

// cutAway says whether a batch was sent to a leader that was cut off, which
// nobody acknowledged and whose log was truncated since: it is nowhere.
func (a *alone) cutAway(p *alonePart, o *operation) bool {
	if !suffixCodes[o.result.Code] || len(p.places(o)) > 0 {
		return false
	}
	within := false
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		if e.Seq > o.began {
			return within
		}
		if d := e.Disturbance; d != nil && d.What == history.Truncation && d.Cluster == a.edge.Destination {
			within = !d.Over
		}
	}
	return within
}

// suffixCodes are the answers of a leader that has appended a batch, and could not
// replicate it in time: REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
var suffixCodes = map[int16]bool{7: true, 20: true}
