package storage

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/psm"
)

// compactor is a log under random use and compaction, beside the history of
// all batches that it ever took, which nobody compacts.
type compactor struct {
	t       *testing.T
	l       *Log
	fs      *crashFs
	dir     string
	runs    int
	now     int64
	cfg     Config
	leader  int32
	stops   []psm.Stop
	history []byte
	// deletes: retention took records, so that the log alone no longer knows
	// all producers.
	deletes, deleted bool
	value            int
}

func (m *compactor) open(o OpenOptions) {
	o.TopicID = topicID
	l, err := Open(m.fs, m.dir, m.cfg, o)
	require.NoError(m.t, err)
	m.l = l
	l.SetHighWatermark(l.Marks().LogEnd)
	m.leader = max(m.leader, l.Marks().Epoch)
}

// took notes what was appended.
func (m *compactor) took(raw []byte) { m.history = append(m.history, raw...) }

func (m *compactor) produce(rt *rapid.T) {
	pid := rapid.Int64Range(-1, 2).Draw(rt, "pid")
	var pairs []kv
	for range rapid.IntRange(1, 3).Draw(rt, "records") {
		m.value++
		p := kv{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "key"), fmt.Sprint("v", m.value)}
		if rapid.IntRange(0, 4).Draw(rt, "tombstone") == 0 {
			p.value = ""
		}
		pairs = append(pairs, p)
	}
	d := plain(1)
	if pid >= 0 {
		d = by(pid, rapid.Int16Range(0, 1).Draw(rt, "epoch"), 0, 1)
		for _, p := range m.l.Producers() {
			if p.ProducerID == pid && p.Epoch == d.epoch {
				d.seq = p.LastSequence + 1
			}
		}
		d.txn = rapid.IntRange(0, 2).Draw(rt, "txn") > 0
	}
	d.time = m.now - rapid.Int64Range(0, 50).Draw(rt, "age")
	raw := d.keyed(rapid.SampledFrom([]int8{0, 0, 0, 1, 2, 3, 4}).Draw(rt, "codec"), pairs...)
	if _, err := m.l.AppendAsLeader(raw, m.leader, client); err == nil {
		m.took(raw)
	}
}

func (m *compactor) end(rt *rapid.T) {
	open := m.l.OpenTransactions()
	if len(open) == 0 {
		return
	}
	o := rapid.SampledFrom(open).Draw(rt, "transaction")
	raw := psm.EndTxnMarker{
		ProducerID: o.ProducerID, ProducerEpoch: o.Epoch + rapid.Int16Range(0, 1).Draw(rt, "bump"),
		CoordinatorEpoch: m.leader, Commit: rapid.Bool().Draw(rt, "commit"), Timestamp: m.now,
	}.Append(nil)
	_, err := m.l.AppendAsLeader(raw, m.leader, coordinator)
	require.NoError(rt, err)
	m.took(raw)
}

// stop ends a mirroring: an own barrier where nothing is open.
func (m *compactor) stop(rt *rapid.T) {
	m.leader++
	m.l.SetHighWatermark(m.l.Marks().LogEnd)
	at, err := m.l.StableCut()
	require.NoError(rt, err)
	if at < m.l.CleanedUpTo() || at == m.l.Marks().LogStart && at > 0 {
		return // or the log's start may lie in a batch, which the cut takes whole
	}
	m.stops = append(psm.CutStops(m.stops, at), psm.Stop{L: at, BarrierOffset: at, Epoch: m.leader, SourceClusterID: source})
	require.NoError(rt, m.l.SetStops(m.stops))
	m.cut(rt, at)
	raw := barrier(source)
	_, err = m.l.AppendAsLeader(raw, m.leader, coordinator)
	require.NoError(rt, err)
	m.took(raw)
}

func (m *compactor) cut(rt *rapid.T, at int64) {
	end, err := m.l.TruncateTo(at)
	require.NoError(rt, err)
	m.stops = m.l.Stops()
	rest := m.history
	for len(rest) > 0 {
		b, err := psm.DecodeBatch(rest)
		require.NoError(rt, err)
		if b.LastOffset >= at {
			break
		}
		rest = rest[b.Size:]
	}
	m.history = m.history[:len(m.history)-len(rest)]
	require.LessOrEqual(rt, m.l.CleanedUpTo(), end)
}

func (m *compactor) truncate(rt *rapid.T) {
	m.l.SetHighWatermark(m.l.Marks().LogEnd)
	m.cut(rt, rapid.Int64Range(max(m.l.CleanedUpTo(), m.l.Marks().LogStart), m.l.Marks().LogEnd).Draw(rt, "offset"))
}

func (m *compactor) options(rt *rapid.T) Compaction {
	c := compactAll()
	c.DeleteRetentionMs = rapid.SampledFrom([]int64{0, 100}).Draw(rt, "delete retention")
	c.MaxKeys = rapid.SampledFrom([]int{0, 0, 1}).Draw(rt, "keys")
	return c
}

func (m *compactor) compact(rt *rapid.T) {
	before := m.l.Marks()
	done, err := m.l.Compact(m.t.Context(), m.options(rt), nil)
	require.NoError(rt, err)
	require.LessOrEqual(rt, done.To, before.LastStable, "nothing above the last stable offset is cleaned")
	require.LessOrEqual(rt, done.To, m.l.active().base, "nor the active segment")
	require.LessOrEqual(rt, done.After, done.Before+200)
}

// killed dies in a compaction, after any change of the file system.
func (m *compactor) killed(rt *rapid.T) {
	m.fs.left = rapid.IntRange(0, 60).Draw(rt, "changes")
	_, _ = m.l.Compact(m.t.Context(), m.options(rt), nil)
	m.crash(rt)
}

// crash dies, and starts again on the files as they are.
func (m *compactor) crash(rt *rapid.T) {
	start := m.l.Marks().LogStart
	require.NoError(rt, m.l.Close(false))
	m.runs++
	target, fsys := fmt.Sprintf("/t-%d", m.runs), &crashFs{Fs: afero.NewMemMapFs(), left: -1}
	copyTree(m.t, m.fs.Fs, m.dir, fsys, target)
	m.fs, m.dir = fsys, target
	m.open(OpenOptions{LogStart: start})
}

func (m *compactor) reopen(rt *rapid.T) {
	start := m.l.Marks().LogStart
	require.NoError(rt, m.l.Close(true))
	m.open(OpenOptions{Clean: true, LogStart: start})
}

func (m *compactor) retain(rt *rapid.T) {
	if !m.deletes {
		return
	}
	_, err := m.l.DeleteRecords(rapid.Int64Range(0, m.l.Marks().LogEnd).Draw(rt, "delete below"))
	require.NoError(rt, err)
	m.deleted = m.deleted || m.l.Marks().LogStart > 0
}

// fate is a record of the history and what became of its transaction.
type fate struct {
	stored
	state string // plain, committed, aborted, open
}

func (m *compactor) fates(rt *rapid.T) map[int64]fate {
	out := map[int64]fate{}
	open := map[int64][]int64{}
	end := func(pid int64, state string) {
		for _, o := range open[pid] {
			f := out[o]
			f.state = state
			out[o] = f
		}
		delete(open, pid)
	}
	for raw := m.history; len(raw) > 0; {
		b, err := psm.DecodeBatch(raw)
		require.NoError(rt, err)
		for _, s := range storedIn(rt, raw[:b.Size]) {
			f := fate{s, "plain"}
			if b.Transactional() {
				f.state = "open"
				open[b.ProducerID] = append(open[b.ProducerID], s.offset)
			}
			out[s.offset] = f
		}
		switch b.Control.Type {
		case psm.ControlAbort:
			end(b.ProducerID, "aborted")
		case psm.ControlCommit:
			end(b.ProducerID, "committed")
		}
		raw = raw[b.Size:]
	}
	return out
}

// filterCommitted is what a read_committed consumer makes of a read of the log
// from an offset on, as clients filter.
func filterCommitted(rt require.TestingT, l *Log, raw []byte, from int64) []stored {
	marks := l.Marks()
	list := l.Aborted(nil, from, marks.LastStable)
	slices.SortStableFunc(list, func(a, b psm.AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	aborted := map[int64]bool{}
	var out []stored
	for len(raw) > 0 {
		b, err := psm.DecodeBatch(raw)
		require.NoError(rt, err)
		whole := raw[:b.Size]
		raw = raw[b.Size:]
		if b.LastOffset < from {
			continue
		}
		if b.LastOffset >= marks.LastStable {
			break
		}
		for len(list) > 0 && list[0].FirstOffset <= b.LastOffset {
			aborted[list[0].ProducerID] = true
			list = list[1:]
		}
		switch {
		case b.Control.Type == psm.ControlAbort:
			delete(aborted, b.ProducerID)
		case b.Transactional() && aborted[b.ProducerID]:
		default:
			for _, s := range storedIn(rt, whole) {
				if s.offset >= from {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

func (m *compactor) check(rt *rapid.T) {
	marks := m.l.Marks()
	raw := content(m.t, m.l)
	fates := m.fates(rt)
	found := map[int64]stored{}
	for _, s := range storedIn(rt, raw) {
		require.Equal(rt, fates[s.offset].stored, s, "record at %d", s.offset)
		found[s.offset] = s
	}
	cleaned := m.l.CleanedUpTo()
	latest := map[string]int64{}
	for o, f := range fates {
		if o < marks.LogStart {
			continue
		}
		if o >= cleaned {
			require.Contains(rt, found, o, "record above what was cleaned")
		}
		if f.state == "plain" || f.state == "committed" {
			if last, ok := latest[f.key]; !ok || last < o {
				latest[f.key] = o
			}
		}
	}
	for key, o := range latest {
		if _, ok := found[o]; ok {
			continue
		}
		require.Empty(rt, fates[o].value, "latest value of %s at %d is gone", key, o)
		for at, s := range found {
			if f := fates[at]; s.key == key && (f.state == "plain" || f.state == "committed") && at >= marks.LogStart {
				rt.Fatalf("%s was deleted at %d, whose tombstone is gone, and is back at %d", key, o, at)
			}
		}
	}
	from := rapid.Int64Range(marks.LogStart, marks.LogEnd).Draw(rt, "read from")
	var want []stored
	for _, o := range slices.Sorted(keysOf(found)) {
		if f := fates[o]; o >= from && o < marks.LastStable && f.state != "aborted" {
			require.NotEqual(rt, "open", f.state)
			want = append(want, found[o])
		}
	}
	require.Equal(rt, want, filterCommitted(rt, m.l, raw, from), "read_committed from %d", from)
	m.checkState(rt, raw)
}

func keysOf[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// checkState compares the log, and one made from nothing but its segments and
// list of stops, with a log that took the whole history.
func (m *compactor) checkState(rt *rapid.T, raw []byte) {
	marks := m.l.Marks()
	var want facts
	if !m.deleted {
		want = replayed(m.t, facts{bytes: string(m.history), marks: marks}, m.stops)
	}
	got := factsOf(m.t, m.l)
	compare := func(what string, got facts) {
		require.Equal(rt, want.open, got.open, what)
		require.Equal(rt, want.marks.LastStable, max(got.marks.LastStable, marks.LogStart), what)
		require.Equal(rt, want.producers, got.producers, what)
		require.Equal(rt, want.barriers, got.barriers, what)
		if n := len(got.epochs); n > 0 && got.epochs[n-1].Offset == marks.LogEnd {
			got.epochs = got.epochs[:n-1]
		}
		require.Equal(rt, want.epochs, got.epochs, what)
	}
	if !m.deleted {
		compare("live", got)
	}
	bare := afero.NewMemMapFs()
	copyTree(m.t, m.fs.Fs, m.dir, bare, "/bare-0")
	for _, n := range names(m.t, place{fs: bare, dir: "/bare-0"}) {
		if !strings.HasSuffix(n, suffixLog) && n != fileStops {
			require.NoError(rt, bare.Remove(filepath.Join("/bare-0", n)))
		}
	}
	cfg := m.cfg
	l, err := Open(bare, "/bare-0", cfg, OpenOptions{TopicID: topicID, LogStart: marks.LogStart})
	require.NoError(rt, err)
	defer func() { require.NoError(rt, l.Close(false)) }()
	l.SetHighWatermark(marks.HighWatermark)
	require.Equal(rt, string(raw), string(content(m.t, l)))
	if !m.deleted {
		compare("from its segments alone", factsOf(m.t, l))
	}
	if l.Marks().LastStable == marks.LastStable {
		// Only a snapshot knows a transaction that began below the log's start.
		require.Equal(rt, filterCommitted(rt, m.l, raw, marks.LogStart), filterCommitted(rt, l, raw, marks.LogStart))
	}
}

func TestCompactionAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &compactor{t: t, fs: &crashFs{Fs: afero.NewMemMapFs(), left: -1}, dir: "/t-0", now: 1_000_000}
		m.deletes = rapid.IntRange(0, 3).Draw(rt, "deletes") == 0
		m.cfg = Config{
			SegmentBytes:  rapid.SampledFrom([]int64{250, 500}).Draw(rt, "segment bytes"),
			IndexInterval: rapid.SampledFrom([]int{1, 200}).Draw(rt, "index interval"),
			Now:           func() time.Time { return time.UnixMilli(m.now) },
		}
		m.open(OpenOptions{})
		defer func() { require.NoError(t, m.l.Close(false)) }()
		rt.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"produce":  m.produce,
			"produce2": m.produce,
			"produce3": m.produce,
			"end":      m.end,
			"end2":     m.end,
			"compact":  m.compact,
			"killed":   m.killed,
			"crash":    m.crash,
			"reopen":   m.reopen,
			"stop":     m.stop,
			"truncate": m.truncate,
			"retain":   m.retain,
			"time":     func(rt *rapid.T) { m.now += rapid.Int64Range(1, 200).Draw(rt, "ms") },
			"epoch":    func(*rapid.T) { m.leader++ },
			"replicated": func(rt *rapid.T) {
				ends := []int64{m.l.Marks().HighWatermark}
				for raw := m.history; len(raw) > 0; {
					b, err := psm.DecodeBatch(raw)
					require.NoError(rt, err)
					if b.LastOffset >= ends[0] {
						ends = append(ends, b.LastOffset+1)
					}
					raw = raw[b.Size:]
				}
				m.l.SetHighWatermark(rapid.SampledFrom(ends).Draw(rt, "high watermark"))
			},
		})
	})
}
