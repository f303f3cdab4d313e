package postmortem

import (
	"fmt"

	"watershed.example/suite/wirelog"
)

// data takes a batch of a producer with an id.
func (l *line) data(b *wirelog.Batch) {
	s := l.span()
	p, known := s.table.get(b.ProducerID)
	if !known {
		s.Producers++
		l.firstOf(b, s)
		p = producer{coordinator: -1, firstOffset: b.BaseOffset}
	} else {
		l.sequence(b, p, s)
		if p.firstOffset < 0 {
			p.firstOffset = b.BaseOffset
		}
	}
	p.epoch, p.lastSeq, p.lastOffset, p.lastTime = b.ProducerEpoch, b.LastSequence(), b.LastOffset(), b.MaxTimestamp
	s.table.put(b.ProducerID, p)
	if !b.IsTransactional() {
		return
	}
	o, ok := s.open[b.ProducerID]
	if !ok {
		if len(s.open) >= maxOpen {
			s.table.forgotten++
			return
		}
		o = openTxn{first: b.BaseOffset, epoch: b.ProducerEpoch, since: b.BaseTimestamp, keys: records(b, 1)}
	}
	o.last, o.records = b.LastOffset(), o.records+count(b)
	s.open[b.ProducerID] = o
}

// firstOf looks at the first batch of a producer in a span.
func (l *line) firstOf(b *wirelog.Batch, s *span) {
	if s.prior == nil {
		return
	}
	mirrored, both := s.prior.get(b.ProducerID)
	if both {
		s.collisions++
		if len(s.collided) < maxNamed {
			s.collided = append(s.collided, collision{id: b.ProducerID, offset: b.BaseOffset, sequence: b.BaseSequence, epoch: b.ProducerEpoch, mirrored: mirrored})
		}
	}
	if b.BaseSequence == 0 || l.lastGap >= s.First {
		return
	}
	f := Finding{
		Kind: StaleProducer, Sure: Possible, Requirements: []string{"IDEM-1"}, Offset: b.BaseOffset, LastOffset: b.LastOffset(),
		What:     fmt.Sprintf("the first batch of producer %d, epoch %d behind the barrier begins at sequence %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence),
		Why:      "what has been numbered before it is not here; a broker that knows nothing of a producer takes any number, so it may never have come",
		Do:       "ask the application that wrote these keys whether its first records after the failover were acknowledged, and write them again",
		Affected: count(b), Records: records(b, maxRecords),
	}
	if both && mirrored.epoch == b.ProducerEpoch && mirrored.lastSeq >= 0 && nextSequence(mirrored.lastSeq) == b.BaseSequence {
		f.Sure = Likely
		f.What += fmt.Sprintf(": just where the mirrored producer of that id and epoch ended (offset %d)", mirrored.lastOffset)
		f.Why = "either the broker still knew the mirrored producer, and answered this one's first records as repeated ones of that (they are lost), or the batch is the source's"
	}
	l.report(f)
}

// sequence looks at a batch of a producer that the span knows.
func (l *line) sequence(b *wirelog.Batch, p producer, s *span) {
	if l.lastGap > p.lastOffset {
		return // what lay between is not here
	}
	f := Finding{Sure: Certain, Offset: b.BaseOffset, LastOffset: b.LastOffset(), Affected: count(b)}
	if b.BaseTimestamp-p.lastTime >= expiry {
		f.Sure, f.Why = Possible, "the producer had been silent for so long that the broker may have forgotten it"
	}
	want := nextSequence(p.lastSeq)
	switch {
	case b.ProducerEpoch < p.epoch:
		f.Kind, f.Requirements = EpochBack, ids(s, "SC-2", "IDEM-3")
		f.What = fmt.Sprintf("producer %d writes with epoch %d behind its epoch %d (offset %d)", b.ProducerID, b.ProducerEpoch, p.epoch, p.lastOffset)
		f.Do = "find out which producer it is: one that was fenced has written, or two clusters' producers share the id"
	case b.ProducerEpoch > p.epoch || p.lastSeq < 0:
		if p.firstOffset < 0 && (l.first > 0 || l.gaps > 0) {
			return // known by a marker only, and what was before is gone
		}
		if b.BaseSequence == 0 {
			return
		}
		f.Kind, f.Requirements = SequenceGap, ids(s, "SC-1", "IDEM-3")
		f.What = fmt.Sprintf("producer %d begins its epoch %d at sequence %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence)
		f.Do = "ask the application whether the records before it were acknowledged"
	case b.BaseSequence == want:
		return
	default:
		f.Kind, f.Requirements = SequenceGap, ids(s, "SC-1", "IDEM-3")
		f.What = fmt.Sprintf("producer %d, epoch %d goes from sequence %d (offset %d) to %d", b.ProducerID, b.ProducerEpoch, p.lastSeq, p.lastOffset, b.BaseSequence)
		f.Do = "ask the application whether the records between were acknowledged"
		if b.BaseSequence <= p.lastSeq {
			f.What += ": a batch that came twice"
			f.Do = "look for the records twice by their keys, and take one of each out downstream"
		}
	}
	if f.Why == "" {
		f.Why = "the log between is whole, and a broker that knows the producer refuses this"
	}
	f.Records = records(b, maxRecords)
	l.report(f)
}

// ids are the requirement's of a single cluster, and behind a barrier that of the
// destination too.
func ids(s *span, alone, behind string) []string {
	if s.prior == nil {
		return []string{alone}
	}
	return []string{behind, alone}
}
