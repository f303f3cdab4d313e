package storage

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/psm"
)

// machine is a log under random use. What it says must at all times be what a
// replay of its bytes gives.
type machine struct {
	t      *testing.T
	l      *Log
	fs     afero.Fs
	dir    string
	runs   int
	leader int32
	stops  []psm.Stop
	cfg    Config
}

func newMachine(t *testing.T, cfg Config) *machine {
	m := &machine{t: t, fs: afero.NewMemMapFs(), dir: "/t-0", cfg: cfg}
	m.open(OpenOptions{})
	return m
}

func (m *machine) open(o OpenOptions) {
	o.TopicID = topicID
	l, err := Open(m.fs, m.dir, m.cfg, o)
	require.NoError(m.t, err)
	m.l = l
	l.SetHighWatermark(l.Marks().LogEnd)
	m.stops = l.Stops()
	m.leader = max(m.leader, l.Marks().Epoch)
}

func (m *machine) check(rt *rapid.T) {
	f := factsOf(m.t, m.l)
	require.Equal(rt, replayed(m.t, f, m.stops), f)
}

func (m *machine) batch(rt *rapid.T) {
	pid := rapid.Int64Range(-1, 3).Draw(rt, "pid")
	n := rapid.IntRange(1, 4).Draw(rt, "records")
	d := plain(n)
	if pid >= 0 {
		d = by(pid, rapid.Int16Range(0, 2).Draw(rt, "epoch"), 0, n)
		for _, p := range m.l.Producers() {
			if p.ProducerID == pid && p.Epoch == d.epoch {
				d.seq = p.LastSequence + 1
			}
		}
		d.txn = rapid.Bool().Draw(rt, "txn")
	}
	d.size = rapid.IntRange(0, 60).Draw(rt, "size")
	d.time = rapid.Int64Range(0, 2000).Draw(rt, "time")
	_, _ = m.l.AppendAsLeader(d.build(), m.leader, client)
}

func (m *machine) marker(rt *rapid.T) {
	open := m.l.OpenTransactions()
	if len(open) == 0 {
		return
	}
	o := rapid.SampledFrom(open).Draw(rt, "transaction")
	_, err := m.l.AppendAsLeader(marker(o.ProducerID, o.Epoch, rapid.Bool().Draw(rt, "commit")), m.leader, coordinator)
	require.NoError(rt, err)
}

// chunk appends several batches as a follower does, with gaps.
func (m *machine) chunk(rt *rapid.T) {
	var raw []byte
	next := m.l.Marks().LogEnd
	for range rapid.IntRange(1, 3).Draw(rt, "batches") {
		next += rapid.Int64Range(0, 2).Draw(rt, "gap")
		if rapid.IntRange(0, 4).Draw(rt, "kind") == 0 {
			b := barrier(source)
			psm.SetOffsets(b, next, m.leader)
			raw, next = append(raw, b...), next+1
			continue
		}
		n := rapid.IntRange(1, 4).Draw(rt, "records")
		d := by(rapid.Int64Range(0, 3).Draw(rt, "pid"), 0, rapid.Int32Range(0, 9).Draw(rt, "sequence"), n).at(next, m.leader)
		d.txn = rapid.Bool().Draw(rt, "txn")
		raw, next = append(raw, d.build()...), next+int64(n)
	}
	_, _ = m.l.AppendAsFollower(raw)
}

// stop cuts to the last stable offset and writes an own barrier there.
func (m *machine) stop(rt *rapid.T) {
	m.leader++
	m.l.SetHighWatermark(m.l.Marks().LogEnd)
	at, err := m.l.StableCut()
	require.NoError(rt, err)
	require.LessOrEqual(rt, at, m.l.Marks().LastStable)
	s := psm.Stop{L: at, BarrierOffset: at, Epoch: m.leader, SourceClusterID: source}
	stops := append(slices.DeleteFunc(slices.Clone(m.stops), func(s psm.Stop) bool { return s.BarrierOffset >= at }), s)
	require.NoError(rt, m.l.SetStops(stops))
	_, err = m.l.TruncateTo(at)
	require.NoError(rt, err)
	require.Equal(rt, stops, m.l.Stops())
	_, err = m.l.AppendAsLeader(barrier(source), m.leader, coordinator)
	require.NoError(rt, err)
	m.stops = stops
	require.Empty(rt, m.l.Producers())
}

func (m *machine) truncate(rt *rapid.T) {
	// A snapshot does not hold which transactions ended above the high
	// watermark, as in Kafka: so none did.
	m.l.SetHighWatermark(m.l.Marks().LogEnd)
	_, err := m.l.TruncateTo(rapid.Int64Range(0, m.l.Marks().LogEnd).Draw(rt, "offset"))
	require.NoError(rt, err)
	m.stops = m.l.Stops()
}

func (m *machine) reopen(rt *rapid.T) {
	f := factsOf(m.t, m.l)
	require.NoError(rt, m.l.Close(true))
	m.open(OpenOptions{Clean: true})
	f.marks.HighWatermark, f.marks.LastStable = m.l.Marks().HighWatermark, m.l.Marks().LastStable
	if n := len(f.epochs); n > 0 && f.epochs[n-1].Offset == f.marks.LogEnd {
		f.epochs = f.epochs[:n-1]
	}
	require.Equal(rt, f, factsOf(m.t, m.l))
}

// crash kills the log and loses what was not synced: a tail of the newest
// log file from any byte on, and any index or snapshot.
func (m *machine) crash(rt *rapid.T) {
	before := content(m.t, m.l)
	point := m.l.RecoveryPoint()
	last := m.l.active()
	require.NoError(rt, m.l.Close(false))
	m.runs++
	target := fmt.Sprintf("/t-%d", m.runs)
	fsys := afero.NewMemMapFs()
	copyTree(m.t, m.fs, m.dir, fsys, target)
	lost := int64(0)
	if last.size > 0 && point <= last.base {
		lost = rapid.Int64Range(0, last.size).Draw(rt, "lost bytes")
	}
	name := fileName(target, last.base, suffixLog)
	raw, err := afero.ReadFile(fsys, name)
	require.NoError(rt, err)
	raw = raw[:int64(len(raw))-lost]
	if rapid.Bool().Draw(rt, "garbage") {
		raw = append(raw, rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(rt, "tail")...)
	}
	require.NoError(rt, afero.WriteFile(fsys, name, raw, 0o644))
	names, err := folderNames(fsys, target)
	require.NoError(rt, err)
	slices.Sort(names)
	for _, n := range names {
		old := strings.HasSuffix(n, suffixIndex) || strings.HasSuffix(n, suffixTimeIndex) || strings.HasSuffix(n, suffixSnapshot)
		if old && rapid.IntRange(0, 3).Draw(rt, "lose "+n) == 0 {
			require.NoError(rt, fsys.Remove(filepath.Join(target, n)))
		}
	}
	if list, err := afero.ReadFile(fsys, filepath.Join(target, fileStops)); err == nil && rapid.Bool().Draw(rt, "torn list") {
		// A line was on its way.
		line, err := encodeStops(barrierLists{cutEpoch: 99})
		require.NoError(rt, err)
		torn := line[:rapid.IntRange(1, len(line)-1).Draw(rt, "of the line")]
		if rapid.Bool().Draw(rt, "zeros") {
			clear(torn)
		}
		require.NoError(rt, afero.WriteFile(fsys, filepath.Join(target, fileStops), append(list, torn...), 0o644))
	}
	m.fs, m.dir = fsys, target
	stops := m.stops
	m.open(OpenOptions{RecoveryPoint: point})
	require.True(rt, slices.Equal(stops, m.l.Stops()), "stops are synced before they are needed")
	after := content(m.t, m.l)
	require.Equal(rt, string(before[:len(after)]), string(after), "a prefix")
	if lost == 0 {
		require.Len(rt, after, len(before), "nothing was lost")
	} else {
		require.GreaterOrEqual(rt, int64(len(after)), int64(len(before))-lost-int64(biggest(m.t, before)), "only whole batches")
	}
	if n := len(stops); n > 0 && stops[n-1].BarrierOffset >= m.l.Marks().LogEnd {
		// The barrier is lost: nothing else happens to the log before the stop
		// is made again.
		m.stop(rt)
	}
}

func biggest(t *testing.T, raw []byte) int {
	size := 0
	for len(raw) > 0 {
		b, err := psm.DecodeHeader(raw)
		require.NoError(t, err)
		size = max(size, b.Size)
		raw = raw[b.Size:]
	}
	return size
}

func TestRandomUseAndCrashes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(t, Config{
			SegmentBytes:  rapid.SampledFrom([]int64{300, 900, 1 << 20}).Draw(rt, "segment bytes"),
			IndexInterval: rapid.SampledFrom([]int{1, 200}).Draw(rt, "index interval"),
			Now:           now,
		})
		defer func() { require.NoError(t, m.l.Close(false)) }()
		rt.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"batch":    m.batch,
			"batch2":   m.batch,
			"marker":   m.marker,
			"chunk":    m.chunk,
			"stop":     m.stop,
			"truncate": m.truncate,
			"reopen":   m.reopen,
			"crash":    m.crash,
			"replicated": func(rt *rapid.T) {
				hw := m.l.Marks()
				m.l.SetHighWatermark(rapid.Int64Range(hw.HighWatermark, hw.LogEnd).Draw(rt, "high watermark"))
			},
			"epoch": func(*rapid.T) { m.leader++ },
		})
	})
}

// Damage in an older segment cuts the log there and takes the later segments,
// if it lies above the recovery point; below it nothing is looked at.
func TestDamageInAnOlderSegment(t *testing.T) {
	for _, c := range []struct{ point, want int64 }{{0, 1}, {2, 1}, {3, 6}} {
		l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, Config{SegmentBytes: 250, Now: now}, OpenOptions{})
		for i := range int32(6) {
			lead(t, l, by(1, 0, i, 1).build(), client)
		}
		require.Len(t, l.segments, 2)
		require.EqualValues(t, 3, l.active().base)
		require.NoError(t, l.Close(false))
		name := fileName("/t-0", 0, suffixLog)
		raw, err := afero.ReadFile(l.fs, name)
		require.NoError(t, err)
		raw[len(raw)/3+psm.HeaderSize]++
		require.NoError(t, afero.WriteFile(l.fs, name, raw, 0o644))
		l = openLog(t, place{fs: l.fs, dir: "/t-0"}, small(), OpenOptions{RecoveryPoint: c.point})
		require.Equal(t, c.want, l.Marks().LogEnd)
		require.Equal(t, int32(c.want-1), l.Producers()[0].LastSequence)
		require.Equal(t, c.want, lead(t, l, by(1, 0, int32(c.want), 1).build(), client).BaseOffset)
	}
}

// What lies behind the last good batch of an unclean log, and is not kept.
func TestRecoveryCuts(t *testing.T) {
	good := append(plain(2).at(0, 3).build(), plain(2).at(2, 3).build()...)
	whole := plain(1).at(4, 3).build()
	broken := plain(1).at(4, 3).build()
	broken[len(broken)-1]++
	for name, c := range map[string]struct {
		tail []byte
		kept int
	}{
		"nothing":                 {nil, 0},
		"a whole batch":           {whole, len(whole)},
		"a gap":                   {plain(1).at(9, 4).build(), len(whole)},
		"half a batch":            {whole[:65:65], 0},
		"half a header":           {whole[:20:20], 0},
		"zeros":                   {make([]byte, 5000), 0},
		"a wrong CRC":             {broken, 0},
		"an older leader epoch":   {plain(1).at(4, 2).build(), 0},
		"an offset twice":         {plain(1).at(3, 3).build(), 0},
		"a good one behind a bad": {append(append([]byte{}, broken...), plain(1).at(5, 3).build()...), 0},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, p place) {
				require.NoError(t, p.fs.MkdirAll(p.dir, 0o755))
				name := fileName(p.dir, 0, suffixLog)
				require.NoError(t, afero.WriteFile(p.fs, name, append(append([]byte{}, good...), c.tail...), 0o644))
				want := string(good) + string(c.tail[:c.kept])
				for range 2 {
					l := openLog(t, p, small(), OpenOptions{})
					require.Equal(t, want, string(content(t, l)))
					require.NoError(t, l.Close(false))
					raw, err := afero.ReadFile(p.fs, name)
					require.NoError(t, err)
					require.Equal(t, want, string(raw))
				}
			})
		})
	}
}
