package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func sampleEvents() []Event {
	tag := Tag{Cluster: "A", Writer: "w/1%", Txn: 3, Intent: IntentCommit, Index: math.MaxInt64 - 1, Place: "t-0"}
	ok := &Result{Outcome: OK}
	return []Event{
		{Kind: KindPhase, Phase: &Phase{Name: TrafficBefore}},
		{Kind: KindProduceBegin, Op: 1, Produce: &Produce{Writer: "w", Cluster: "A", Topic: "t", Mode: Transactional, Tag: tag, Count: 2, Offset: -1, Batch: &BatchID{ProducerID: 9007199254740993, Epoch: 3, BaseSequence: 7}}},
		{Kind: KindProduceAck, Op: 1, Produce: &Produce{Writer: "w", Cluster: "A", Topic: "t", Mode: Transactional, Tag: tag, Count: 2, Offset: math.MaxInt64 - 1, Result: ok}},
		{Kind: KindTxnEnd, Op: 2, Txn: &Txn{Writer: "w", Cluster: "A", TransactionalID: "x", Number: 3, Intent: IntentAbort, Result: &Result{Outcome: Unknown, Message: "lost \x00\x1b"}}},
		{Kind: KindInitProducerID, InitPID: &InitPID{Writer: "w", Cluster: "A", ProducerID: 9007199254740993, Result: ok}},
		{Kind: KindAddPartitions, AddPartitions: &AddPartitions{Writer: "w", Result: &Result{Outcome: Refused, Code: 134, Message: "read only"}}},
		{Kind: KindRead, Read: &Observed{Reader: "r", Isolation: ReadCommitted, Offset: 4, Tag: tag.String()}},
		{Kind: KindReaderPosition, Reader: &Reader{Reader: "r", Isolation: ReadUncommitted, Position: 5, Final: true}},
		{Kind: KindFetch, Fetch: &Fetch{Isolation: ReadCommitted, Served: LongPoll, Aborted: []Aborted{{ProducerID: 9007199254740993, FirstOffset: 2}}}},
		{Kind: KindListOffsets, Offsets: &Offsets{HighWatermark: 9, LastStableOffset: 8, LogEndOffset: -1}},
		{Kind: KindDescribeProducers, Producers: &Producers{When: WhenAfterStop, Active: []ProducerState{{ProducerID: 9007199254740993, CurrentTxnStart: -1}}}},
		{Kind: KindMirrorRPC, MirrorRPC: &MirrorRPC{API: "StopMirrorTopics", Mirror: "m", Result: ok}},
		{Kind: KindMirrorState, Mirror: &Mirror{State: "STOPPED", LastMirrored: 7, BarrierOffset: 7}},
		{Kind: KindGate, Gate: &Gate{Point: "before:truncated", What: GateHeld}},
		{Kind: KindFaultStop, Fault: &Fault{ID: "f1", Name: "hold-and-release", HeldBefore: 12}},
		{Kind: KindConnection, Connection: &Connection{Client: "w", Cluster: "A", ClusterID: "id"}},
		{Kind: KindNode, Node: &Node{Cluster: "A", Node: 1, What: NodeKilled}},
		{Kind: KindMarker, Marker: &Marker{Cluster: "A", Topic: "t", ProducerID: 9007199254740993, CoordinatorEpoch: -1, Result: &Result{Outcome: Refused, Code: 52}}},
		{Kind: KindDisturbance, Disturbance: &Disturbance{What: Compaction, Cluster: "A", Over: true, Took: true}},
		{Kind: KindNote, Note: "hello"},
	}
}

func TestWriteThenReadGivesTheSameEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	w, err := Create(path, "run", 18446744073709551615)
	require.NoError(t, err)
	var want []Event
	for i, e := range sampleEvents() {
		e.At = int64(1000 + i)
		seq, err := w.Append(e)
		require.NoError(t, err)
		e.Seq = seq
		want = append(want, e)
	}
	require.NoError(t, w.Close())
	h, got, err := ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, Header{Format: Format, Version: Version, Run: "run", Seed: 18446744073709551615}, h)
	require.Equal(t, want, got)
	_, err = w.Append(want[0])
	require.ErrorIs(t, err, os.ErrClosed)
	require.NoError(t, w.Close())
	_, err = Create(path, "run", 1)
	require.ErrorIs(t, err, os.ErrExist)
}

// A reader that holds every JSON number as a double must still see each 64-bit
// number exactly (FA-24).
func TestNo64BitNumberIsAJSONNumber(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, "run", 1<<63+1, time.Now)
	for _, e := range sampleEvents() {
		_, err := w.Append(e)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	for line := range strings.Lines(out.String()) {
		var doubles any
		require.NoError(t, json.Unmarshal([]byte(line), &doubles))
		walkNumbers(doubles, func(f float64) {
			require.Less(t, math.Abs(f), float64(1<<33), "line %s", line)
		})
	}
	require.Contains(t, out.String(), `"producerId":"9007199254740993"`)
	require.Contains(t, out.String(), `"offset":"9223372036854775806"`)
	require.Contains(t, out.String(), `"index":"9223372036854775806"`)
}

func walkNumbers(v any, f func(float64)) {
	switch v := v.(type) {
	case float64:
		f(v)
	case []any:
		for _, x := range v {
			walkNumbers(x, f)
		}
	case map[string]any:
		for _, x := range v {
			walkNumbers(x, f)
		}
	}
}

func TestConcurrentAppendsNumberEachLineOnce(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, "run", 1, time.Now)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				_, err := w.Append(Event{Kind: KindNote, Note: fmt.Sprint(g, "/", i), Op: w.NextOp()})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Close())
	_, events, err := Read(&out)
	require.NoError(t, err)
	require.Len(t, events, 800)
	notes, ops := map[string]bool{}, map[int64]bool{}
	for _, e := range events {
		notes[e.Note], ops[e.Op] = true, true
	}
	require.Len(t, notes, 800)
	require.Len(t, ops, 800)
}

func TestReadNamesTheBadLine(t *testing.T) {
	header := `{"format":"watershed-history","version":2,"run":"r","seed":"1"}` + "\n"
	good := `{"seq":"1","at":"5","kind":"note","note":"x"}` + "\n"
	for name, tc := range map[string]struct {
		in   string
		line int
		says string
	}{
		"empty":              {"", 1, "header is missing"},
		"other format":       {`{"format":"x","version":2,"run":"r","seed":"1"}` + "\n", 1, "format"},
		"future version":     {`{"format":"watershed-history","version":4,"run":"r","seed":"1"}` + "\n", 1, "version 2 or 3"},
		"torn":               {header + good + `{"seq":"2","at":"5","kind":"no`, 3, "torn"},
		"unknown field":      {header + `{"seq":"1","at":"5","kind":"note","note":"x","zz":1}` + "\n", 2, "zz"},
		"number for string":  {header + `{"seq":1,"at":"5","kind":"note","note":"x"}` + "\n", 2, "string"},
		"unknown kind":       {header + `{"seq":"1","at":"5","kind":"nope","note":"x"}` + "\n", 2, "nope"},
		"wrong payload":      {header + `{"seq":"1","at":"5","kind":"phase","note":"x"}` + "\n", 2, "carries"},
		"no payload":         {header + `{"seq":"1","at":"5","kind":"phase"}` + "\n", 2, "lacks"},
		"two values":         {header + `{"seq":"1","at":"5","kind":"note","note":"x"} {}` + "\n", 2, "more than one"},
		"number skipped":     {header + good + `{"seq":"3","at":"5","kind":"note","note":"x"}` + "\n", 3, "want 2"},
		"unknown phase":      {header + `{"seq":"1","at":"5","kind":"phase","phase":{"name":"zz"}}` + "\n", 2, "zz"},
		"ack without result": {header + `{"seq":"1","at":"5","kind":"produce-ack","produce":{"writer":"w","cluster":"A","topic":"t","partition":0,"mode":"plain","tag":{"cluster":"A","writer":"w","txn":"-1","intent":"none","index":"0","place":"t-0"},"count":1,"offset":"1"}}` + "\n", 2, "result is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Read(strings.NewReader(tc.in))
			var bad *LineError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, tc.line, bad.Line)
			require.ErrorContains(t, err, tc.says)
		})
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk is full") }

func TestFailedWriteSticks(t *testing.T) {
	w := NewWriter(failingWriter{}, "run", 1, time.Now)
	_, err := w.Append(Event{Kind: KindNote, Note: "x"})
	require.NoError(t, err, "still in the buffer")
	require.ErrorContains(t, w.Sync(), "disk is full")
	_, err = w.Append(Event{Kind: KindNote, Note: "x"})
	require.ErrorContains(t, err, "disk is full")
	require.ErrorContains(t, w.Close(), "disk is full")
}

func TestAppendRefusesAnIncompleteEvent(t *testing.T) {
	w := NewWriter(&bytes.Buffer{}, "run", 1, time.Now)
	_, err := w.Append(Event{Kind: KindPhase})
	require.Error(t, err)
	_, err = w.Append(Event{Kind: KindNote, Note: "x"})
	require.NoError(t, err)
}

func TestTagRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 20, -1)
		tag := Tag{
			Cluster: text.Draw(t, "cluster"), Writer: text.Draw(t, "writer"),
			Txn: rapid.Int64().Draw(t, "txn"), Index: rapid.Int64().Draw(t, "index"),
			Intent: rapid.SampledFrom([]Intent{IntentNone, IntentCommit, IntentAbort, IntentOpen}).Draw(t, "intent"),
			Place:  rapid.String().Draw(t, "place"),
		}
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		got, err := TagOf([]byte(tag.String()), tag.Value(payload))
		require.NoError(t, err)
		require.Equal(t, tag, got)
	})
}

func TestTagOfARecordWithNullValue(t *testing.T) {
	tag := Tag{Cluster: "A", Writer: "w", Txn: 3, Intent: IntentCommit, Index: 4, Place: "t-0"}
	got, err := TagOf([]byte(tag.String()), nil)
	require.NoError(t, err)
	require.Equal(t, tag, got)
}

func TestTagOfRefusesHalfATag(t *testing.T) {
	a := Tag{Cluster: "A", Writer: "w", Txn: NoTxn, Intent: IntentNone, Place: "t-0"}
	b := a.Add(1)
	require.Equal(t, int64(1), b.Index)
	_, err := TagOf(nil, []byte("plain value"))
	require.ErrorIs(t, err, ErrNoTag)
	_, err = TagOf(nil, a.Value(nil))
	require.ErrorContains(t, err, "missing")
	_, err = TagOf([]byte(a.String()), []byte("x"))
	require.ErrorContains(t, err, "does not")
	_, err = TagOf([]byte(a.String()), b.Value(nil))
	require.ErrorContains(t, err, "the value")
	_, err = TagOf([]byte(a.String()), []byte{})
	require.ErrorContains(t, err, "does not", "an empty value is not a null one")
	_, err = TagOf(nil, nil)
	require.ErrorIs(t, err, ErrNoTag)
	for _, s := range []string{"", "ws1", "ws1/A/w/x/none/0/t", "ws1/A/w/1/maybe/0/t", "ws1/%zz/w/1/none/0/t", "ws1//w/1/none/0/t", "ws2/A/w/1/none/0/t"} {
		_, err := ParseTag(s)
		require.Error(t, err, s)
	}
}

func FuzzParseTag(f *testing.F) {
	f.Add(Tag{Cluster: "A", Writer: "w", Txn: NoTxn, Intent: IntentNone, Place: "t-0"}.String())
	f.Fuzz(func(t *testing.T, s string) {
		tag, err := ParseTag(s)
		if err != nil {
			return
		}
		again, err := ParseTag(tag.String())
		require.NoError(t, err)
		require.Equal(t, tag, again)
	})
}

func FuzzRead(f *testing.F) {
	var out bytes.Buffer
	w := NewWriter(&out, "run", 1, time.Now)
	for _, e := range sampleEvents() {
		if _, err := w.Append(e); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		_, _, err := Read(bytes.NewReader(in))
		var bad *LineError
		if err != nil && !errors.As(err, &bad) {
			t.Fatalf("error without a line: %v", err)
		}
	})
}

func TestOutcomeOf(t *testing.T) {
	for code, want := range map[int16]Outcome{0: OK, -1: Unknown, 6: Unknown, 7: Unknown, 19: Refused, 13: Unknown, 20: Unknown, 56: Unknown, 45: Refused, 47: Refused, 134: Refused, 9999: Unknown} {
		require.Equal(t, want, OutcomeOf(code), "code %d", code)
	}
}
