package check

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// A log of any batches is taken apart into the records that they hold, each with
// its tag, and each is found where it lies, however often.
func TestALogsRecordsAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Replica{}
		base := int64(0)
		for range rapid.IntRange(0, 12).Draw(t, "batches") {
			s := spec{base: base, pid: 1}
			index := rapid.Int64Range(0, 20).Draw(t, "index")
			for range rapid.IntRange(1, 5).Draw(t, "records") {
				s.tags = append(s.tags, history.Tag{Cluster: "A", Writer: rapid.SampledFrom([]string{"v", "w"}).Draw(t, "writer"), Txn: -1, Intent: history.IntentNone, Index: index, Place: "t-0"})
				index += rapid.SampledFrom([]int64{1, 1, 1, 2, 0, -1}).Draw(t, "step")
				index = max(index, 0)
			}
			b, err := wirelog.ParseBatch(s.encode())
			require.NoError(t, err)
			r.Batches = append(r.Batches, b)
			base = max(0, base+s.count()+rapid.Int64Range(-1, 1).Draw(t, "gap"))
		}
		d := decoder{stems: newStems()}
		c := d.decode(r)
		places := map[history.Tag][]place{}
		for i := range r.Batches {
			records, err := r.Batches[i].Records()
			require.NoError(t, err)
			var got []record
			for rec := range c.entries[i].records() {
				got = append(got, rec)
			}
			require.Len(t, got, len(records))
			for k := range records {
				tag, err := history.TagOf(records[k].Header(history.HeaderKey), records[k].Value)
				require.NoError(t, err)
				require.Equal(t, tag, got[k].tag())
				require.Equal(t, records[k].Offset, got[k].offset)
				places[tag] = append(places[tag], place{i, records[k].Offset})
			}
		}
		for tag, want := range places {
			require.Equal(t, want, c.places(tag), "%v", tag)
			for n := int32(1); n < 4; n++ {
				at, all := c.findAll(c.stems.find(tag), tag.Index, n)
				if !all {
					continue
				}
				for k := range int64(n) {
					require.Equal(t, []place{{at.entry, at.offset + k}}, c.places(tag.Add(k)))
				}
			}
		}
		require.Empty(t, c.places(history.Tag{Cluster: "A", Writer: "v", Txn: -1, Intent: history.IntentNone, Index: 99, Place: "t-0"}))
		require.Empty(t, c.places(history.Tag{Cluster: "nobody"}))
	})
}

// A record with half a tag, or a wrong one, says so, wherever its tag's text was
// seen before.
func TestARecordsTagIsReadAsHistoryReadsIt(t *testing.T) {
	good := history.Tag{Cluster: "A", Writer: "w", Txn: -1, Intent: history.IntentNone, Index: 1, Place: "t-0"}
	text := []byte(good.String())
	d := decoder{stems: newStems()}
	for _, c := range []struct{ header, value []byte }{
		{text, good.Value(nil)},
		{text, good.Value([]byte("more\nlines"))},
		{text, good.Add(1).Value(nil)},
		{text, text},
		{text, nil},
		{nil, good.Value(nil)},
		{nil, []byte("x")},
		{[]byte("ws1/torn"), []byte("ws1/torn\n")},
		{[]byte(nil), nil},
		{[]byte("ws1/A/w\n/-1/none/1/t-0"), []byte("ws1/A/w\n/-1/none/1/t-0\n")},
	} {
		for _, other := range []bool{false, true} {
			rec := wirelog.Record{Value: c.value}
			if other {
				rec.Headers = append(rec.Headers, wirelog.Header{Key: "trace", Value: []byte("1")})
			}
			if c.header != nil {
				rec.Headers = append(rec.Headers, wirelog.Header{Key: history.HeaderKey, Value: c.header})
			}
			want, wrong := history.TagOf(rec.Header(history.HeaderKey), rec.Value)
			st, index, err := d.tagOf(&rec)
			if wrong != nil {
				require.EqualError(t, err, wrong.Error())
				require.Equal(t, errors.Is(wrong, history.ErrNoTag), errors.Is(err, history.ErrNoTag))
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, st.tag(index))
		}
	}
}

// Operations are found by their numbers, in whatever order those come.
func TestOperationsByTheirNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table opTable
		want := map[int64]*operation{}
		for _, op := range rapid.SliceOf(rapid.OneOf(rapid.Int64Range(-2, 30), rapid.Int64Range(1000, 4000))).Draw(t, "numbers") {
			want[op] = &operation{began: op}
			table.set(op, want[op])
		}
		for op := int64(-3); op < 4001; op++ {
			require.Same(t, want[op], table.get(op), "%d", op)
		}
	})
}

// What readers saw comes out as it went in, whatever lies between.
func TestTheLedgerKeepsEveryRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(newStems())
		type row struct {
			offset int64
			tag    string
		}
		want := map[string][]row{}
		var order []string
		offset := int64(0)
		for seq := int64(1); seq < 40; seq++ {
			e := history.Event{Seq: seq, Kind: history.KindNote, Note: "x"}
			if rapid.IntRange(0, 5).Draw(t, "note") > 0 {
				o := history.Observed{Reader: rapid.SampledFrom([]string{"r", "s"}).Draw(t, "reader"), Isolation: history.ReadCommitted, Offset: offset}
				if rapid.IntRange(0, 5).Draw(t, "odd") > 0 {
					o.Tag = history.Tag{Cluster: "A", Writer: "w", Txn: -1, Intent: history.IntentNone, Index: offset, Place: "t-0"}.String()
					o.Count = rapid.Int32Range(0, 3).Draw(t, "count")
				}
				offset = max(0, offset+o.Records()+rapid.Int64Range(-1, 1).Draw(t, "gap"))
				e = history.Event{Seq: seq, At: seq * 10, Kind: history.KindRead, Read: &o}
				if len(want[o.Reader]) == 0 {
					order = append(order, o.Reader)
				}
				o.Each(func(one history.Observed) { want[o.Reader] = append(want[o.Reader], row{one.Offset, one.Tag}) })
			}
			l.add(&e)
		}
		streams := l.streamsOf(func(int32) bool { return true }, never)
		require.Len(t, streams, len(order))
		for i, s := range streams {
			require.Equal(t, order[i], s.Reader)
			var got []row
			for k := range s.runs {
				for n := range int64(s.runs[k].n) {
					one := s.runs[k].one(n)
					got = append(got, row{one.offset, one.tagText()})
				}
				require.Equal(t, s.runs[k].last*10, s.runs[k].when)
				require.False(t, slices.ContainsFunc(l.events, func(e history.Event) bool { return e.Seq > s.runs[k].first && e.Seq < s.runs[k].last }), "an event lies within a run")
			}
			require.Equal(t, want[s.Reader], got)
		}
	})
}
