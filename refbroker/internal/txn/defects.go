package txn

import "watershed.example/refbroker/internal/defect"

// What makes the coordinator wrong on purpose: see package defect.

// raised is what InitProducerId decides; with a defect the epoch is raised where
// only a new producer id is left.
func (c *Coordinator) raised(t Txn, o outcome) outcome {
	if !o.rotate || t.Epoch == noProducerEpoch || !c.cfg.Defects.Has(defect.EpochGoesNegative) {
		return o
	}
	t.Epoch++ // past the last one it is negative
	t.LastEpoch = noProducerEpoch
	return outcome{write: &t, answer: t.identity()}
}

// ending is who ends a transaction; with a defect an older epoch of its producer
// does too.
func (c *Coordinator) ending(t Txn, have identity) identity {
	if t.State == Ongoing && have.id == t.ProducerID && have.epoch < t.Epoch && c.cfg.Defects.Has(defect.LateEndTxnAccepted) {
		return t.identity()
	}
	return have
}
