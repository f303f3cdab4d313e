package history

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fastEvents are of the kinds that have a decoder of their own.
func fastEvents() []Event {
	tag := Tag{Cluster: "A", Writer: "w-1", Txn: NoTxn, Intent: IntentNone, Index: 7, Place: "t-0"}
	sent := Produce{Writer: "w-1", Cluster: "A", Topic: "t", Partition: 3, Mode: Idempotent, Tag: tag, Count: 5, Offset: -1}
	forged := sent
	forged.Collision, forged.Trial, forged.Batch = SameHeader, TrialRetry, &BatchID{ProducerID: 1 << 60, Epoch: 32767, BaseSequence: 2147483647}
	acked := forged
	acked.Offset, acked.Result = 9, &Result{Outcome: OK}
	refused := sent
	refused.Result = &Result{Outcome: Refused, Code: -1, Message: "no leader"}
	return []Event{
		{Seq: 1, At: 1796010935885000000, Kind: KindRead, Episode: 2, Read: &Observed{Reader: "rc", Cluster: "B", Topic: "t", Partition: 1, Isolation: ReadCommitted, Offset: 1 << 40, Tag: tag.String()}},
		{Seq: 2, At: -5, Kind: KindRead, Read: &Observed{Reader: "rc", Cluster: "B", Topic: "t", Isolation: ReadUncommitted}},
		{Seq: 3, At: -5, Kind: KindRead, Read: &Observed{Reader: "rc", Cluster: "B", Topic: "t", Isolation: ReadUncommitted, Offset: 3, Tag: tag.String(), Count: 70}},
		{Seq: 4, At: 1, Kind: KindProduceBegin, Op: 4, Produce: &sent},
		{Seq: 5, At: 2, Kind: KindProduceBegin, Op: 5, Episode: 1, Produce: &forged},
		{Seq: 6, At: 3, Kind: KindProduceAck, Op: 5, Episode: 1, Produce: &acked},
		{Seq: 7, At: 4, Kind: KindProduceAck, Op: 4, Produce: &refused},
	}
}

func line(t testing.TB, e *Event) []byte {
	data, err := json.Marshal(e)
	require.NoError(t, err)
	return data
}

func TestLinesAsTheyAreWrittenAreDecodedFast(t *testing.T) {
	var f fastLine
	for _, e := range fastEvents() {
		got := f.decode(line(t, &e))
		require.NotNil(t, got, "%s", line(t, &e))
		require.Equal(t, e, got.Clone())
	}
}

func TestLinesThatAreNotSoAreLeftToTheStrictDecoder(t *testing.T) {
	for _, e := range fastEvents() {
		plain := string(line(t, &e))
		for _, change := range [][2]string{
			{`"kind"`, ` "kind"`},
			{`"seq":"`, `"seq":"0`},
			{`"seq":"`, `"seq":"-0`},
			{`"partition":`, `"partition":9999999999`},
			{`"topic":"t"`, `"topic":"t\u0041"`},
			{`"topic":"t"`, `"topic":"tä"`},
			{`"topic":"t"`, "\"topic\":\"t\x01\""},
			{`"topic":"t"`, `"Topic":"t"`},
			{`"topic":"t"`, `"topic":"t","zz":1`},
			{`}}`, `},"zz":1}`},
			{`}}`, `}}}`},
			{`}}`, `}} `},
		} {
			changed := strings.Replace(plain, change[0], change[1], 1)
			require.NotEqual(t, plain, changed)
			var f fastLine
			require.Nil(t, f.decode([]byte(changed)), "%s", changed)
		}
	}
}

// What the fast decoder takes, encoding/json takes, and to the same event.
func FuzzFastLine(f *testing.F) {
	for _, e := range fastEvents() {
		f.Add(line(f, &e))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var fast fastLine
		got := fast.decode(data)
		if got == nil {
			return
		}
		var want Event
		require.NoError(t, strict(data, &want), "%s", data)
		require.Equal(t, want, got.Clone())
	})
}

func TestAScannersEventsAreItsOwnUntilTheNext(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, "x", 1, nil)
	for _, e := range fastEvents() {
		_, err := w.Append(e)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	s, err := NewScanner(&file)
	require.NoError(t, err)
	require.Equal(t, "x", s.Header().Run)
	var kept []Event
	for range fastEvents() {
		e, err := s.Next()
		require.NoError(t, err)
		kept = append(kept, e.Clone())
	}
	require.Equal(t, fastEvents(), kept)
	_, err = s.Next()
	require.ErrorIs(t, err, io.EOF)
}

func BenchmarkScan(b *testing.B) {
	for _, e := range fastEvents()[:5:5] {
		b.Run(string(e.Kind), func(b *testing.B) {
			var f fastLine
			data := line(b, &e)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if f.decode(data) == nil {
					b.Fatal("not decoded")
				}
			}
		})
	}
	b.Run("file", func(b *testing.B) {
		var file bytes.Buffer
		w := NewWriter(&file, "x", 1, nil)
		for range 1000 {
			for _, e := range fastEvents() {
				_, err := w.Append(e)
				require.NoError(b, err)
			}
		}
		require.NoError(b, w.Sync())
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			_, _, err := Read(bytes.NewReader(file.Bytes()))
			require.NoError(b, err)
		}
	})
}

func TestReadsOneAfterTheOther(t *testing.T) {
	tag := Tag{Cluster: "A", Writer: "w", Txn: NoTxn, Intent: IntentNone, Index: 9, Place: "t-0"}
	o := Observed{Isolation: ReadCommitted, Offset: 5, Tag: tag.String(), Count: 3}
	var each []Observed
	o.Each(func(one Observed) { each = append(each, one) })
	require.Equal(t, []Observed{
		{Isolation: ReadCommitted, Offset: 5, Tag: tag.String()},
		{Isolation: ReadCommitted, Offset: 6, Tag: tag.Add(1).String()},
		{Isolation: ReadCommitted, Offset: 7, Tag: tag.Add(2).String()},
	}, each)
	for _, bad := range []Observed{
		{Isolation: ReadCommitted, Count: -1},
		{Isolation: ReadCommitted, Count: 2},
		{Isolation: ReadCommitted, Count: 2, Tag: "ws1/%41/w/-1/none/9/t-0"},
	} {
		require.Error(t, (&Event{Kind: KindRead, Read: &bad}).Validate())
	}
}

func TestTheVersionBeforeIsRead(t *testing.T) {
	e := fastEvents()[0]
	for version, ok := range map[string]bool{"1": false, "2": true, "3": true, "4": false} {
		_, events, err := Read(strings.NewReader(`{"format":"watershed-history","version":` + version + `,"run":"r","seed":"1"}` + "\n" + string(line(t, &e)) + "\n"))
		require.Equal(t, ok, err == nil, "version %s: %v", version, err)
		if ok {
			require.Equal(t, []Event{e}, events)
		}
	}
}
