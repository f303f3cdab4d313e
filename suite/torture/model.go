package torture

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// cell is the state of the model: a log, by its last entry. Logs share what
// they have in common, so that a step is cheap. nil is the empty log.
type cell struct {
	before *cell
	length int64
	text   string
	hash   uint64 // of all entries
}

func (c *cell) len() int64 {
	if c == nil {
		return 0
	}
	return c.length
}

func (c *cell) append(text string) *cell {
	h := fnv.New64a()
	var sum [8]byte
	if c != nil {
		for i := range sum {
			sum[i] = byte(c.hash >> (8 * i))
		}
	}
	_, _ = h.Write(sum[:])
	_, _ = io.WriteString(h, text)
	return &cell{before: c, length: c.len() + 1, text: text, hash: h.Sum64()}
}

// holds says whether the log has these entries, one after the other from offset
// on. It may have more.
func (c *cell) holds(offset int64, entries []string) bool {
	end := offset + int64(len(entries))
	if offset < 0 || end > c.len() {
		return false
	}
	for c.len() > end {
		c = c.before
	}
	for _, want := range slices.Backward(entries) {
		if c.text != want {
			return false
		}
		c = c.before
	}
	return true
}

// input is an operation for the model; what it gave is known with it, since all
// that is not known was left out or resolved before.
type input struct {
	read    bool
	whole   bool // the read saw all that there was
	offset  int64
	entries []string
	name    string
}

// appendOnlyLog is what a partition has to look like: an append lies at the
// log's end, and its offset is told; a read sees what lies there. A read need
// not see the whole log: Kafka lets a leader that does not know of its
// successor, and a new one whose high watermark is still low, answer with less.
// What was read once has to stay, though.
func appendOnlyLog() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return (*cell)(nil) },
		Step: func(state, in, _ any) (bool, any) {
			log, o := state.(*cell), in.(*input)
			if o.read && o.whole && log.len() != int64(len(o.entries)) {
				return false, log
			}
			if o.read {
				return log.holds(o.offset, o.entries), log
			}
			if log.len() != o.offset {
				return false, log
			}
			for _, text := range o.entries {
				log = log.append(text)
			}
			return true, log
		},
		Equal: func(a, b any) bool {
			x, y := a.(*cell), b.(*cell)
			return x == y || x != nil && y != nil && x.length == y.length && x.hash == y.hash
		},
		DescribeOperation: func(in, _ any) string {
			o := in.(*input)
			shown := strings.Join(o.entries[:min(len(o.entries), 4)], " ")
			if n := len(o.entries); n > 4 {
				shown += fmt.Sprintf(" … (%d)", n)
			}
			kind := "append"
			if o.read {
				kind = "read"
			}
			return fmt.Sprintf("%s: %s [%s] at %d", o.name, kind, shown, o.offset)
		},
		DescribeState: func(state any) string {
			log := state.(*cell)
			if log == nil {
				return "empty"
			}
			return fmt.Sprintf("%d entries, the last %q", log.length, log.text)
		},
	}
}

// linearizable judges one partition: what clients did to it, and the log that
// was left in the end, which begins at offset 0. Whether an append whose outcome
// is unknown took effect shows there, and where: nothing is ever taken away. So
// does a transaction marker, which its coordinator appends at some time after
// the transaction's last record. An unknown append that is not in the log may
// take effect later, which is after all that is judged here, or never.
func linearizable(h *history, p partition, final []entry, within time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	at := map[string]int64{}
	texts := make([]string, len(final))
	for i, e := range final {
		at[e.Text], texts[i] = e.Offset, e.Text
	}
	end, never := h.clock+1, h.clock+2
	called := map[string]int64{} // when a record was first sent
	var ops []porcupine.Operation
	for _, o := range h.Operations {
		if o.Partition != p || o.Kind != "append" && o.Kind != "read" || o.Outcome == refused {
			continue
		}
		in := &input{offset: o.Offset, name: o.Name, entries: o.Records}
		op := porcupine.Operation{ClientId: o.Client, Input: in, Call: o.Call, Return: o.Return}
		if o.Kind == "read" {
			in.read = true
			in.entries = textsOf(o.Entries)
			ops = append(ops, op)
			continue
		}
		offset, there := at[o.Records[0]]
		if o.Outcome != acknowledged {
			if !there {
				continue
			}
			op.Return, in.offset = never, offset
		}
		if in.offset < 0 { // acknowledged, and not told where
			in.offset = offset
		}
		for _, r := range o.Records {
			called[r] = o.Call
		}
		ops = append(ops, op)
	}
	latest := map[int64]int64{} // by producer: when its latest record was sent
	for _, e := range final {
		if !e.marker {
			latest[e.producer] = max(latest[e.producer], called[e.Text])
			continue
		}
		ops = append(ops, porcupine.Operation{
			ClientId: 0, Input: &input{offset: e.Offset, entries: []string{e.Text}, name: "coordinator"},
			Call: latest[e.producer], Return: never,
		})
	}
	ops = append(ops, porcupine.Operation{ClientId: 0, Input: &input{read: true, whole: true, entries: texts, name: "the end"}, Call: end, Return: end})
	return porcupine.CheckOperationsVerbose(appendOnlyLog(), ops, within)
}

func textsOf(entries []entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Text
	}
	return out
}
