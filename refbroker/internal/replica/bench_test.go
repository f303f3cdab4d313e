package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
)

func fiftyPartitions() *quorum.Image {
	t := &quorum.Topic{Name: "t", ID: [16]byte{1}}
	for range 50 {
		t.Partitions = append(t.Partitions, &quorum.Partition{Replicas: []int32{node}, ISR: []int32{node}, Leader: node})
	}
	return &quorum.Image{Topics: map[string]*quorum.Topic{"t": t}}
}

// BenchmarkFiftyPartitions makes the logs of a topic such as
// __transaction_state, and opens them again.
func BenchmarkFiftyPartitions(b *testing.B) {
	for _, what := range []string{"create", "open"} {
		b.Run(what, func(b *testing.B) {
			dir := b.TempDir()
			img := fiftyPartitions()
			run := func(i int) {
				m, err := NewManager(Config{
					Host: host.Host{FS: afero.NewOsFs(), Now: time.Now}, NodeID: node, Dir: filepath.Join(dir, fmt.Sprint(i)),
				})
				if err != nil {
					b.Fatal(err)
				}
				if err := m.Apply(img); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := m.Close(true); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			if what == "open" {
				run(0)
			}
			for i := 1; b.Loop(); i++ {
				if what == "open" {
					i = 0
				}
				run(i)
			}
		})
	}
}

// BenchmarkRecovery opens fifty logs of 2 MiB each after a crash: all of it is
// read and checked. Logs are opened side by side, as -cpu 1,2 shows.
func BenchmarkRecovery(b *testing.B) {
	conf := Config{Host: host.Host{FS: afero.NewOsFs(), Now: time.Now}, NodeID: node, Dir: b.TempDir()}
	open := func() *Manager {
		m, err := NewManager(conf)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Apply(fiftyPartitions()); err != nil {
			b.Fatal(err)
		}
		return m
	}
	m := open()
	raw := plain(strings.Repeat("v", 16<<10))
	for _, p := range m.All() {
		for range 128 {
			if _, err := p.Append(b.Context(), raw, AppendOptions{LeaderEpoch: -1}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := m.Close(false); err != nil {
		b.Fatal(err)
	}
	// A recovery leaves nothing to recover: each gets the logs as they were.
	crashed := conf.Dir
	b.SetBytes(50 << 21)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		conf.Dir = filepath.Join(b.TempDir(), fmt.Sprint(i))
		if err := os.CopyFS(conf.Dir, os.DirFS(crashed)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		m := open()
		b.StopTimer()
		if err := m.Close(false); err != nil {
			b.Fatal(err)
		}
		if err := os.RemoveAll(conf.Dir); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkAppend(b *testing.B) {
	m, err := NewManager(Config{Host: host.Host{FS: afero.NewOsFs(), Now: time.Now}, NodeID: node, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close(false) }()
	if err := m.Apply(fiftyPartitions()); err != nil {
		b.Fatal(err)
	}
	p, _ := m.Get("t", 0)
	raw := plain("0123456789")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Append(b.Context(), raw, AppendOptions{Acks: -1, LeaderEpoch: -1}); err != nil {
			b.Fatal(err)
		}
	}
}
