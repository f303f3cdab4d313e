package check

import (
	"bytes"
	"fmt"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// replicaSet is all that is known of one partition's replicas on one cluster at
// one moment.
type replicaSet struct {
	judge    *judge
	cluster  *Cluster
	topic    string
	index    int32
	replicas []*Replica
	hw       int64   // the highest high watermark that was shown; -1 for none
	inSync   []int32 // as shown last; empty where it was not
	compacts bool
}

// replicaSets lists those of every episode's clusters at its end, or those of a
// run without mirrors at its end.
func (t *trial) replicaSets() []replicaSet {
	var all []replicaSet
	add := func(j *judge, c *Cluster, topic string) {
		for index := range t.run.Topic(topic).Partitions {
			s := replicaSet{judge: j, cluster: c, topic: topic, index: index, hw: -1, compacts: t.run.Topic(topic).Compacted}
			s.replicas = j.ev.replicasOf(c.Name, topic, index)
			p := part{edge: j.edge, topic: topic, index: index}
			since := j.lastCut(c.Name, topic, index)
			for i := range j.ev.Events {
				e := &j.ev.Events[i]
				if e.Seq < since {
					continue
				}
				s.hw = max(s.hw, p.replicated(e, c.Name))
				if o := e.Offsets; o != nil && p.of(c.Name, o.Cluster, o.Topic, o.Partition) && len(o.InSync) > 0 {
					s.inSync = o.InSync
				}
			}
			all = append(all, s)
		}
	}
	for _, j := range t.views {
		for _, topic := range j.edge.Topics {
			add(j, j.edge.src, topic)
			add(j, j.edge.dst, topic)
		}
	}
	if len(t.run.Edges) == 0 {
		for i := range t.run.Clusters {
			for _, topic := range t.run.Topics {
				add(t.aloneOn(&t.run.Clusters[i]).judge, &t.run.Clusters[i], topic.Name)
			}
		}
	}
	return all
}

// lastCut is since when the cluster's log of a partition was no more cut by the
// start or the stop of a mirror into it: high watermarks that were shown before
// may lie above what is left. It is never where such a cut was still to come.
func (j *judge) lastCut(cluster, topic string, index int32) int64 {
	var since int64
	for _, other := range j.trial.views {
		q := other.part(topic, index)
		if other.edge.Destination != cluster || q == nil || !j.saw(min(other.edge.started, other.edge.stopRequested)) {
			continue
		}
		for _, up := range other.upstream() { // what that cuts is given up here
			switch u := up.part(topic, index); {
			case u == nil:
			case j.brokeOff(u):
				return never
			case j.saw(u.stopped):
				since = max(since, u.stopped)
			}
		}
		switch {
		case j.saw(q.stopped):
			since = max(since, q.stopped)
		case j.brokeOff(q):
			return never
		default:
			since = max(since, q.mirroring)
		}
	}
	return since
}

// replicated is the high watermark that an event shows for the partition: what
// lies below it, every in-sync replica has.
func (p *part) replicated(e *history.Event, cluster string) int64 {
	switch {
	case e.Offsets != nil && p.of(cluster, e.Offsets.Cluster, e.Offsets.Topic, e.Offsets.Partition):
		return e.Offsets.HighWatermark
	case e.Fetch != nil && e.Fetch.Code == 0 && p.of(cluster, e.Fetch.Cluster, e.Fetch.Topic, e.Fetch.Partition):
		return e.Fetch.HighWatermark
	}
	return -1
}

// members are the replicas that are in sync, as far as that is known.
func (s *replicaSet) members() []*Replica {
	var all []*Replica
	for _, r := range s.replicas {
		in := len(s.inSync) == 0
		for _, n := range s.inSync {
			in = in || n == r.Node
		}
		if in {
			all = append(all, r)
		}
	}
	return all
}

// log4 holds that all in-sync replicas of a partition hold the same bytes below
// the high watermark; where a cleaner went over one of them, the same records as
// far as both have them, and the same newest one of each key.
func (t *trial) log4(r *ruling) {
	several, batches := 0, 0
	for _, s := range t.replicaSets() {
		in := s.members()
		if len(in) < 2 || s.hw <= 0 {
			continue
		}
		several++
		first := in[0]
		for _, other := range in {
			if end(other) > end(first) {
				first = other
			}
		}
		for _, other := range in {
			if other != first {
				batches += s.same(r, first, other)
			}
		}
	}
	r.need(several > 0, "no partition had several replicas in sync, and a high watermark that was shown")
	r.need(several == 0 || batches > 0, "no replica held a batch below the high watermark")
	r.saw("%d partitions with several replicas in sync, %d batches of others equal the longest one's", several, batches)
}

// same compares a replica with the longest one below the high watermark.
func (s *replicaSet) same(r *ruling, first, other *Replica) (equal int) {
	a, b := s.judge.trial.line(first), s.judge.trial.line(other)
	if end(other) < s.hw {
		r.findings = append(r.findings, s.judge.finding(b, MissingBatch, -1, end(other),
			fmt.Sprintf("all that lies below the high watermark %d, since the replica is in sync", s.hw), fmt.Sprintf("its log ends at %d", end(other))))
		return 0
	}
	if s.compacts || !a.gapless() || !b.gapless() {
		return s.sameRecords(r, a, b)
	}
	for i := range b.entries {
		e := &b.entries[i]
		if e.BaseOffset >= s.hw {
			break
		}
		k := a.at(e.BaseOffset)
		if k < 0 || !bytes.Equal(a.entries[k].Raw, e.Raw) {
			got := "something else: " + e.describe()
			expected := "nothing"
			if k >= 0 {
				expected = a.entries[k].describe()
			}
			r.findings = append(r.findings, s.judge.finding(b, DivergedLogs, i, e.BaseOffset, fmt.Sprintf("what node %d holds there, byte for byte: %s", first.Node, expected), got))
			return equal // the rest follows from it
		}
		equal++
	}
	return equal
}

// sameRecords compares what a cleaner has left of two replicas.
func (s *replicaSet) sameRecords(r *ruling, a, b *side) (equal int) {
	known := map[int64]*wirelog.Record{}
	newest := map[string]int64{}
	s.records(a, func(_ *entry, rec *wirelog.Record) {
		known[rec.Offset] = rec
		newest[string(rec.Key)] = rec.Offset
	})
	own := map[string]int64{}
	s.records(b, func(e *entry, rec *wirelog.Record) {
		own[string(rec.Key)] = rec.Offset
		other := known[rec.Offset]
		if other == nil {
			return // cleaned there
		}
		if !bytes.Equal(rec.Key, other.Key) || !bytes.Equal(rec.Value, other.Value) {
			r.findings = append(r.findings, s.judge.finding(b, DivergedLogs, b.at(e.BaseOffset), rec.Offset, fmt.Sprintf("the record that replica %d holds there: key %q value %q", a.Node, other.Key, clipped(other.Value)), fmt.Sprintf("key %q value %q", rec.Key, clipped(rec.Value))))
			return
		}
		equal++
	})
	for key, at := range inOrder(newest) {
		if own[key] != at {
			r.findings = append(r.findings, s.judge.finding(b, DivergedLogs, b.at(at), at, fmt.Sprintf("the newest record of key %q at %d, as on replica %d", key, at, a.Node), fmt.Sprintf("at %d, or none", own[key])))
		}
	}
	return equal
}

// records calls do with the data records below the high watermark.
func (s *replicaSet) records(of *side, do func(*entry, *wirelog.Record)) {
	for i := range of.entries {
		e := &of.entries[i]
		if e.IsControl() || e.BaseOffset >= s.hw {
			continue
		}
		records, err := e.Records()
		if err != nil {
			continue // LOG-3 tells
		}
		for k := range records {
			do(e, &records[k])
		}
	}
}

func clipped(value []byte) string { return string(value[:min(len(value), 64)]) }
