package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

func compactNow(t testing.TB, l *Log, c Compaction) Compacted {
	t.Helper()
	done, err := l.Compact(t.Context(), c, nil)
	require.NoError(t, err)
	return done
}

// tail fills the active segment, so that what came before can be compacted.
func tail(t testing.TB, l *Log) {
	t.Helper()
	d := plain(1)
	lead(t, l, d.keyed(0, kv{"tail", strings.Repeat("x", int(l.cfg.SegmentBytes))}), client)
}

func shown(records []stored) []string {
	var out []string
	for _, s := range records {
		if s.key != "tail" {
			out = append(out, fmt.Sprintf("%d %s=%s", s.offset, s.key, s.value))
		}
	}
	return out
}

// A compacted batch keeps its place, its times and its codec.
func TestCompactionOfEachCodec(t *testing.T) {
	for codec := range int8(5) {
		onEach(t, func(t *testing.T, p place) {
			l := openLog(t, p, small(), OpenOptions{})
			lead(t, l, by(7, 0, 0, 3).keyed(codec, kv{"a", "1"}, kv{"b", "2"}, kv{"c", "3"}), client)
			lead(t, l, plain(2).keyed(codec, kv{"a", "4"}, kv{"d", ""}), client)
			untouched := plain(2).keyed(codec, kv{"c", "5"}, kv{"e", "6"})
			lead(t, l, untouched, client)
			tail(t, l)
			tail(t, l)
			before := factsOf(t, l)
			compactNow(t, l, compactAll())
			require.Equal(t, []string{"1 b=2", "3 a=4", "4 d=", "5 c=5", "6 e=6"}, shown(storedIn(t, content(t, l))))
			raw, err := l.Read(1, 3, 1<<20, true)
			require.NoError(t, err)
			b, err := psm.DecodeBatch(raw)
			require.NoError(t, err)
			require.Equal(t, []any{int64(0), int64(2), codec, int32(1)}, []any{b.BaseOffset, b.LastOffset, b.Attributes.Compression(), b.Count})
			require.Equal(t, int64(1001), storedIn(t, raw)[0].time)
			raw, err = l.Read(5, 7, 1<<20, true)
			require.NoError(t, err)
			require.Equal(t, untouched, raw, "a batch that stays whole stays as it is")
			f := factsOf(t, l)
			require.Equal(t, before.producers, f.producers)
			require.Equal(t, before.marks, f.marks)
			require.NoError(t, l.Close(false))
			l = openLog(t, p, small(), OpenOptions{HighWatermark: f.marks.HighWatermark})
			require.Equal(t, f, factsOf(t, l))
		})
	}
}

// Tombstones stay for delete.retention.ms from the round that saw them first,
// and so do markers of transactions of which nothing is left.
func TestDeleteHorizon(t *testing.T) {
	ms := int64(1_000_000)
	cfg := small()
	cfg.Now = func() time.Time { return time.UnixMilli(ms) }
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, cfg, OpenOptions{})
	c := compactAll()
	round := func() []string {
		tail(t, l)
		compactNow(t, l, c)
		var out []string
		for raw := content(t, l); len(raw) > 0; {
			b, err := psm.DecodeBatch(raw)
			require.NoError(t, err)
			switch {
			case b.IsControl() && b.Count > 0:
				out = append(out, fmt.Sprintf("%d %s at %d", b.BaseOffset, b.Control.Type, b.Control.Timestamp))
			default:
				out = append(out, shown(storedIn(t, raw[:b.Size]))...)
			}
			raw = raw[b.Size:]
		}
		return out
	}
	lead(t, l, plain(1).keyed(0, kv{"a", "1"}), client)
	lead(t, l, plain(2).keyed(1, kv{"a", ""}, kv{"b", "2"}), client)
	lead(t, l, by(1, 0, 0, 1).inTxn().keyed(0, kv{"c", "3"}), client)
	lead(t, l, marker(1, 0, false), coordinator)
	lead(t, l, by(1, 0, 1, 1).inTxn().keyed(0, kv{"d", "4"}), client)
	lead(t, l, marker(1, 0, true), coordinator)
	tail(t, l)
	want := []string{"1 a=", "2 b=2", "4 ABORT at 1000", "5 d=4", "6 COMMIT at 1000"}
	require.Equal(t, want, round())
	ms += c.DeleteRetentionMs - 1
	require.Equal(t, want, round(), "the horizon counts from the first round")
	require.Zero(t, l.ForgottenUpTo(), "what went is told by what is there")
	ms++
	require.Equal(t, []string{"2 b=2", "5 d=4", "6 COMMIT at 1000"}, round())
	require.EqualValues(t, 5, l.ForgottenUpTo(), "behind the marker")
	// The producer's last batch stays, empty; so its marker stays too.
	lead(t, l, plain(1).keyed(0, kv{"d", "5"}), client)
	tail(t, l)
	require.Equal(t, []string{"2 b=2", "6 COMMIT at 1000", fmt.Sprintf("%d d=5", 11)}, round()[:3])
	before := l.Producers()
	require.EqualValues(t, 1, before[0].LastSequence)
	require.True(t, lead(t, l, by(1, 0, 1, 1).inTxn().keyed(0, kv{"d", "4"}), client).Duplicate, "a retry is still known")
}

func TestWhatTheCleanerForgotIsRemembered(t *testing.T) {
	p := place{fs: afero.NewMemMapFs(), dir: "/t-0"}
	cfg := Config{SegmentBytes: 400, Now: now}
	l := openLog(t, p, cfg, OpenOptions{})
	for i := range 20 {
		lead(t, l, plain(1).keyed(0, kv{"a", fmt.Sprint(i)}), client)
	}
	require.NoError(t, l.NoteForgotten(12))
	require.NoError(t, l.NoteForgotten(3), "never lowered")
	require.Zero(t, l.CleanedUpTo(), "this log was not compacted")
	require.NoError(t, l.Close(false))
	l = openLog(t, p, cfg, OpenOptions{HighWatermark: l.logEnd})
	require.EqualValues(t, 12, l.ForgottenUpTo())
	_, err := l.TruncateTo(5)
	require.NoError(t, err)
	require.EqualValues(t, 5, l.ForgottenUpTo())
	require.NoError(t, l.Close(false))

	// Before it was kept, all that was cleaned may have been forgotten.
	require.NoError(t, afero.WriteFile(p.fs, "/t-0/"+fileCleaned, []byte("0\n2 4\n"), 0o644))
	l = openLog(t, p, cfg, OpenOptions{HighWatermark: l.logEnd})
	require.EqualValues(t, 4, l.ForgottenUpTo())
	require.EqualValues(t, 4, l.CleanedUpTo())
}

// What compaction may not touch.
func TestWhatIsNotCompacted(t *testing.T) {
	fill := func(t *testing.T) *Log {
		l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, Config{SegmentBytes: 1, Now: now}, OpenOptions{})
		for i := range 6 {
			d := plain(1)
			d.time = 1_000_000 - 600 + 100*int64(i)
			lead(t, l, d.keyed(0, kv{"a", fmt.Sprint(i)}), client)
		}
		return l
	}
	for name, c := range map[string]struct {
		change func(*Compaction)
		high   int64
		want   int64
	}{
		"the active segment":       {func(*Compaction) {}, 6, 5},
		"above the high watermark": {func(*Compaction) {}, 3, 3},
		"too little dirt":          {func(c *Compaction) { c.DirtyRatio = 1 }, 6, 0},
		"too new":                  {func(c *Compaction) { c.MinLagMs = 350 }, 6, 3},
		"old enough":               {func(c *Compaction) { c.DirtyRatio, c.MaxLagMs = 1, 599 }, 6, 5},
		"not old enough":           {func(c *Compaction) { c.DirtyRatio, c.MaxLagMs = 1, 600 }, 6, 0},
		"too many keys":            {func(c *Compaction) { c.MaxKeys = 1 }, 6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := fill(t)
			l.SetHighWatermark(c.high)
			o := compactAll()
			c.change(&o)
			require.Equal(t, c.want, compactNow(t, l, o).To)
			require.Equal(t, c.want, l.CleanedUpTo())
			var want []string
			for i := max(c.want-1, 0); i < 6; i++ {
				want = append(want, fmt.Sprintf("%d a=%d", i, i))
			}
			require.Equal(t, want, shown(storedIn(t, content(t, l))))
		})
	}
	t.Run("above an open transaction", func(t *testing.T) {
		l := fill(t)
		lead(t, l, by(1, 0, 0, 1).inTxn().keyed(0, kv{"a", "open"}), client)
		tail(t, l)
		tail(t, l)
		require.EqualValues(t, 6, compactNow(t, l, compactAll()).To)
	})
	t.Run("what a cut could bring back", func(t *testing.T) {
		// The transaction began below the bound and ended above it.
		l := fill(t)
		lead(t, l, by(1, 0, 0, 1).inTxn().keyed(0, kv{"a", "late"}), client)
		tail(t, l)
		require.NoError(t, l.Close(true))
		l = openLog(t, place{fs: l.fs, dir: l.dir}, Config{SegmentBytes: 1, Now: now}, OpenOptions{Clean: true, HighWatermark: 8})
		o := compactAll()
		lead(t, l, marker(1, 0, true), coordinator)
		o.MaxKeys = 1
		for range 20 {
			compactNow(t, l, o)
		}
		require.GreaterOrEqual(t, l.CleanedUpTo(), l.cleaned.dirty)
		require.Equal(t, []string{"6 a=late"}, shown(storedIn(t, content(t, l))))
	})
}

// BAR-8: barriers stay as they are, also two of the same key; their effect
// stays, and a log made from the segments alone has it too.
func TestBarriersAreNotCompacted(t *testing.T) {
	stay := barriersCompacted(t, small())
	require.Equal(t, 3, stay)
	wrong := small()
	var err error
	wrong.Defects, err = defect.Parse([]string{string(defect.BarriersCompactedIntoOne)})
	require.NoError(t, err)
	require.Equal(t, 1, barriersCompacted(t, wrong))
}

// barriersCompacted says how many of three barriers in a log outlast its cleaner.
func barriersCompacted(t *testing.T, cfg Config) (stay int) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, cfg, OpenOptions{})
	var stops []psm.Stop
	var barriers [][]byte
	for i := range 3 {
		lead(t, l, by(5, 0, 0, 1).keyed(0, kv{"a", fmt.Sprint(i)}), client)
		at := l.Marks().LogEnd
		stops = append(stops, psm.Stop{L: at, BarrierOffset: at, SourceClusterID: source})
		require.NoError(t, l.SetStops(stops))
		raw := barrier(source)
		lead(t, l, raw, coordinator)
		barriers = append(barriers, raw)
	}
	tail(t, l)
	tail(t, l)
	before := factsOf(t, l)
	for range 3 {
		compactNow(t, l, compactAll())
		tail(t, l)
	}
	require.NoError(t, l.Close(false))
	l = openLog(t, place{fs: l.fs, dir: l.dir}, cfg, OpenOptions{HighWatermark: l.logEnd})
	require.Empty(t, l.Producers())
	after := factsOf(t, l)
	require.Equal(t, before.barriers, after.barriers)
	require.Equal(t, []string{"4 a=2"}, shown(storedIn(t, []byte(after.bytes))))
	for _, raw := range barriers {
		if strings.Contains(after.bytes, string(raw)) {
			stay++
		}
	}
	return stay
}

// A kill after any change that a compaction makes to the file system loses no
// key, and leaves no file behind.
func TestKilledAtEachStepOfACompaction(t *testing.T) {
	seen := map[string]bool{}
	for step := 0; ; step++ {
		fsys := &crashFs{Fs: afero.NewMemMapFs(), left: -1}
		p := place{fs: fsys, dir: "/t-0"}
		cfg := Config{SegmentBytes: 500, IndexInterval: 1, Now: now}
		l := openLog(t, p, cfg, OpenOptions{})
		for i := range 12 {
			pid := int64(i % 3)
			lead(t, l, by(pid, 0, int32(i/3*2), 2).inTxn().keyed(0, kv{fmt.Sprint("k", i%4), fmt.Sprint(i)}, kv{"same", fmt.Sprint(i)}), client)
			lead(t, l, marker(pid, 0, i%5 > 0), coordinator)
		}
		tail(t, l)
		before := factsOf(t, l)
		want := shown(latestOf(committedViewOf(t, l)))
		require.GreaterOrEqual(t, len(l.segments), 5)
		l.Reconfigure(Config{SegmentBytes: 1100, IndexInterval: 1, Now: now}) // so that two or more become one
		fsys.left = step
		_, err := l.Compact(t.Context(), compactAll(), nil)
		fsys.left = -1
		require.NoError(t, l.Close(false))
		target := place{fs: afero.NewMemMapFs(), dir: "/t-0"}
		copyTree(t, fsys.Fs, p.dir, target.fs, target.dir)
		l = openLog(t, target, cfg, OpenOptions{HighWatermark: before.marks.HighWatermark})
		require.Equal(t, want, shown(latestOf(committedViewOf(t, l))), "step %d", step)
		after := factsOf(t, l)
		require.Equal(t, []any{before.marks, before.producers, before.epochs}, []any{after.marks, after.producers, after.epochs}, "step %d", step)
		for _, n := range names(t, target) {
			require.False(t, strings.HasSuffix(n, suffixCleaned) || strings.HasSuffix(n, suffixSwap) || strings.HasSuffix(n, ".tmp"), "step %d leaves %s", step, n)
		}
		seen[fmt.Sprint(len(l.segments), l.CleanedUpTo() > 0)] = true
		// And it can be compacted now.
		tail(t, l)
		compactNow(t, l, compactAll())
		require.Equal(t, want, shown(latestOf(committedViewOf(t, l))), "step %d", step)
		require.NoError(t, l.Close(true))
		if err == nil {
			break // it came through
		}
	}
	require.GreaterOrEqual(t, len(seen), 4, "kills before, in and after swaps: %v", seen)
}

func committedViewOf(t *testing.T, l *Log) []stored {
	t.Helper()
	return filterCommitted(t, l, content(t, l), l.Marks().LogStart)
}

// latestOf are the latest records of each key.
func latestOf(records []stored) []stored {
	last := map[string]stored{}
	for _, s := range records {
		last[s.key] = s
	}
	var out []stored
	for _, k := range slices.Sorted(keysOf(last)) {
		out = append(out, last[k])
	}
	return out
}

// Appends, reads, searches and cuts go on while a log is compacted.
func TestCompactionAmongReadersAndWriters(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, small(), OpenOptions{})
		var all sync.WaitGroup
		all.Go(func() {
			for i := range 300 {
				lead(t, l, by(1, 0, int32(i), 1).keyed(int8(i%4), kv{fmt.Sprint("k", i%7), fmt.Sprint(i)}), client)
				if i%50 == 49 {
					_, err := l.DeleteRecords(int64(i - 40))
					require.NoError(t, err)
				}
			}
		})
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					m := l.Marks()
					for at := m.LogStart; at < m.LogEnd; {
						raw, err := l.Read(at, m.LogEnd, 1<<10, true)
						if low := new(ErrOutOfRange); errors.As(err, &low) {
							break // the log's start went up
						}
						require.NoError(t, err)
						if len(raw) == 0 {
							break
						}
						storedIn(t, raw)
						at = lastOf(t, raw) + 1
					}
					_, err := l.OffsetForTime(1000, inflate)
					require.NoError(t, err)
				}
			})
		}
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, err := l.Compact(t.Context(), compactAll(), nil)
					require.NoError(t, err)
				}
			}
		})
		all.Wait()
		close(stop)
		readers.Wait()
		require.EqualValues(t, 299, l.Producers()[0].LastSequence)
		tail(t, l)
		compactNow(t, l, compactAll())
		want := map[string]string{}
		for i := range 300 {
			want[fmt.Sprint("k", i%7)] = fmt.Sprint(i)
		}
		got := map[string]string{}
		for _, s := range storedIn(t, content(t, l)) {
			if s.key != "tail" {
				got[s.key] = s.value
			}
		}
		require.Equal(t, want, got)
	})
}

// The highest timestamp is a record's, also where a header alone is left.
func TestMaxTimestampOfACompactedLog(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	late := by(1, 0, 0, 1)
	late.time = 9000
	lead(t, l, late.keyed(0, kv{"a", "1"}), client)
	lead(t, l, plain(1).keyed(0, kv{"a", "2"}), client)
	early := plain(1)
	early.time = 2000
	lead(t, l, early.keyed(0, kv{"b", "3"}), client)
	tail(t, l)
	tail(t, l)
	compactNow(t, l, compactAll())
	found, err := l.MaxTimestamp(inflate)
	require.NoError(t, err)
	require.Equal(t, Found{Offset: 2, Timestamp: 2000}, found)
}

// Segments of which little is left become one, and the checkpoint goes with the
// log: AL-1 asks it.
func TestCompactionMergesSegmentsAndRemembersItsEnd(t *testing.T) {
	p := place{fs: afero.NewMemMapFs(), dir: "/t-0"}
	cfg := Config{SegmentBytes: 400, Now: now}
	l := openLog(t, p, cfg, OpenOptions{})
	for i := range 40 {
		lead(t, l, plain(1).keyed(0, kv{"a", fmt.Sprint(i)}), client)
	}
	tail(t, l)
	many := len(l.segments)
	for range 6 {
		compactNow(t, l, compactAll())
		tail(t, l)
	}
	require.Less(t, len(l.segments), many)
	end := l.CleanedUpTo()
	require.Greater(t, end, int64(39))
	require.NoError(t, l.Close(false))
	l = openLog(t, p, cfg, OpenOptions{HighWatermark: l.logEnd})
	require.Equal(t, end, l.CleanedUpTo())
	_, err := l.TruncateTo(5)
	require.NoError(t, err)
	require.LessOrEqual(t, l.CleanedUpTo(), int64(5))
	require.NoError(t, l.TruncateFully(7))
	require.Zero(t, l.CleanedUpTo())
	require.NoError(t, l.Close(false))
	require.Zero(t, openLog(t, p, cfg, OpenOptions{LogStart: 7}).CleanedUpTo())
}

// Records without a key can't be compacted: they go, as in Kafka.
func TestRecordsWithoutAKeyGo(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	lead(t, l, plain(2).build(), client)
	lead(t, l, plain(1).keyed(0, kv{"a", "1"}), client)
	tail(t, l)
	tail(t, l)
	compactNow(t, l, compactAll())
	require.Equal(t, []string{"2 a=1"}, shown(storedIn(t, content(t, l))))
}

// Damage in what is to be compacted is an error, and changes nothing.
func TestCompactionOfDamage(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	raw := plain(1).keyed(1, kv{"a", "1"})
	lead(t, l, raw, client)
	tail(t, l)
	tail(t, l)
	f, err := l.fs.OpenFile(fileName(l.dir, 0, suffixLog), 2, 0)
	require.NoError(t, err)
	bad := binary.BigEndian.AppendUint32(nil, 0xffffffff)
	_, err = f.WriteAt(bad, psm.HeaderSize)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	before := names(t, place{fs: l.fs, dir: l.dir})
	_, err = l.Compact(t.Context(), compactAll(), nil)
	require.Error(t, err)
	require.ElementsMatch(t, before, names(t, place{fs: l.fs, dir: l.dir}))
}

// A marker of transactions version 2 moves the producer's epoch: it is the last
// that is known of a producer whose records are gone, and stays for that.
func TestLastMarkerOfAProducerStays(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	lead(t, l, plain(1).keyed(0, kv{"z", "0"}), client) // the first of the leader epoch stays anyway
	lead(t, l, by(1, 0, 0, 1).inTxn().keyed(0, kv{"a", "1"}), client)
	lead(t, l, marker(1, 1, true), coordinator)
	lead(t, l, plain(1).keyed(0, kv{"a", "2"}), client)
	tail(t, l)
	want := factsOf(t, l).producers
	c := compactAll()
	c.DeleteRetentionMs = 0
	for range 3 {
		tail(t, l)
		compactNow(t, l, c)
	}
	require.EqualValues(t, 1, want[0].Epoch)
	got := replayed(t, factsOf(t, l), nil)
	require.Equal(t, want, got.producers, "from the log's bytes alone")
	require.Equal(t, []string{"0 z=0", "3 a=2"}, shown(storedIn(t, []byte(got.bytes))))
}

// A marker stays with its records: without it the producer's next transaction
// would decide for them too.
func TestMarkersStayWithTheirRecords(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	for i, commit := range []bool{true, false, true} {
		lead(t, l, by(1, 0, int32(i), 1).inTxn().keyed(0, kv{fmt.Sprint("k", i), "1"}), client)
		lead(t, l, marker(1, 0, commit), coordinator)
	}
	tail(t, l)
	c := compactAll()
	c.DeleteRetentionMs = 0
	for range 3 {
		tail(t, l)
		compactNow(t, l, c)
	}
	require.Equal(t, []string{"0 k0=1", "4 k2=1"}, shown(committedViewOf(t, l)))
	var markers []string
	for raw := content(t, l); len(raw) > 0; {
		b, err := psm.DecodeBatch(raw)
		require.NoError(t, err)
		if b.Control.Type >= 0 {
			markers = append(markers, fmt.Sprint(b.BaseOffset, " ", b.Control.Type))
		}
		raw = raw[b.Size:]
	}
	require.Equal(t, []string{"1 COMMIT", "5 COMMIT"}, markers, "the aborted one's goes")
	bare := replayed(t, factsOf(t, l), nil)
	require.Equal(t, factsOf(t, l).aborted, bare.aborted)
	require.Empty(t, bare.aborted)
}
