package storage

import (
	"fmt"
	"testing"

	"watershed.example/psm"
)

func benchLog(b *testing.B, p place) *Log {
	return openLog(b, p, Config{Now: now}, OpenOptions{})
}

func BenchmarkAppendAsLeader(b *testing.B) {
	for _, p := range places(b) {
		for _, size := range []int{100, 16 << 10} {
			if p.name == "memory" && size > 100 {
				continue // its files are copied at each growth
			}
			b.Run(fmt.Sprintf("%s/%d", p.name, size), func(b *testing.B) {
				l := benchLog(b, place{fs: p.fs, dir: fmt.Sprint(p.dir, size, b.N)})
				d := by(7, 0, 0, 1)
				d.size = size
				raw := d.build()
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					raw[53], raw[54], raw[55], raw[56] = byte(i>>24), byte(i>>16), byte(i>>8), byte(i)
					setCRC(raw)
					if _, err := l.AppendAsLeader(raw, 0, psm.Append{Origin: psm.Client}); err != nil {
						b.Fatal(err)
					}
					l.SetHighWatermark(int64(i) + 1)
				}
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, p := range places(b) {
		b.Run(p.name, func(b *testing.B) {
			l := benchLog(b, p)
			d := plain(10)
			d.size = 100
			for range 5000 {
				lead(b, l, d.build(), client)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				raw, err := l.Read(int64(i*977%50000), 50000, 64<<10, true)
				if err != nil || len(raw) == 0 {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(raw)))
			}
		})
	}
}

func BenchmarkRecovery(b *testing.B) {
	p := places(b)[0]
	l := benchLog(b, p)
	d := by(1, 0, 0, 10)
	d.size = 100
	for range 20000 {
		lead(b, l, d.build(), client)
		d.seq += 10
	}
	b.SetBytes(l.active().size)
	if err := l.Close(false); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l, err := Open(p.fs, p.dir, Config{Now: now}, OpenOptions{TopicID: topicID})
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Close(false)
		_ = p.fs.Remove(fileName(p.dir, 200000, suffixSnapshot))
	}
}

// A GiB above the recovery point, the files warm: after a kill -9.
func BenchmarkRecoveryOfAGiB(b *testing.B) {
	p := places(b)[0]
	l := benchLog(b, p)
	d := by(1, 0, 0, 10)
	d.size = 1600
	for l.Size() < 1<<30 {
		lead(b, l, d.build(), client)
		d.seq += 10
	}
	size := l.Size()
	if err := l.Close(false); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		l, err := Open(p.fs, p.dir, Config{Now: now}, OpenOptions{TopicID: topicID})
		if err != nil {
			b.Fatal(err)
		}
		if l.Size() != size {
			b.Fatalf("%d bytes are left of %d", l.Size(), size)
		}
		_ = l.Close(false)
	}
}
