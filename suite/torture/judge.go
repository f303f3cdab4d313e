package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"watershed.example/suite/wirelog"
)

// finding is one thing that must not be.
type finding struct {
	rule string
	text string
}

func (f finding) String() string { return f.rule + ": " + f.text }

// judged is what came of a run.
type judged struct {
	findings []finding
	// info is of the partition that is not linearizable, for the picture.
	info      *porcupine.LinearizationInfo
	records   int
	unknowns  int
	reads     int
	committed int
	aborted   int
}

func (j *judged) say(rule, format string, args ...any) {
	const most = 40
	if len(j.findings) < most {
		j.findings = append(j.findings, finding{rule, fmt.Sprintf(format, args...)})
	}
}

// settle waits until nothing is open and everything is replicated: of each
// partition the last stable offset is the high watermark, and that the end.
// It returns the ends.
func settle(ctx context.Context, cl *client, parts []partition) (map[partition]int64, error) {
	ends := map[partition]int64{}
	for _, p := range parts {
		for {
			high, err := cl.end(ctx, p, false)
			stable := int64(-1)
			if err == nil {
				stable, err = cl.end(ctx, p, true)
			}
			if err == nil && stable == high {
				ends[p] = high
				break
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return nil, fmt.Errorf("%s: wait for the last stable offset (%d) at the high watermark (%d): %w; the last answer: %s", p, stable, high, context.Cause(ctx), fmt.Sprint(err))
			}
		}
	}
	return ends, nil
}

// replicas reads a partition on all nodes, until all hold the same up to an
// offset; the last difference is the finding.
func (c *cluster) replicas(ctx context.Context, p partition, upTo int64) ([]wirelog.Batch, error) {
	for {
		all := make([][]wirelog.Batch, c.size)
		var err error
		for id := range c.size {
			files, ferr := c.log(id, p)
			if ferr == nil {
				all[id], ferr = batchesOf(files)
			}
			if ferr != nil {
				err = errors.Join(err, fmt.Errorf("%s on node %d: %w", p, id, ferr))
			}
		}
		if err == nil {
			err = sameBytes(p, all, upTo)
		}
		if err == nil {
			return slices.DeleteFunc(all[0], func(b wirelog.Batch) bool { return b.BaseOffset >= upTo }), nil
		}
		select {
		case <-time.After(20 * time.Millisecond): // a segment may just be written to
		case <-ctx.Done():
			return nil, err
		}
	}
}

// judge compares what clients were told with the logs that are left.
func judge(h *history, logs map[partition][]entry, within time.Duration) *judged {
	j := &judged{}
	for p, log := range logs {
		j.partition(h, p, log)
	}
	j.transactions(h, logs)
	j.producers(h, logs)
	if len(j.findings) > 0 {
		// Said more plainly than by a search that fails.
		within = min(within, 10*time.Second)
	}
	for p, log := range logs {
		result, info := linearizable(h, p, log, within)
		if result == porcupine.Ok {
			continue
		}
		j.say("LINEARIZABLE", "%s: porcupine says %s", p, result)
		if j.info == nil {
			j.info = &info
		}
	}
	return j
}

// partition looks at each append by itself: SC-1, and what is lost or doubled.
func (j *judged) partition(h *history, p partition, log []entry) {
	at := map[string]int64{}
	for i, e := range log {
		if e.Offset != int64(i) {
			j.say("LOG", "%s: offset %d follows %d", p, e.Offset, i-1)
			return
		}
		if first, twice := at[e.Text]; twice {
			j.say("DOUBLED", "%s: %q lies at offset %d and again at %d", p, e.Text, first, e.Offset)
		}
		at[e.Text] = e.Offset
	}
	for _, o := range h.Operations {
		if o.Partition != p {
			continue
		}
		if o.Kind == "read" {
			j.reads++
			for _, e := range o.Entries {
				if e.Offset >= int64(len(log)) || log[e.Offset].Text != e.Text {
					j.say("LOST", "%s: operation %d of %s read %q at offset %d, which is not there in the end", p, o.ID, o.Name, e.Text, e.Offset)
				}
			}
			continue
		}
		if o.Kind != "append" {
			continue
		}
		for i, r := range o.Records {
			offset, there := at[r]
			switch {
			case o.Outcome == acknowledged && !there:
				j.say("LOST", "%s: %q, acknowledged at offset %d to %s (operation %d), is not there", p, r, o.Offset+int64(i), o.Name, o.ID)
			case o.Outcome == acknowledged && o.Offset >= 0 && offset != o.Offset+int64(i):
				j.say("MOVED", "%s: %q was acknowledged at offset %d to %s (operation %d), and lies at %d", p, r, o.Offset+int64(i), o.Name, o.ID, offset)
			case o.Outcome == refused && there:
				j.say("REFUSED", "%s: %q was refused to %s (operation %d: %s), and lies at offset %d", p, r, o.Name, o.ID, o.Error, offset)
			}
		}
		switch o.Outcome {
		case acknowledged:
			j.records += len(o.Records)
		case refused:
		default:
			j.unknowns++
		}
	}
}

// What became of a transaction's record.
const (
	open      = "open"
	committed = "committed"
	aborted   = "aborted"
)

// fates says what became of each record of a transaction.
func fates(log []entry) map[string]string {
	out := map[string]string{}
	pending := map[int64][]string{}
	for _, e := range log {
		switch {
		case e.marker:
			fate := aborted
			if e.commit {
				fate = committed
			}
			for _, name := range pending[e.producer] {
				out[name] = fate
			}
			delete(pending, e.producer)
		case e.transactional:
			out[e.Text] = open
			pending[e.producer] = append(pending[e.producer], e.Text)
		}
	}
	return out
}

// transactions: committed whole, aborted whole, none left open.
func (j *judged) transactions(h *history, logs map[partition][]entry) {
	fate := map[partition]map[string]string{}
	for p, log := range logs {
		fate[p] = fates(log)
	}
	type ending struct {
		asked   bool // an end was asked for
		commit  bool
		outcome string
	}
	ends := map[string]ending{}
	for _, o := range h.Operations {
		if o.Kind == "end" {
			ends[o.Transaction] = ending{true, o.Commit, o.Outcome}
		}
	}
	found := map[string]map[string]string{} // by transaction and fate: an example
	for _, o := range h.Operations {
		if o.Kind != "append" || o.Transaction == "" {
			continue
		}
		for _, r := range o.Records {
			f, there := fate[o.Partition][r]
			if !there {
				continue // judged with its partition
			}
			if found[o.Transaction] == nil {
				found[o.Transaction] = map[string]string{}
			}
			found[o.Transaction][f] = fmt.Sprintf("%q in %s", r, o.Partition)
		}
	}
	for name, by := range found {
		end := ends[name]
		if e, ok := by[open]; ok {
			j.say("HANGING", "transaction %s is open in the end: %s", name, e)
		}
		c, isCommitted := by[committed]
		a, isAborted := by[aborted]
		switch {
		case isCommitted && isAborted:
			j.say("ATOMIC", "transaction %s is committed in part (%s) and aborted in part (%s); its end: %+v", name, c, a, end)
		case isCommitted && (!end.asked || !end.commit || end.outcome == refused):
			j.say("ABORTED", "transaction %s is committed (%s); its end: %+v", name, c, end)
		case isAborted && end.commit && end.outcome == acknowledged:
			j.say("COMMITTED", "transaction %s is aborted (%s), and its commit was acknowledged", name, a)
		case isCommitted:
			j.committed++
		case isAborted:
			j.aborted++
		}
	}
}

// producers: an id is one producer's, over all brokers and restarts (SC-8).
func (j *judged) producers(h *history, logs map[partition][]entry) {
	type owner struct{ name, txn string } // of a transactional id no matter whose
	of := map[int64]owner{}
	given := map[int64][]*operation{}
	for _, o := range h.Operations {
		if o.Kind != "init" || o.Outcome != acknowledged {
			continue
		}
		me := owner{o.Name, ""}
		if o.Transaction != "" {
			me = owner{"", o.Transaction}
		}
		before, known := of[o.Producer]
		switch {
		case known && (before != me || o.Transaction == ""):
			j.say("PRODUCER-ID", "id %d was given to %+v and then to %+v (operation %d)", o.Producer, before, me, o.ID)
		default:
			for _, e := range given[o.Producer] {
				// Of two at the same time either may be the first.
				if e.Epoch == o.Epoch || e.Return < o.Call && e.Epoch > o.Epoch {
					j.say("PRODUCER-ID", "id %d of %+v had epoch %d (operation %d), and then %d (operation %d)", o.Producer, me, e.Epoch, e.ID, o.Epoch, o.ID)
				}
			}
		}
		of[o.Producer] = me
		given[o.Producer] = append(given[o.Producer], o)
	}
	group := map[string]string{} // transactional ids, by writer
	for _, o := range h.Operations {
		if o.Kind == "append" && o.Transaction != "" {
			writer, _, _ := strings.Cut(o.Records[0], "-")
			group[writer], _, _ = strings.Cut(o.Transaction, "/")
		}
	}
	writers := map[int64]string{}
	for p, log := range logs {
		for _, e := range log {
			if e.marker || e.producer < 0 {
				continue
			}
			name, _, _ := strings.Cut(e.Text, "-")
			name = cmp.Or(group[name], name)
			if other, ok := writers[e.producer]; ok && other != name {
				j.say("PRODUCER-ID", "id %d wrote %q in %s, and records of %s", e.producer, e.Text, p, other)
			}
			writers[e.producer] = name
		}
	}
}

// visible judges a read_committed reader: all committed records and those
// outside of transactions, in their order, and no others.
func visible(log []entry, read []string) error {
	fate := fates(log)
	var want []string
	for _, e := range log {
		if !e.marker && (!e.transactional || fate[e.Text] == committed) {
			want = append(want, e.Text)
		}
	}
	for i := range max(len(want), len(read)) {
		switch {
		case i >= len(read):
			return fmt.Errorf("record %d, %q, is not shown", i, want[i])
		case i >= len(want):
			return fmt.Errorf("%q is shown behind all that is committed", read[i])
		case want[i] != read[i]:
			return fmt.Errorf("%q is shown where %q belongs", read[i], want[i])
		}
	}
	return nil
}

// readCommitted reads a partition as a consumer does that sees what is
// committed only: the broker lists what was aborted (KIP-98).
func readCommitted(ctx context.Context, cl *client, p partition, end int64) ([]string, error) {
	var out []string
	for at := int64(0); at < end; {
		got, err := cl.fetch(ctx, p, at, true, 64<<10)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read %d of %d records of %s: %w", at, end, p, context.Cause(ctx))
		}
		if err != nil || got.code != 0 || len(got.raw) == 0 {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		slices.SortFunc(got.aborted, func(a, b abortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
		entries, err := entriesOf(got.raw, at)
		if err != nil {
			return nil, err
		}
		gone := map[int64]bool{}
		for _, e := range entries {
			for len(got.aborted) > 0 && got.aborted[0].FirstOffset <= e.Offset {
				gone[got.aborted[0].ProducerID] = true
				got.aborted = got.aborted[1:]
			}
			switch {
			case e.marker:
				delete(gone, e.producer)
			case !e.transactional || !gone[e.producer]:
				out = append(out, e.Text)
			}
			at = e.Offset + 1
		}
	}
	return out, nil
}
