package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// Error codes by which a broker refuses what a producer must not write.
const (
	outOfOrder = 45 // OUT_OF_ORDER_SEQUENCE_NUMBER
	oldEpoch   = 47 // INVALID_PRODUCER_EPOCH
	fenced     = 90 // PRODUCER_FENCED
)

// idem3 holds that local guarantees stay whole within one writable period: a
// retry is appended once, a gap and an older epoch are refused.
func (j *judge) idem3(r *ruling) {
	j.needStop(r)
	c := &trials{}
	for _, p := range j.parts() {
		if p.lead == nil {
			continue
		}
		for _, o := range j.local(p) {
			if o.began < p.stopped || o.sent.Batch == nil {
				continue
			}
			switch o.sent.Trial {
			case history.TrialRetry:
				j.retried(r, p, o, c)
			case history.TrialGap:
				j.gapped(r, p, o, c)
			case history.TrialZombie:
				j.zombie(r, p, o, c)
			}
		}
	}
	r.need(c.retries > 0, "no local batch was sent again within the writable period")
	r.need(c.gaps > 0, "no local gap was tried")
	r.need(c.zombies > 0, "no idempotent producer wrote with an older epoch after a newer one had written")
	r.need(c.txnZombies > 0, "no transactional producer wrote after it had been fenced")
	r.saw("%d retries answered with the first offset, %d of them after a restart; refused: %d gaps, %d older epochs, %d fenced transactional producers",
		c.retries, c.restarted, c.gaps, c.zombies, c.txnZombies)
}

type trials struct{ retries, restarted, gaps, zombies, txnZombies int }

// ownPlaces are the places of a record after everything mirrored.
func (s *side) ownPlaces(tag history.Tag) []place {
	var all []place
	for _, at := range s.places(tag) {
		if at.offset >= s.localFrom() {
			all = append(all, at)
		}
	}
	return all
}

// firstOf is the operation that first wrote the batch which o sends again.
func (j *judge) firstOf(o *operation) *operation {
	for _, f := range j.order {
		if f != o && f.ended < o.began && f.sent.Tag() == o.sent.Tag() && f.sent.Batch != nil && *f.sent.Batch == *o.sent.Batch && f.sent.Trial != history.TrialRetry {
			return f
		}
	}
	return nil
}

func batchWords(o *operation) string {
	b := o.sent.Batch
	return fmt.Sprintf("the batch of %s (pid %d epoch %d seq %d, %s)", who(o.sent.Tag()), b.ProducerID, b.Epoch, b.BaseSequence, o.sent.Trial)
}

func (j *judge) retried(r *ruling, p *part, o *operation, c *trials) {
	first := j.firstOf(o)
	if first == nil || first.result.Outcome != history.OK {
		return // nothing to compare with
	}
	expected := fmt.Sprintf("%s once, at offset %d, as it was acknowledged first", batchWords(o), first.offset)
	twice := false
	for _, s := range p.dests {
		if at := s.ownPlaces(o.sent.Tag()); len(at) > 1 {
			twice = true
			r.findings = append(r.findings, j.finding(s, Duplicate, at[1].entry, at[1].offset, expected, "it lies there again"))
		}
	}
	restarted := j.nodeBetween(p.Destination, history.NodeStarted, first.ended, o.began)
	switch {
	case twice:
	case o.result.Outcome == history.OK && o.offset != first.offset:
		r.findings = append(r.findings, j.told(p, PhantomAck, o.offset, expected, fmt.Sprintf("acknowledged with offset %d", o.offset)))
	case o.result.Outcome == history.OK:
		c.retries++
		c.restarted += b2i(restarted)
	case o.result.Outcome != history.Refused || retriable[o.result.Code]:
	case o.result.Code == outOfOrder && restarted: // a snapshot keeps one batch
	case (o.result.Code == oldEpoch || o.result.Code == fenced) && j.newerEpoch(p, o):
	default:
		r.findings = append(r.findings, j.told(p, RefusedWrite, first.offset, expected, answer(*o.result)))
	}
}

// nodeBetween says whether that befell a node of the cluster within the span of
// events.
func (j *judge) nodeBetween(cluster string, what history.NodeEvent, after, before int64) bool {
	for i := range j.ev.Events {
		if e := &j.ev.Events[i]; e.Node != nil && e.Node.Cluster == cluster && e.Node.What == what && e.Seq > after && e.Seq < before {
			return true
		}
	}
	return false
}

// newerEpoch says whether a newer epoch of o's producer id had written to the
// partition in this writable period when o began.
func (j *judge) newerEpoch(p *part, o *operation) bool {
	for _, n := range j.order {
		b := n.sent.Batch
		if n.at(p) && b != nil && n.began > p.stopped && n.ended < o.began && n.result.Outcome == history.OK &&
			b.ProducerID == o.sent.Batch.ProducerID && b.Epoch > o.sent.Batch.Epoch {
			return true
		}
	}
	return false
}

// wroteBefore says whether o's own producer, id and epoch, had written to the
// partition when o began.
func (j *judge) wroteBefore(p *part, o *operation) bool {
	for _, f := range j.order {
		if b := f.sent.Batch; f.at(p) && b != nil && f.began > p.stopped && f.ended < o.began && f.result.Outcome == history.OK &&
			b.ProducerID == o.sent.Batch.ProducerID && b.Epoch == o.sent.Batch.Epoch {
			return true
		}
	}
	return false
}

// newerOwner says whether o's transactional producer id was handed out anew,
// with a newer epoch, when o began.
func (j *judge) newerOwner(o *operation) bool {
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Seq > o.began {
			break
		}
		if n := e.InitPID; n != nil && n.Cluster == o.sent.Cluster && n.Result.Outcome == history.OK &&
			n.ProducerID == o.sent.Batch.ProducerID && n.Epoch > o.sent.Batch.Epoch {
			return true
		}
	}
	return false
}

// inAnyLog looks for a batch that had to be refused, in every replica.
func (j *judge) inAnyLog(r *ruling, p *part, o *operation, a Anomaly, expected string) (found bool) {
	for _, s := range p.dests {
		for _, at := range s.ownPlaces(o.sent.Tag()) {
			found = true
			r.findings = append(r.findings, j.finding(s, a, at.entry, at.offset, expected, "it was appended"))
		}
	}
	if !found && o.result.Outcome == history.OK {
		found = true
		r.findings = append(r.findings, j.told(p, a, o.offset, expected, fmt.Sprintf("acknowledged with offset %d", o.offset)))
	}
	return found
}

func (j *judge) gapped(r *ruling, p *part, o *operation, c *trials) {
	if !j.wroteBefore(p, o) {
		return
	}
	expected := batchWords(o) + " refused with error 45: its sequence leaves a gap"
	switch {
	case j.inAnyLog(r, p, o, AcceptedGap, expected):
	case o.result.Outcome != history.Refused || retriable[o.result.Code]:
	case o.result.Code != outOfOrder:
		r.findings = append(r.findings, j.told(p, UnclearRefusal, -1, expected, answer(*o.result)))
	default:
		c.gaps++
	}
}

func (j *judge) zombie(r *ruling, p *part, o *operation, c *trials) {
	transactional := o.sent.Mode == history.Transactional
	if transactional && !j.newerOwner(o) || !transactional && !j.newerEpoch(p, o) {
		return
	}
	expected := batchWords(o) + " refused: a newer epoch has taken over"
	switch {
	case j.inAnyLog(r, p, o, ZombieAppend, expected):
	case o.result.Code <= 0 || retriable[o.result.Code]: // no broker's word
	case transactional:
		c.txnZombies++
	default:
		c.zombies++
	}
}
