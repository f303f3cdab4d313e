package check

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"watershed.example/suite/history"
)

// overOpen counts what came out right of a log with a barrier over an open
// transaction.
type overOpen struct{ open, stable, listed, read, told int }

// psm8 holds that no leader writes its barrier over an open transaction; and
// where a leader of other rules did so (see [Episode.ForeignStop]), that replicas
// and recovery abort the transaction, with an entry in the aborted index and an
// error in the broker's log: it neither holds the last stable offset nor shows.
func (j *judge) psm8(r *ruling) {
	j.needStop(r)
	var c overOpen
	for _, p := range j.parts() {
		if p.lead == nil || p.lead.barrier < 0 {
			continue
		}
		for _, s := range p.dests {
			for _, t := range s.openAtBarrier() {
				if !j.episode.ForeignStop {
					r.findings = append(r.findings, j.at(s, BarrierOverOpen, s.at(t.end), "a barrier over no open transaction: a leader refuses to write it",
						fmt.Sprintf("transaction %d of %s is open since %d", t.number, t.writer, t.first)))
				}
			}
		}
		if open := p.lead.openAtBarrier(); len(open) > 0 {
			c.open += len(open)
			j.completed(r, p, open, &c)
		}
	}
	r.need(j.episode.ForeignStop, "no leader of other rules wrote a barrier")
	r.need(c.open > 0, "no barrier lies over an open transaction")
	r.need(c.stable > 0, "the last stable offset of such a log was never sampled after recovery")
	r.need(c.listed > 0, "no read_committed fetch over such a transaction was answered after recovery")
	r.need(c.read > 0, "no read_committed reader crossed such a barrier")
	r.need(c.told > 0, "what brokers logged of such a barrier was not saved")
	r.saw("%d transactions were open at a barrier, and are aborted: %d last stable offsets and %d fetches after recovery, %d readers, %d errors logged",
		c.open, c.stable, c.listed, c.read, c.told)
}

// openAtBarrier are the source's transactions that nothing but the stop's
// barrier ended.
func (s *side) openAtBarrier() []*txn {
	return slices.DeleteFunc(slices.Clone(s.txns), func(t *txn) bool { return !t.mirrored || !t.byBarrier || t.end != s.barrierOffset() })
}

// outlived says whether a client may leave out the batch as one of a transaction
// that the own barrier ended. Consumers know markers alone: that transaction's
// first offset stays in what they hold to be aborted until ABORT markers of the id
// have taken it away, some one for each entry. So a barrier over an open
// transaction hides what is committed under its id, which is why no leader may
// write one. What the broker lists is held to the log all the same.
func (s *side) outlived(i int) bool {
	e := &s.entries[i]
	return i > s.barrier && e.IsTransactional() &&
		slices.ContainsFunc(s.openAtBarrier(), func(t *txn) bool { return t.producerID == e.ProducerID })
}

// completed judges what the destination made of transactions that its own
// barrier found open.
func (j *judge) completed(r *ruling, p *part, open []*txn, c *overOpen) {
	barrier := p.lead.barrierOffset()
	went, back := map[int32]bool{}, map[int32]bool{}
	hidden := map[int64]*txn{}
	for i := range p.lead.entries {
		if e := &p.lead.entries[i]; e.txn != nil && slices.Contains(open, e.txn) {
			for rec := range e.records() {
				hidden[rec.offset] = e.txn
			}
		}
	}
	for _, v := range j.readerViews(p) {
		for i := range v.runs {
			for k := range int64(v.runs[i].n) {
				seen := v.runs[i].one(k)
				if t := hidden[seen.offset]; t != nil {
					r.findings = append(r.findings, j.told(p, AbortedRead, seen.offset, fmt.Sprintf("nothing: the barrier at %d found transaction %d of %s open, and ended it as aborted", barrier, t.number, t.writer),
						fmt.Sprintf("reader %s (read_committed) was shown %q", v.name, seen.tagText())))
				}
			}
		}
		if f := v.final; f != nil && f.Start <= open[0].first && f.Position > barrier {
			c.read++
		}
	}
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Seq <= p.stopped {
			continue
		}
		if n := e.Node; n != nil && n.Cluster == p.Destination {
			went[n.Node] = went[n.Node] || n.What == history.NodeKilled
			back[n.Node] = back[n.Node] || went[n.Node] && n.What == history.NodeStarted
		}
		if hw, lso, ok := p.ends(e); ok && hw > barrier {
			if lso <= barrier {
				r.findings = append(r.findings, j.told(p, WrongLSO, lso, fmt.Sprintf("a last stable offset behind the barrier at %d, which ended what was open, at high watermark %d", barrier, hw),
					fmt.Sprintf("%d (event %d)", lso, e.Seq)))
			} else if back[nodeOf(e)] {
				c.stable++
			}
		}
		if f := e.Fetch; f != nil && f.Code == 0 && f.Isolation == history.ReadCommitted && p.of(p.Destination, f.Cluster, f.Topic, f.Partition) {
			listed := j.listsOpen(r, p, open, f)
			if back[f.Node] {
				c.listed += listed
			}
		}
	}
	lines, saved := j.trial.ev.Errors[p.Destination]
	switch {
	case !saved:
	case slices.ContainsFunc(lines, func(line string) bool { return numbers(line)[barrier] }):
		c.told++
	default:
		r.findings = append(r.findings, j.told(p, Unlogged, barrier, fmt.Sprintf("an error in a broker's log that names the barrier at %d: it found %d transactions open", barrier, len(open)),
			fmt.Sprintf("%d lines of errors, none with that offset", len(lines))))
	}
}

// listsOpen holds that a fetch over one of the transactions lists it as aborted,
// and returns how many it lists.
func (j *judge) listsOpen(r *ruling, p *part, open []*txn, f *history.Fetch) (listed int) {
	for _, t := range open {
		if f.NextOffset <= f.FetchOffset || t.first >= f.NextOffset || t.last < f.FetchOffset {
			continue
		}
		if !slices.Contains(f.Aborted, history.Aborted{ProducerID: t.producerID, FirstOffset: t.first}) {
			r.findings = append(r.findings, j.told(p, MissingAbort, t.first, fmt.Sprintf("producer id %d, first offset %d in the aborted list of the fetch of [%d, %d): the barrier at %d ended it", t.producerID, t.first, f.FetchOffset, f.NextOffset, t.end),
				"it is not there: aborted records would be shown"))
			continue
		}
		listed++
	}
	return listed
}

// nodeOf is the node that an event's sample of offsets is from; 0 without one.
func nodeOf(e *history.Event) int32 {
	switch {
	case e.Offsets != nil:
		return e.Offsets.Node
	case e.Fetch != nil:
		return e.Fetch.Node
	}
	return 0
}

// numbers are the words of a line that are whole numbers, no parts of a time.
func numbers(line string) map[int64]bool {
	all := map[int64]bool{}
	for _, word := range strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" =,;()[]{}\"", c) }) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			all[n] = true
		}
	}
	return all
}

// loadErrors reads what brokers logged as errors, of runs in which that matters.
func loadErrors(dir string, run *Run) (map[string][]string, error) {
	all := map[string][]string{}
	if !slices.ContainsFunc(run.Episodes, func(e Episode) bool { return e.ForeignStop }) {
		return all, nil
	}
	for _, c := range run.Clusters {
		for _, node := range c.Nodes {
			lines, err := errorsIn(filepath.Join(dir, BrokerLog(c.Name, node)))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read a broker's output: %w", err)
			}
			all[c.Name] = append(all[c.Name], lines...)
		}
	}
	return all, nil
}

// errorsIn are the lines that say ERROR, as slog and log4j write it.
func errorsIn(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := []string{}
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadString('\n')
		if strings.Contains(line, "ERROR") {
			lines = append(lines, strings.TrimSpace(line))
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
