package check

import "fmt"

// lastOf is the newest batch under a producer id, and which cluster's client
// wrote it.
type lastOf struct {
	entry   int
	cluster string
}

// collisions names what becomes of two clusters' producers that a rewriting of
// producer ids has put under one id: no broker refuses it, since it comes by
// replication. The seed's first two scenarios; the third, markers that end the
// other's transaction, is TXN-2's. Ids as their clusters gave them collide too,
// but there a barrier parts the two.
func (j *judge) collisions(r *ruling, s *side) {
	last := map[int64]lastOf{}
	for i := range s.entries {
		e := &s.entries[i]
		if e.ProducerID >= -1 || e.firstRun() == nil {
			continue
		}
		cluster := e.firstRun().stem.Cluster
		before, seen := last[e.ProducerID]
		last[e.ProducerID] = lastOf{i, cluster}
		if !seen || before.cluster == cluster {
			continue
		}
		b := &s.entries[before.entry]
		switch next := b.LastSequence() + 1; {
		case e.ProducerEpoch < b.ProducerEpoch:
			r.findings = append(r.findings, j.at(s, CollidingEpoch, i, fmt.Sprintf("an epoch of %d or above under producer id %d, after %s", b.ProducerEpoch, e.ProducerID, b.describe()), e.describe()))
		case e.ProducerEpoch == b.ProducerEpoch && e.BaseSequence != next:
			r.findings = append(r.findings, j.at(s, CollidingSequence, i, fmt.Sprintf("sequence %d under producer id %d, after %s", next, e.ProducerID, b.describe()), e.describe()))
		}
	}
}
