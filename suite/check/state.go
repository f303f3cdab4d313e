package check

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// producer is what a broker has to know of one producer id, by the judge's own
// replay of a log.
type producer struct {
	epoch    int32
	sequence int32 // of its last record in that epoch; -1 without one
	open     int64 // first offset of its open transaction; -1 without one
	entry    int   // its last batch or marker
}

func (p producer) String() string {
	s := fmt.Sprintf("epoch %d last sequence %d", p.epoch, p.sequence)
	if p.open >= 0 {
		s += fmt.Sprintf(" with a transaction open since %d", p.open)
	}
	return s
}

// is says whether DescribeProducers shows the producer as it is.
func (p producer) is(d history.ProducerState) bool {
	return p.epoch == d.Epoch && p.sequence == d.LastSequence && p.open == d.CurrentTxnStart
}

// ownBarriers are the barriers that a cluster wrote itself, in any episode.
// Others came in with its source's records, and expire nothing. In profile
// kip1279-latest they do, so that all are as its own.
func (t *trial) ownBarriers(cluster, topic string, index int32) func(*entry) bool {
	if t.run.latest() {
		return func(*entry) bool { return true }
	}
	var own []*wirelog.Batch
	for _, j := range t.views {
		if p := j.part(topic, index); p != nil && j.edge.Destination == cluster {
			for _, s := range p.dests {
				for _, i := range s.barriers() {
					own = append(own, s.entries[i].Batch)
				}
			}
		}
	}
	return func(e *entry) bool {
		return slices.ContainsFunc(own, func(b *wirelog.Batch) bool {
			return b.BaseOffset == e.BaseOffset && bytes.Equal(b.Raw, e.Raw)
		})
	}
}

// states replays a log batch by batch and calls f with each end from which on
// there is a new state, with what producers are known there, until f is false.
// A barrier of the cluster's own expires all that it finds.
func (s *side) states(own func(*entry) bool, f func(end int64, now map[int64]producer) bool) {
	now := map[int64]producer{}
	if !f(0, now) {
		return
	}
	for i := range s.entries {
		e := &s.entries[i]
		switch {
		case e.IsBarrier():
			if own(e) {
				clear(now)
			}
		case e.ProducerID >= 0:
			p, known := now[e.ProducerID]
			if !known {
				p.open = -1
			}
			if !known || p.epoch != int32(e.ProducerEpoch) {
				p.epoch, p.sequence = int32(e.ProducerEpoch), -1
			}
			p.entry = i
			switch {
			case e.IsControl():
				p.open = -1
			default:
				p.sequence = e.LastSequence()
				if e.IsTransactional() && p.open < 0 {
					p.open = e.BaseOffset
				}
			}
			now[e.ProducerID] = p
		}
		if !f(e.NextOffset(), now) {
			return
		}
	}
}

// difference is one producer that a broker does not show as the log says.
type difference struct {
	id    int64
	want  *producer // nil where the log knows none
	shown *history.ProducerState
}

func (d difference) String() string {
	switch {
	case d.want == nil:
		return fmt.Sprintf("producer id %d epoch %d last sequence %d is shown, which nothing in the log makes known", d.id, d.shown.Epoch, d.shown.LastSequence)
	case d.shown == nil:
		return fmt.Sprintf("producer id %d (%s) is not shown", d.id, d.want)
	}
	shown := producer{epoch: d.shown.Epoch, sequence: d.shown.LastSequence, open: d.shown.CurrentTxnStart}
	return fmt.Sprintf("producer id %d is shown with %s instead of %s", d.id, shown, d.want)
}

// differ compares what a broker shows with what a log makes known.
func differ(now map[int64]producer, shown []history.ProducerState) []difference {
	var all []difference
	seen := map[int64]bool{}
	for i := range shown {
		d := &shown[i]
		seen[d.ProducerID] = true
		p, known := now[d.ProducerID]
		switch {
		case !known:
			all = append(all, difference{id: d.ProducerID, shown: d})
		case !p.is(*d):
			all = append(all, difference{d.ProducerID, &p, d})
		}
	}
	for id, p := range now {
		if !seen[id] {
			all = append(all, difference{id: id, want: &p})
		}
	}
	slices.SortFunc(all, func(a, b difference) int { return cmp.Compare(a.id, b.id) })
	return all
}

// nearest finds the state at or above the offset from that comes nearest to what
// a broker shows: when it was asked its log may have been longer than anybody
// had seen. It returns what differs even there, and the log's end.
func (s *side) nearest(own func(*entry) bool, from int64, shown []history.ProducerState) (least []difference, at int64) {
	first := true
	s.states(own, func(end int64, now map[int64]producer) bool {
		if end < from && end < s.cutoff() {
			return true
		}
		if d := differ(now, shown); first || len(d) < len(least) {
			least, at, first = d, end, false
		}
		return len(least) > 0
	})
	return least, at
}

// cutoff is the log's end.
func (s *side) cutoff() int64 { return end(s.Replica) }

// tell joins differences for a person.
func tell(all []difference) string {
	const most = 4
	var says []string
	for i, d := range all {
		if i == most {
			says = append(says, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		says = append(says, d.String())
	}
	return strings.Join(says, "; ")
}

// of says whether an event's sample is about the partition on the cluster.
func (p *part) of(cluster, c, topic string, index int32) bool {
	return c == cluster && topic == p.topic && index == p.index
}

// endShown is the log end or high watermark that an event shows for the
// partition on a cluster, -1 where it shows none.
func (p *part) endShown(e *history.Event, cluster string) int64 {
	switch {
	case e.Mirror != nil && p.of(cluster, e.Mirror.Cluster, e.Mirror.Topic, e.Mirror.Partition):
		return e.Mirror.DestinationOffset
	case e.Offsets != nil && p.of(cluster, e.Offsets.Cluster, e.Offsets.Topic, e.Offsets.Partition):
		return max(e.Offsets.HighWatermark, e.Offsets.LogEndOffset)
	case e.Fetch != nil && e.Fetch.Code == 0 && p.of(cluster, e.Fetch.Cluster, e.Fetch.Topic, e.Fetch.Partition):
		return e.Fetch.HighWatermark
	case e.Kind == history.KindProduceAck && e.Produce.Result.Outcome == history.OK && e.Produce.Offset >= 0 &&
		p.of(cluster, e.Produce.Cluster, e.Produce.Topic, e.Produce.Partition):
		return e.Produce.Offset + int64(e.Produce.Count)
	}
	return -1
}
