package check

import (
	"slices"

	"watershed.example/suite/history"
)

// upstream lists the other stops of clusters from which the view's destination
// gets its records, over any number of hops: its source, the source's source and
// so on. Where one of them cut its log, those downstream follow (CH-3).
func (j *judge) upstream() []*judge {
	feeds := map[string]bool{j.edge.Source: true}
	for range j.trial.views {
		for _, other := range j.trial.views {
			if feeds[other.edge.Destination] && other != j {
				feeds[other.edge.Source] = true
			}
		}
	}
	delete(feeds, j.edge.Destination) // its own earlier stops are over before this mirror starts
	var all []*judge
	for _, other := range j.trial.views {
		if other != j && feeds[other.edge.Destination] {
			all = append(all, other)
		}
	}
	return all
}

// steady is since when the source's log at the episode's end tells what the
// destination mirrored: since the last stop upstream; never where the run broke
// off amid one.
func (j *judge) steady(p *part) int64 {
	since := p.mirroring
	for _, other := range j.upstream() {
		q := other.part(p.topic, p.index)
		switch {
		case q == nil:
		case j.brokeOff(q):
			return never
		case q.stopped < j.edge.stopRequested:
			since = max(since, q.stopped)
		}
	}
	return since
}

// brokeOff says whether the run broke off amid the stop of a partition upstream:
// whether its log was cut by then, nobody knows.
func (j *judge) brokeOff(q *part) bool {
	return q.stopped == never && j.saw(q.stopRequested)
}

// saw says whether a moment lies within the view.
func (j *judge) saw(moment int64) bool { return moment != never && moment <= j.end.seq }

// recut is the lowest offset at which a stop upstream made the destination cut
// its log while it mirrored; never where none did.
func (j *judge) recut(p *part) int64 {
	lowest := never
	for _, other := range j.upstream() {
		q := other.part(p.topic, p.index)
		if q == nil || q.lead == nil {
			continue
		}
		if j.brokeOff(q) || q.stopped > p.mirroring && q.stopped < p.stopped {
			lowest = min(lowest, q.lead.cut)
		}
	}
	return lowest
}

// shownThen says whether what a reader of the destination saw while it mirrored
// was right at that time: the source shows that record there and the stop cut it,
// or a log upstream showed it that was cut since.
func (j *judge) shownThen(p *part, read seen) bool {
	if read.offset >= p.lead.cut && p.sourceShows(read) {
		return true
	}
	if read.offset < j.recut(p) {
		return false
	}
	for _, other := range j.upstream() {
		if q := other.part(p.topic, p.index); q != nil && (q.sourceShows(read) || j.tookThere(q, read)) {
			return true
		}
	}
	return j.tookThere(p, read)
}

// tookThere says whether the source acknowledged that record at that offset
// before it was seen, and its writer had it committed: the witness for what a
// source showed, and cut before anybody copied its log.
func (j *judge) tookThere(p *part, read seen) bool {
	return slices.ContainsFunc(j.sentTo(p.Source, p.topic, p.index), func(o *operation) bool {
		if o.result.Outcome != history.OK || o.began > read.seq || o.sent.stem == nil || o.sent.stem != read.stem {
			return false
		}
		if o.sent.Tag().Txn != history.NoTxn && !j.askedToCommit(o, read.seq) {
			return false // nobody had committed it
		}
		k := read.offset - o.offset
		return k >= 0 && k < int64(o.sent.Count) && read.is(record{index: o.sent.index + k, stem: o.sent.stem, offset: read.offset})
	})
}

// askedToCommit says whether the writer had asked to commit the transaction of a
// write before a moment.
func (j *judge) askedToCommit(o *operation, before int64) bool {
	return slices.ContainsFunc(j.ev.Events, func(e history.Event) bool {
		t := e.Txn
		return e.Seq < before && e.Kind == history.KindTxnEndBegin && t.Intent == history.IntentCommit &&
			t.Cluster == o.sent.Cluster && t.Writer == o.sent.Writer && t.Number == o.sent.Tag().Txn
	})
}
