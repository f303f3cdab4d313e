package check

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"sort"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// content is a log's batches with all that is the same whoever looks at them. A
// log is read once, and takes 32 bytes for each run of records beside its
// batches, and 24 in the index.
type content struct {
	stems   *stems
	entries []entry
	taken   bool // the entries are a side's
	byStem  map[*stem]*slots
	// sorted is set where offsets go up, as they should: then they are searched.
	sorted bool
}

// run is records of a batch whose offsets follow each other, and the indexes of
// their tags too; or such without a tag.
type run struct {
	offset int64 // of the first
	index  int64
	stem   *stem // nil without a tag
	n      int32
}

// record is one data record.
type record struct {
	offset int64
	index  int64 // its tag's
	stem   *stem // nil without a tag
}

func (r record) tagged() bool { return r.stem != nil }

// tag is the record's tag; it must have one.
func (r record) tag() history.Tag { return r.stem.tag(r.index) }

// at is the run's record with number k.
func (r *run) at(k int64) record { return record{r.offset + k, r.index + k, r.stem} }

func (r *run) end() int64 { return r.offset + int64(r.n) }

// records iterates over the batch's data records.
func (e *entry) records() iter.Seq[record] {
	return func(yield func(record) bool) {
		for i := range e.runs {
			for k := range int64(e.runs[i].n) {
				if !yield(e.runs[i].at(k)) {
					return
				}
			}
		}
	}
}

// first is the tag of the batch's first record, as far as it has one.
func (e *entry) first() (tag history.Tag, tagged bool) {
	if r := e.firstRun(); r != nil {
		return r.stem.tag(r.index), true
	}
	return tag, false
}

// firstRun is the run of the batch's first record where that has a tag, else nil.
func (e *entry) firstRun() *run {
	if len(e.runs) == 0 || e.runs[0].stem == nil {
		return nil
	}
	return &e.runs[0]
}

// visible says whether a read_committed reader is to see the batch's records.
func (e *entry) visible() bool { return e.txn == nil || e.txn.committed }

// decoder takes logs apart.
type decoder struct {
	stems *stems
	scan  wirelog.RecordScanner
	runs  []run // of the batch that is read
	arena []run
}

func (d *decoder) decode(r *Replica) *content {
	c := &content{stems: d.stems, entries: make([]entry, len(r.Batches)), byStem: map[*stem]*slots{}, sorted: true}
	for i := range r.Batches {
		e := &c.entries[i]
		e.Batch, e.origin = &r.Batches[i], local
		if e.IsControl() {
			control, err := e.Control()
			e.bad = err
			if err == nil || control.Type == wirelog.MirrorPIDReset {
				e.control = &control
			}
		} else {
			d.records(e)
		}
		if i > 0 && e.BaseOffset <= c.entries[i-1].LastOffset() {
			c.sorted = false
		}
		c.index(i)
	}
	for _, s := range c.byStem {
		s.close()
	}
	return c
}

func (d *decoder) records(e *entry) {
	d.runs = d.runs[:0]
	d.scan.Start(e.Batch)
	var odd error
	for d.scan.Next() {
		r := record{offset: d.scan.Record.Offset}
		var err error
		if r.stem, r.index, err = d.tagOf(&d.scan.Record); err != nil && odd == nil && !errors.Is(err, history.ErrNoTag) {
			odd = err
		}
		d.add(r)
	}
	if e.bad = d.scan.Err(); e.bad == nil {
		e.bad = odd
	}
	if len(d.runs) == 0 {
		return
	}
	if len(d.arena)+len(d.runs) > cap(d.arena) {
		d.arena = make([]run, 0, max(4096, len(d.runs)))
	}
	from := len(d.arena)
	d.arena = append(d.arena, d.runs...)
	e.runs = d.arena[from:len(d.arena):len(d.arena)]
}

func (d *decoder) add(r record) {
	if n := len(d.runs); n > 0 {
		last := &d.runs[n-1]
		if last.stem == r.stem && last.end() == r.offset && (r.stem == nil || last.index+int64(last.n) == r.index) {
			last.n++
			return
		}
	}
	d.runs = append(d.runs, run{r.offset, r.index, r.stem, 1})
}

// tagOf reads a record's tag as [history.TagOf] does.
func (d *decoder) tagOf(r *wirelog.Record) (*stem, int64, error) {
	header := r.Header(history.HeaderKey)
	// The common case: the value starts with what the header holds.
	if n := len(header); n > 0 && n < len(r.Value) && r.Value[n] == '\n' && bytes.Equal(r.Value[:n], header) {
		if st, index, _, err := parseTag(d.stems, header); err == nil && bytes.IndexByte(header, '\n') < 0 {
			return st, index, nil
		}
	}
	tag, err := history.TagOf(header, r.Value)
	if err != nil {
		return nil, 0, err
	}
	return d.stems.of(tag), tag.Index, nil
}

// place is where a record lies.
type place struct {
	entry  int
	offset int64
}

// slot is where a run lies, for who looks for one of its records.
type slot struct {
	index  int64
	offset int64
	entry  int32
	n      int32
}

func (s *slot) place(index int64) place { return place{int(s.entry), s.offset + index - s.index} }

// slots are the runs of one stem in the order of their indexes.
type slots struct {
	all []slot
	// once says that no index is there twice.
	once    bool
	longest int32
}

func (c *content) index(i int) {
	for _, r := range c.entries[i].runs {
		if r.stem == nil {
			continue
		}
		s := c.byStem[r.stem]
		if s == nil {
			s = &slots{once: true}
			c.byStem[r.stem] = s
		}
		if n := len(s.all); n > 0 && s.all[n-1].index+int64(s.all[n-1].n) > r.index {
			s.once = false
		}
		s.longest = max(s.longest, r.n)
		s.all = append(s.all, slot{r.index, r.offset, int32(i), r.n})
	}
}

// close sorts what did not come in order; of equal ones the first in the log
// comes first.
func (s *slots) close() {
	if s.once {
		return
	}
	slices.SortStableFunc(s.all, func(a, b slot) int {
		switch {
		case a.index < b.index:
			return -1
		case a.index > b.index:
			return 1
		}
		return 0
	})
	s.once = true
	for i := range s.all[1:] {
		if s.all[i].index+int64(s.all[i].n) > s.all[i+1].index {
			s.once = false
		}
	}
}

// find returns where a record lies, in the order of the log.
func (c *content) find(st *stem, index int64) []place {
	s := c.byStem[st]
	if st == nil || s == nil {
		return nil
	}
	var all []place
	for i := s.behind(index) - 1; i >= 0 && s.all[i].index > index-int64(s.longest); i-- {
		if index < s.all[i].index+int64(s.all[i].n) {
			all = append(all, s.all[i].place(index))
		}
		if s.once {
			break
		}
	}
	if len(all) > 1 {
		slices.SortFunc(all, func(a, b place) int {
			if a.entry != b.entry {
				return a.entry - b.entry
			}
			return int(min(max(a.offset-b.offset, -1), 1))
		})
	}
	return all
}

// behind is the place of the first slot above an index.
func (s *slots) behind(index int64) int {
	return sort.Search(len(s.all), func(i int) bool { return s.all[i].index > index })
}

// findAll returns where the first of n records lies that lie one after the
// other, none of them there a second time; ok is false where that is not so.
func (c *content) findAll(st *stem, index int64, n int32) (at place, ok bool) {
	s := c.byStem[st]
	if st == nil || s == nil || !s.once {
		return at, false
	}
	i := s.behind(index) - 1
	if i < 0 || index+int64(n) > s.all[i].index+int64(s.all[i].n) {
		return at, false
	}
	return s.all[i].place(index), true
}

// places returns where the record of a tag lies, in the order of the log.
func (c *content) places(t history.Tag) []place { return c.find(c.stems.find(t), t.Index) }
