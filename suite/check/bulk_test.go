package check

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// bulk makes many records without keeping them: batches of one writer that differ
// in their numbers only.
type bulk struct {
	batch   []byte
	records int
	digits  []int // where the records' indexes stand in the batch
	next    int64 // number of the next record
}

// firstIndex keeps the number of digits the same.
const firstIndex = 100_000_000

func (b *bulk) tag(n int64) history.Tag {
	return history.Tag{Cluster: "A", Writer: "bulk", Txn: history.NoTxn, Intent: history.IntentNone, Index: firstIndex + n, Place: "t-0"}
}

func newBulk(records, payload int) *bulk {
	b := &bulk{records: records}
	s := spec{epoch: 3, pid: 5000, payload: string(bytes.Repeat([]byte("x"), payload)), time: 1000}
	for n := range int64(records) {
		s.tags = append(s.tags, b.tag(n))
	}
	b.batch = s.encode()
	for n := range int64(records) {
		text := []byte(strconv.FormatInt(firstIndex+n, 10))
		for at := 0; ; at += len(text) {
			i := bytes.Index(b.batch[at:], text)
			if i < 0 {
				break
			}
			at += i
			b.digits = append(b.digits, at)
		}
	}
	return b
}

// write returns the next batch's bytes, until the next call.
func (b *bulk) write() []byte {
	binary.BigEndian.PutUint64(b.batch, uint64(b.next))
	binary.BigEndian.PutUint32(b.batch[53:], uint32(b.next))
	for i, at := range b.digits {
		strconv.AppendInt(b.batch[:at], firstIndex+b.next+int64(i*b.records/len(b.digits)), 10)
	}
	binary.BigEndian.PutUint32(b.batch[17:], crc32.Checksum(b.batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	b.next += int64(b.records)
	return b.batch
}

// saveBulk saves a good world before whose records n others lie, in batches of so
// many; each batch is a write, and was read by a reader of each isolation level.
func saveBulk(t testing.TB, n int64, perBatch, payload int) string {
	w := newWorldWith(0, func(w *world, log *[]spec, leader int32, cluster string) {
		if cluster == "A" { // one more, where the others end
			*log = append(*log, spec{base: n, epoch: leader, pid: 5000, seq: int32(n), tags: []history.Tag{(&bulk{}).tag(n)}, payload: "last"})
			w.send((*log)[0], history.Idempotent, n, "", ok)
		}
	})
	events := w.events
	w.events = nil
	dir := w.save(t)
	first := "00000000000000000000.log"
	a, b := filepath.Join(dir, LogDir("A", 1, "t", 0)), filepath.Join(dir, LogDir("B", 1, "t", 0))
	for _, log := range []string{a, b} {
		require.NoError(t, os.Rename(filepath.Join(log, first), filepath.Join(log, fmt.Sprintf("%020d.log", n))))
	}
	f, err := os.Create(filepath.Join(a, first))
	require.NoError(t, err)
	out := bufio.NewWriterSize(f, 1<<20)
	for batch := newBulk(perBatch, payload); batch.next < n; {
		_, err := out.Write(batch.write())
		require.NoError(t, err)
	}
	require.NoError(t, out.Flush())
	require.NoError(t, f.Close())
	require.NoError(t, os.Link(filepath.Join(a, first), filepath.Join(b, first)))

	require.NoError(t, os.Remove(filepath.Join(dir, HistoryFile)))
	h, err := history.Create(filepath.Join(dir, HistoryFile), w.run.Scenario, w.run.Seed)
	require.NoError(t, err)
	at := int64(0)
	add := func(e history.Event) {
		at += int64(time.Millisecond)
		e.At = at
		_, err := h.Append(e)
		require.NoError(t, err)
	}
	tags := &bulk{}
	for base := int64(0); base < n; base += int64(perBatch) {
		w.op++
		p := history.Produce{Writer: "bulk", Cluster: "A", Topic: "t", Mode: history.Idempotent, Tag: tags.tag(base), Count: int32(perBatch), Offset: -1}
		add(history.Event{Kind: history.KindProduceBegin, Op: w.op, Produce: &p})
		p.Offset, p.Result = base, &ok
		add(history.Event{Kind: history.KindProduceAck, Op: w.op, Produce: &p})
	}
	for i, e := range events {
		if e.Kind == history.KindRead && events[i-1].Kind != history.KindRead { // a reader begins
			for base := int64(0); base < n; base += int64(perBatch) {
				one := *e.Read
				one.Offset, one.Tag, one.Count = base, tags.tag(base).String(), int32(perBatch)
				add(history.Event{Kind: history.KindRead, Read: &one})
			}
		}
		add(e)
	}
	require.NoError(t, h.Close())
	return dir
}

// underRace says whether the race detector is built in, which takes ten times the
// time.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// peak runs do and returns the most bytes of live and dead objects that the heap
// held meanwhile.
func peak(do func()) (most uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	do()
	close(done)
	<-stopped
	return most
}

// A run of any length is judged in memory that does not hold its logs, nor its
// history: some tens of bytes for each record of batches of some size.
func TestALongRunIsJudgedInBoundedMemory(t *testing.T) {
	records := int64(2_000_000)
	if testing.Short() || underRace() {
		records = 200_000
	}
	if n := os.Getenv("WATERSHED_JUDGE_RECORDS"); n != "" {
		var err error
		records, err = strconv.ParseInt(n, 10, 64)
		require.NoError(t, err)
	}
	const perRecord, beside = 32, 32 << 20
	dir := saveBulk(t, records, 50, 20)
	runtime.GC()
	limit := records*perRecord + beside
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	began, wall := processorTime(t), time.Now()
	var verdicts []Verdict
	most := peak(func() {
		ev, err := Load(dir)
		require.NoError(t, err)
		verdicts = All(ev)
		require.NoError(t, ev.Close())
	})
	for _, v := range verdicts {
		require.Equal(t, Held, v.Outcome, "%s: %s", v.Requirement, v.Reason)
	}
	bytes := logBytes(t, dir)
	t.Logf("%d records, %d MB of logs: %s of processor time in %s; the heap held at most %d MB, %d bytes for a record", records, bytes/1e6,
		(processorTime(t) - began).Round(time.Millisecond), time.Since(wall).Round(time.Millisecond), most/1e6, most/uint64(records))
	require.LessOrEqual(t, most, uint64(limit))
}
