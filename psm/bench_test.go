package psm_test

import (
	"fmt"
	"runtime"
	"testing"

	"watershed.example/psm"
)

// producers is a state with n producers that each have written five batches,
// and goes on with batches of random ones. Producer ids count up, as brokers
// give them out. ci/psm-oracle/Bench.java does the same with Kafka's class.
type producers struct {
	s      *psm.State
	seqs   []int32
	end    int64
	random uint64
	b      psm.Batch
	m      *psm.Batch
}

func newProducers(n int) *producers {
	p := &producers{s: psm.New(psm.Config{}), seqs: make([]int32, n), random: 1, m: marker(0, 0, 0, 0, true)}
	for range 5 {
		for pid := range n {
			p.append(int64(pid), false)
		}
	}
	return p
}

func (p *producers) next() int64 {
	p.random = p.random*6364136223846793005 + 1442695040888963407
	return int64((p.random >> 33) % uint64(len(p.seqs)))
}

func (p *producers) append(pid int64, txn bool) {
	b := &p.b
	b.BaseOffset, b.LastOffset = p.end, p.end
	b.ProducerID, b.BaseSequence, b.Count = pid, p.seqs[pid], 1
	b.MaxTimestamp = p.end
	b.Attributes = 0
	if txn {
		b.Attributes = attrTxn
	}
	p.end++
	p.seqs[pid]++
	p.s.Begin(psm.Append{Origin: psm.Client})
	if _, err := p.s.Add(b); err != nil {
		panic(err)
	}
	p.s.Commit()
}

func (p *producers) commit(pid int64) {
	p.m.BaseOffset, p.m.LastOffset, p.m.ProducerID = p.end, p.end, pid
	p.end++
	p.s.Begin(psm.Append{Origin: psm.Coordinator, TransactionVersion: 1})
	if _, err := p.s.Add(p.m); err != nil {
		panic(err)
	}
	p.s.Commit()
	p.s.OnHighWatermark(p.end)
}

// One idempotent batch of a known producer, validated and applied.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newProducers(n)
			b.ReportAllocs()
			for b.Loop() {
				p.append(p.next(), false)
			}
		})
	}
}

// Transactions of four batches and a marker; the time is for each batch.
func BenchmarkAppendTransactional(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newProducers(n)
			b.ReportAllocs()
			i, pid := 0, int64(0)
			for b.Loop() {
				switch i % 5 {
				case 0:
					pid = p.next()
					fallthrough
				case 1, 2, 3:
					p.append(pid, true)
				case 4:
					p.commit(pid)
				}
				i++
			}
		})
	}
}

// A fetched chunk of 16 batches on a follower; the time is for each batch.
func BenchmarkReplicate(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newProducers(n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i%16 == 0 {
					p.s.Begin(psm.Append{Origin: psm.Replication})
				}
				pid := p.next()
				p.b.BaseOffset, p.b.LastOffset, p.b.ProducerID, p.b.BaseSequence = p.end, p.end, pid, p.seqs[pid]
				p.end++
				p.seqs[pid]++
				if _, err := p.s.Add(&p.b); err != nil {
					b.Fatal(err)
				}
				if i++; i%16 == 0 {
					p.s.Commit()
				}
			}
		})
	}
}

func BenchmarkDecodeBatch(b *testing.B) {
	_, raw := readLog(b, "B/t2-0")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := psm.DecodeBatch(raw[0]); err != nil {
			b.Fatal(err)
		}
	}
}

// A snapshot of 100,000 producers, written with sync, and loaded.
func BenchmarkSnapshot(b *testing.B) {
	p := newProducers(100_000)
	st := psm.NewSnapshots(psm.OSDir(b.TempDir()), nil)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if err := st.Write(p.s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		s := psm.New(psm.Config{})
		for b.Loop() {
			if err := s.Reload(st, psm.Reload{Target: p.end, NowMs: p.end}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What a barrier costs that finds n producers.
func BenchmarkBarrier(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newProducers(n)
			full := *p.s
			m := barrier(p.end, 1, "src")
			for b.Loop() {
				s := full
				s.Begin(psm.Append{Origin: psm.Coordinator})
				if _, err := s.Add(m); err != nil {
					b.Fatal(err)
				}
				s.Commit()
			}
		})
	}
}

// How many bytes each of 100,000 producers takes that remember five batches.
func BenchmarkMemory(b *testing.B) {
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := fill(100_000)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/100_000, "B/producer")
		runtime.KeepAlive(s)
	}
}

// fill gives a state of n producers with five batches each.
func fill(n int) *psm.State {
	s := psm.New(psm.Config{})
	var b psm.Batch
	for i := range 5 * n {
		b.BaseOffset, b.LastOffset, b.ProducerID, b.BaseSequence = int64(i), int64(i), int64(i%n), int32(i/n)
		s.Begin(psm.Append{})
		if _, err := s.Add(&b); err != nil {
			panic(err)
		}
		s.Commit()
	}
	return s
}

// The measures that do not depend on the machine's speed.
func TestNoAllocations(t *testing.T) {
	p := newProducers(1000)
	if n := testing.AllocsPerRun(1000, func() { p.append(p.next(), false) }); n != 0 {
		t.Errorf("%v allocations for a batch of a known producer", n)
	}
	_, raw := readLog(t, "B/t2-0")
	if n := testing.AllocsPerRun(100, func() { _, _ = psm.DecodeBatch(raw[3]) }); n != 0 {
		t.Errorf("%v allocations to decode a marker", n)
	}
}

func TestMemoryOfProducers(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := fill(100_000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / 100_000; n > 200 {
		t.Errorf("%d bytes a producer, 200 allowed", n)
	}
	runtime.KeepAlive(s)
}
