package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/suite/wirelog"
)

var p0, p1 = partition{"t", 0}, partition{"t", 1}

// told is a history in the making.
type told struct{ history }

// append is an append that returns before the next operation is invoked.
func (h *told) append(p partition, outcome string, offset int64, txn string, names ...string) {
	o := h.call(operation{Client: 1, Name: "writer", Kind: "append", Partition: p, Records: names, Offset: -1, Transaction: txn})
	h.returned(o, outcome, func(o *operation) { o.Offset = offset })
}

func (h *told) end(txn string, commit bool, outcome string) {
	o := h.call(operation{Client: 1, Kind: "end", Transaction: txn, Commit: commit})
	h.returned(o, outcome, nil)
}

func (h *told) read(p partition, from int64, names ...string) {
	o := h.call(operation{Client: 2, Name: "reader", Kind: "read", Partition: p, Offset: from})
	h.returned(o, acknowledged, func(o *operation) {
		for i, n := range names {
			o.Entries = append(o.Entries, entry{Offset: from + int64(i), Text: n})
		}
	})
}

func (h *told) init(name, txn string, id int64, epoch int16) {
	o := h.call(operation{Name: name, Kind: "init", Transaction: txn})
	h.returned(o, acknowledged, func(o *operation) { o.Producer, o.Epoch = id, epoch })
}

// logOf has the entries one after the other: "a" is a record, "x@7" one of
// producer 7's transaction, "!commit 7" and "!abort 7" are its markers.
func logOf(texts ...string) []entry {
	var out []entry
	for i, t := range texts {
		e := entry{Offset: int64(i), Text: t, producer: -1}
		if name, id, ok := strings.Cut(t, "@"); ok {
			e.Text, e.transactional = name, true
			_, _ = fmt.Sscan(id, &e.producer)
		}
		if kind, ok := strings.CutPrefix(t, "!"); ok {
			e.marker, e.commit = true, strings.HasPrefix(kind, "commit")
			_, _ = fmt.Sscan(strings.Fields(kind)[1], &e.producer)
			e.Text = fmt.Sprintf("%s at %d", t, i)
		}
		out = append(out, e)
	}
	return out
}

func TestWhatTheJudgeFinds(t *testing.T) {
	for _, c := range []struct {
		name string
		tell func(*told)
		logs map[partition][]entry
		want string // the rules, each once, in their order; "" for nothing
	}{
		{"nothing wrong", func(h *told) {
			h.append(p0, acknowledged, 0, "", "a", "b")
			h.read(p0, 1, "b")
			h.append(p0, unknown, -1, "", "c")
			h.append(p0, unknown, -1, "", "never")
			h.append(p0, acknowledged, 2, "", "d")
			h.append(p0, refused, -1, "", "e")
			h.append(p0, acknowledged, -1, "", "f")
			h.read(p0, 0, "a")
		}, map[partition][]entry{p0: logOf("a", "b", "d", "c", "f")}, ""},
		{"an acknowledged record is gone", func(h *told) {
			h.append(p0, acknowledged, 0, "", "a")
			h.append(p0, acknowledged, 1, "", "b")
		}, map[partition][]entry{p0: logOf("a")}, "LOST LINEARIZABLE"},
		{"another lies there", func(h *told) {
			h.append(p0, acknowledged, 0, "", "a")
			h.append(p0, acknowledged, 1, "", "b")
		}, map[partition][]entry{p0: logOf("b", "a")}, "MOVED LINEARIZABLE"},
		{"a record lies there twice", func(h *told) {
			h.append(p0, acknowledged, 0, "", "a")
		}, map[partition][]entry{p0: logOf("a", "a")}, "DOUBLED MOVED LINEARIZABLE"},
		{"what was read is gone", func(h *told) {
			h.append(p0, unknown, -1, "", "a")
			h.read(p0, 0, "a")
		}, map[partition][]entry{p0: logOf()}, "LOST LINEARIZABLE"},
		{"a refused record is there", func(h *told) {
			h.append(p0, refused, -1, "", "a")
		}, map[partition][]entry{p0: logOf("a")}, "REFUSED LINEARIZABLE"},
		{"a later append lies before an earlier one", func(h *told) {
			h.append(p0, acknowledged, 1, "", "first")
			h.append(p0, acknowledged, 0, "", "second")
		}, map[partition][]entry{p0: logOf("second", "first")}, "LINEARIZABLE"},
		{"read before it was written", func(h *told) {
			h.read(p0, 0, "a")
			h.append(p0, acknowledged, 0, "", "a")
		}, map[partition][]entry{p0: logOf("a")}, "LINEARIZABLE"},
		{"transactions as they should be", func(h *told) {
			h.append(p0, acknowledged, 0, "t/1", "a")
			h.append(p1, acknowledged, 0, "t/1", "b")
			h.end("t/1", true, acknowledged)
			h.append(p0, acknowledged, 2, "t/2", "c")
			h.append(p1, unknown, -1, "t/2", "d")
			h.append(p0, acknowledged, 4, "t/3", "e")
			h.end("t/3", true, unknown)
		}, map[partition][]entry{p0: logOf("a@7", "!commit 7", "c@7", "!abort 7", "e@7", "!commit 7"), p1: logOf("b@7", "!commit 7", "d@7", "!abort 7")}, ""},
		{"committed in part", func(h *told) {
			h.append(p0, acknowledged, 0, "t/1", "a")
			h.append(p1, acknowledged, 0, "t/1", "b")
			h.end("t/1", true, unknown)
		}, map[partition][]entry{p0: logOf("a@7", "!commit 7"), p1: logOf("b@7", "!abort 7")}, "ATOMIC"},
		{"a commit that was acknowledged is an abort", func(h *told) {
			h.append(p0, acknowledged, 0, "t/1", "a")
			h.end("t/1", true, acknowledged)
		}, map[partition][]entry{p0: logOf("a@7", "!abort 7")}, "COMMITTED"},
		{"an abort is a commit", func(h *told) {
			h.append(p0, acknowledged, 0, "t/1", "a")
			h.end("t/1", false, acknowledged)
		}, map[partition][]entry{p0: logOf("a@7", "!commit 7")}, "ABORTED"},
		{"committed, and nobody asked", func(h *told) {
			h.append(p0, acknowledged, 0, "t/1", "a")
		}, map[partition][]entry{p0: logOf("a@7", "!commit 7")}, "ABORTED"},
		{"open in the end", func(h *told) {
			h.append(p0, acknowledged, 0, "t/1", "a")
		}, map[partition][]entry{p0: logOf("a@7")}, "HANGING"},
		{"a producer id for two", func(h *told) {
			h.init("x", "", 5, 0)
			h.init("y", "", 5, 0)
		}, nil, "PRODUCER-ID"},
		{"a producer id for a transactional id and somebody", func(h *told) {
			h.init("x", "tx1", 5, 0)
			h.init("x", "", 5, 0)
		}, nil, "PRODUCER-ID"},
		{"a producer epoch again", func(h *told) {
			h.init("x", "tx1", 5, 3)
			h.init("x", "tx1", 5, 3)
		}, nil, "PRODUCER-ID"},
		{"a producer epoch falls", func(h *told) {
			h.init("x", "tx1", 5, 3)
			h.init("y", "tx1", 5, 2)
		}, nil, "PRODUCER-ID"},
		{"two at a time", func(h *told) {
			a := h.call(operation{Name: "x", Kind: "init", Transaction: "tx1"})
			h.init("y", "tx1", 5, 0)
			h.returned(a, acknowledged, func(o *operation) { o.Producer, o.Epoch = 5, 1 })
			h.init("y", "tx1", 5, 2)
		}, nil, ""},
		{"zombies have epochs of their own", func(h *told) {
			h.init("x", "tx1", 5, 3)
			h.init("y", "tx1", 5, 4)
		}, nil, ""},
		{"a gap", func(*told) {}, map[partition][]entry{p0: {{Offset: 1, Text: "a"}}}, "LOG LINEARIZABLE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &told{}
			c.tell(h)
			j := judge(&h.history, c.logs, time.Minute)
			var got []string
			for _, f := range j.findings {
				if len(got) == 0 || got[len(got)-1] != f.rule {
					got = append(got, f.rule)
				}
			}
			require.Equal(t, c.want, strings.Join(got, " "), "%v", j.findings)
			dir := t.TempDir()
			r := &report{judged: j, history: &h.history}
			require.NoError(t, r.save(dir, []byte("told")))
			_, err := os.Stat(filepath.Join(dir, "linearizability.html"))
			require.Equal(t, strings.Contains(c.want, "LINEARIZABLE"), err == nil)
		})
	}
}

// What porcupine can't decide in time is no pass.
func TestAnUnknownVerdictFails(t *testing.T) {
	h := &told{}
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprint("r", i))
		h.append(p0, acknowledged, int64(i), "", names[i])
	}
	j := judge(&h.history, map[partition][]entry{p0: logOf(names...)}, time.Nanosecond)
	require.Len(t, j.findings, 1)
	require.Contains(t, j.findings[0].text, "Unknown")
}

func TestWhatAReaderOfTheCommittedSees(t *testing.T) {
	log := logOf("plain", "a@7", "b@8", "!commit 7", "c@8", "!abort 8", "d@7", "!commit 7")
	require.NoError(t, visible(log, []string{"plain", "a", "d"}))
	require.ErrorContains(t, visible(log, []string{"plain", "a", "b", "d"}), `"b" is shown where "d" belongs`)
	require.ErrorContains(t, visible(log, []string{"plain", "a"}), `"d", is not shown`)
	require.ErrorContains(t, visible(log, []string{"plain", "a", "d", "c"}), `"c" is shown behind`)
}

func TestTheFirstDifferenceOfReplicas(t *testing.T) {
	batch := func(offset int64, epoch int32, name string) wirelog.Batch {
		b, err := wirelog.ParseBatch(encode([]string{name}, nobody, false, 3, 1))
		require.NoError(t, err)
		b.BaseOffset, b.LeaderEpoch = offset, epoch
		return b
	}
	a := []wirelog.Batch{batch(0, 1, "a"), batch(1, 1, "b"), batch(2, 1, "c")}
	require.NoError(t, sameBytes(p0, [][]wirelog.Batch{a, a, a}, 3))
	require.NoError(t, sameBytes(p0, [][]wirelog.Batch{a, a[1:], a[:2]}, 2), "another start, and behind the high watermark")
	require.ErrorContains(t, sameBytes(p0, [][]wirelog.Batch{a, a, a[:2]}, 3), "node 0 has a batch that node 2 lacks: [2, 2]")
	require.ErrorContains(t, sameBytes(p0, [][]wirelog.Batch{a[:2], a, a}, 3), "node 1 has a batch that node 0 lacks")
	other := []wirelog.Batch{a[0], batch(1, 1, "B"), a[2]}
	require.ErrorContains(t, sameBytes(p0, [][]wirelog.Batch{a, other, a}, 3), "nodes 0 and 1 differ at offset 1, byte ")
}

// A loss of power takes what was not synced, in whole or in part, and nothing
// else.
func TestALossOfPower(t *testing.T) {
	d := newDisk()
	v := d.view()
	f, err := v.Create("/log")
	require.NoError(t, err)
	for _, s := range []string{"synced", "-not"} {
		_, err := f.Write([]byte(s))
		require.NoError(t, err)
		if s == "synced" {
			require.NoError(t, f.Sync())
		}
	}
	require.NoError(t, v.Rename("/log", "/moved"))
	lost := false
	for seed := range uint64(20) {
		c := &disk{base: afero.NewMemMapFs(), synced: map[string]int64{"/moved": d.synced["/moved"]}}
		raw, err := afero.ReadFile(d.base, "/moved")
		require.NoError(t, err)
		require.NoError(t, afero.WriteFile(c.base, "/moved", raw, 0o600))
		require.NoError(t, c.losePower(rand.New(rand.NewPCG(seed, 0))))
		left, err := afero.ReadFile(c.base, "/moved")
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(left), "synced"), "%q", left)
		lost = lost || string(left) != "synced-not"
	}
	require.True(t, lost)

	v.crashAfter(2, 0.5, func() {})
	g, err := v.OpenFile("/moved", os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = g.WriteAt([]byte("SYNCED"), 0)
	require.NoError(t, err)
	_, err = g.WriteAt([]byte("1234"), 0)
	require.ErrorIs(t, err, errCrashed)
	_, err = v.Create("/more")
	require.ErrorIs(t, err, errCrashed)
	raw, err := afero.ReadFile(d.base, "/moved")
	require.NoError(t, err)
	require.Equal(t, "12NCED-not", string(raw), "the last write is torn")
}
