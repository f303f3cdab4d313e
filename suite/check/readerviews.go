package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// readerView is what one read_committed reader saw of a partition.
type readerView struct {
	name  string
	began int64 // when it was first heard of
	runs  []seenRun
	final *history.Reader
	early bool // it read before the stop
}

// readerViews are those of the destination's partition. What a reader saw while
// the destination mirrored, and is not there since it was cut, is left out: the transaction had
// begun before one that was open, and ended after.
func (j *judge) readerViews(p *part) []*readerView {
	byName := map[string]*readerView{}
	var all []*readerView
	of := func(name string, began int64) *readerView {
		v := byName[name]
		if v == nil {
			v = &readerView{name: name, began: began}
			byName[name] = v
			all = append(all, v)
		}
		v.began = min(v.began, began)
		return v
	}
	recut := j.recut(p)
	for _, s := range j.seenIn(p) {
		if s.Isolation != history.ReadCommitted {
			continue
		}
		v := of(s.Reader, s.runs[0].first)
		for _, seen := range s.runs {
			switch {
			case seen.first > p.stopped, seen.first == p.stopped:
				v.runs = append(v.runs, seen)
				continue
			}
			v.early = true
			if seen.odd == nil && seen.end() <= min(p.lead.cut, recut) {
				v.runs = append(v.runs, seen) // below what was cut
				continue
			}
			for k := range int64(seen.n) {
				if one := seen.one(k); p.lead.shows(one) || !j.shownThen(p, one) {
					v.runs = append(v.runs, seenRun{run: run{one.offset, one.index, one.stem, 1}, first: seen.first, odd: seen.odd})
				}
			}
		}
	}
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if f := e.Reader; f != nil && f.Final && f.Isolation == history.ReadCommitted && p.of(p.Destination, f.Cluster, f.Topic, f.Partition) {
			of(f.Reader, e.Seq).final = f
		}
	}
	slices.SortStableFunc(all, func(a, b *readerView) int { return int(min(max(a.began-b.began, -1), 1)) })
	for _, v := range all {
		v.inOrder()
	}
	return all
}

// inOrder sorts what was seen by offset. Of two records at one offset the last
// one counts: the first was there before a truncation.
func (v *readerView) inOrder() {
	ordered := true
	for i := range v.runs {
		ordered = ordered && (i == 0 || v.runs[i-1].end() <= v.runs[i].offset)
	}
	if ordered {
		return
	}
	last := map[int64]seenRun{}
	for i := range v.runs {
		for k := range int64(v.runs[i].n) {
			one := v.runs[i].one(k)
			last[one.offset] = seenRun{run: run{one.offset, one.index, one.stem, 1}, first: v.runs[i].first, odd: one.odd}
		}
	}
	v.runs = v.runs[:0]
	for _, r := range last {
		v.runs = append(v.runs, r)
	}
	slices.SortFunc(v.runs, func(a, b seenRun) int { return int(min(max(a.offset-b.offset, -1), 1)) })
}

// views compares each read_committed reader of the destination with the model
// and returns how many of them crossed the barrier.
func (j *judge) views(r *ruling, p *part) (crossed int) {
	model := p.lead.model()
	for _, v := range j.readerViews(p) {
		j.view(r, p, v, model)
		if v.final == nil {
			continue
		}
		if b := p.lead.barrierOffset(); b >= 0 && v.final.Start <= b && v.final.Position > b+1 {
			crossed++
		}
	}
	return crossed
}

// modelRun is a run of the log with its batch.
type modelRun struct {
	*run
	entry int
}

// model lists a log's records in the order of their offsets, of two at one
// offset the last.
func (s *side) model() []modelRun {
	var all []modelRun
	ordered := true
	for i := range s.entries {
		for k := range s.entries[i].runs {
			next := &s.entries[i].runs[k]
			ordered = ordered && (len(all) == 0 || all[len(all)-1].end() <= next.offset)
			all = append(all, modelRun{next, i})
		}
	}
	if ordered {
		return all
	}
	last := map[int64]modelRun{}
	for _, m := range all {
		for k := range int64(m.n) {
			one := m.at(k)
			last[one.offset] = modelRun{&run{one.offset, one.index, one.stem, 1}, m.entry}
		}
	}
	all = all[:0]
	for _, m := range last {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b modelRun) int { return int(min(max(a.offset-b.offset, -1), 1)) })
	return all
}

// view goes through the log and what one reader saw of it, both in the order of
// their offsets.
func (j *judge) view(r *ruling, p *part, v *readerView, model []modelRun) {
	early := never // a reader from before the stop is not held to [early, maxEndSeen)
	if v.early {
		// It may have stood above the cut: to notice a truncation is the client's
		// part (KIP-320). Readers that began after the stop are held to these records.
		early = min(p.lead.cut, j.recut(p))
	}
	hidden := func(m modelRun, from, to int64) {
		if v.final == nil || !p.lead.entries[m.entry].visible() || j.episode.ForeignStop && p.lead.outlived(m.entry) {
			return
		}
		for at := max(from, v.final.Start); at < min(to, v.final.Position); at++ {
			if at >= early && at < p.maxEndSeen {
				continue
			}
			r.findings = append(r.findings, j.finding(p.lead, HiddenRead, m.entry, at, fmt.Sprintf("reader %s (read_committed) to see the record", v.name), fmt.Sprintf("it went on to %d without it", v.final.Position)))
		}
	}
	k := 0
	var done int64 // of the log's run k, up to this offset
	for i := range v.runs {
		seen := &v.runs[i]
		for at := seen.offset; at < seen.end(); {
			for k < len(model) && model[k].end() <= at {
				hidden(model[k], max(done, model[k].offset), model[k].end())
				k++
			}
			if k == len(model) || model[k].offset > at {
				next := seen.end()
				if k < len(model) {
					next = min(next, model[k].offset)
				}
				for ; at < next; at++ {
					j.shown(r, p, v.name, seen.one(at-seen.offset), nil, -1)
				}
				continue
			}
			m := model[k]
			hidden(m, max(done, m.offset), at)
			to := min(m.end(), seen.end())
			if !p.lead.entries[m.entry].visible() || !seen.goesWith(m.run) {
				for ; at < to; at++ {
					rec := m.at(at - m.offset)
					j.shown(r, p, v.name, seen.one(at-seen.offset), &rec, m.entry)
				}
			}
			at, done = to, to
		}
	}
	for ; k < len(model); k++ {
		hidden(model[k], max(done, model[k].offset), model[k].end())
	}
}

// goesWith says whether the two runs hold the same record wherever they meet.
func (r *seenRun) goesWith(other *run) bool {
	return r.odd == nil && r.stem == other.stem && r.index-r.offset == other.index-other.offset
}

// sourceShows says whether the source holds that record at that offset and
// shows it to read_committed readers.
func (p *part) sourceShows(read seen) bool {
	return p.source != nil && p.source.shows(read)
}

// shows says whether the log holds that record at that offset and shows it to
// read_committed readers.
func (s *side) shows(read seen) bool {
	k := s.at(read.offset)
	if k < 0 {
		return false
	}
	e := &s.entries[k]
	for i := range e.runs {
		if run := &e.runs[i]; run.offset <= read.offset && read.offset < run.end() {
			return run.stem != nil && read.is(run.at(read.offset-run.offset)) && e.visible()
		}
	}
	return false
}

// shown judges one record that a reader was shown; rec is the log's at its
// offset, nil where it has none.
func (j *judge) shown(r *ruling, p *part, reader string, read seen, rec *record, entry int) {
	offset, tag := read.offset, read.tagText()
	got := fmt.Sprintf("reader %s (read_committed) was shown %q", reader, tag)
	switch {
	case rec == nil:
		if k := p.lead.at(offset); k >= 0 && p.lead.entries[k].IsControl() && tag == "" {
			return // a control record that leaked: BAR-6's
		}
		r.findings = append(r.findings, j.told(p, AbortedRead, offset, "nothing: the log holds no record at this offset", got))
	case rec.tagged() && !read.is(*rec):
		r.findings = append(r.findings, j.told(p, AbortedRead, offset, fmt.Sprintf("the record %q", rec.tag()), got))
	case !p.lead.entries[entry].visible():
		t := p.lead.entries[entry].txn
		r.findings = append(r.findings, j.told(p, AbortedRead, offset, fmt.Sprintf("nothing: transaction %d of %s was not committed", t.number, t.writer), got))
	}
}
