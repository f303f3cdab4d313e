package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/quorum"
)

// What a stop costs is counted, not timed: the records of the quorum hardly grow
// with the partitions, and what is synced grows with them alone, not with their
// producers (OPS-3).
func TestWhatAStopOfManyPartitionsCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		costs := map[[2]int32]stopCost{}
		for _, size := range [][2]int32{{6, 10}, {60, 10}, {6, 500}} {
			c := &stopCluster{tb: t}
			b := newBubbleCluster(t, newSea(), func(cfg *Config) { cfg.Host.FS = countedFS{cfg.Host.FS, &c.syncs} })
			c.nodes = b.nodes
			c.fill(size[0], size[1])
			costs[size] = c.stop(size[0], size[1])
			c.check(size[0], size[1])
			b.closeAll()
		}
		few, many, producers := costs[[2]int32{6, 10}], costs[[2]int32{60, 10}], costs[[2]int32{6, 500}]
		t.Logf("records %d and %d, syncs %d, %d and %d", few.records, many.records, few.syncs, many.syncs, producers.syncs)
		require.LessOrEqual(t, many.records, uint64(30), "half a record a partition: drivers record together")
		// A minute may be over, and every node write its checkpoints: three files.
		const checkpoints = 3 * 3 * 2
		require.LessOrEqual(t, many.syncs, int64(60*7+checkpoints), "two a follower, three the leader")
		require.LessOrEqual(t, many.syncs, 10*few.syncs+checkpoints, "linear")
		require.LessOrEqual(t, producers.syncs, few.syncs+checkpoints, "whatever number of producers there was")
	})
}

// stopCost is what one stop took.
type stopCost struct {
	partitions, producers int32
	took                  time.Duration
	cpu                   time.Duration // of the process: three nodes
	records               uint64        // of the metadata quorum
	syncs                 int64         // of files and folders, all nodes
	others                float64       // other processes' share of the processors
}

// countedFS counts syncs. The files are what they were, so that broker and kernel
// treat them alike.
type countedFS struct {
	afero.Fs
	syncs *atomic.Int64
}

type countedFile struct {
	afero.File
	syncs *atomic.Int64
}

func (f countedFile) Sync() error {
	f.syncs.Add(1)
	return f.File.Sync()
}

func (c countedFS) counted(f afero.File, err error) (afero.File, error) {
	if err != nil {
		return nil, err
	}
	return countedFile{f, c.syncs}, nil
}

func (c countedFS) Open(name string) (afero.File, error) {
	if strings.HasSuffix(name, ".log") {
		return c.Fs.Open(name) // read only; an *os.File is read by many at once
	}
	return c.counted(c.Fs.Open(name))
}

func (c countedFS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	return c.counted(c.Fs.OpenFile(name, flag, perm))
}

func (c countedFS) Create(name string) (afero.File, error) { return c.counted(c.Fs.Create(name)) }

// stopCluster is three nodes whose mirror is stopped.
type stopCluster struct {
	tb    testing.TB
	nodes []*Node
	syncs atomic.Int64
	// whole: no transaction is open, so that a stop cuts nothing.
	whole bool
	// inMemory: the files are, so that there may be more of them than a process may open.
	inMemory bool
}

// stop stops the mirror, and waits until all nodes know that it is.
func (c *stopCluster) stop(partitions, producers int32) stopCost {
	cost := stopCost{partitions: partitions, producers: producers}
	before := c.nodes[0].Env().Quorum.Image().Index
	c.syncs.Store(0)
	began := time.Now()
	c.apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Stopped})
	c.wait(func(p *quorum.Partition) bool { return p.Mirror.State == quorum.Stopped })
	cost.took, cost.syncs = time.Since(began), c.syncs.Load()
	cost.records = c.nodes[0].Env().Quorum.Image().Index - before
	return cost
}

func (c *stopCluster) apply(command quorum.Command) {
	_, err := c.nodes[0].Env().Quorum.Apply(c.tb.Context(), command)
	for again := err; errors.Is(again, kerr.RequestTimedOut); {
		// Thousands of partitions on a busy machine. It may have been done: then it
		// is refused, and what comes of it is waited for.
		_, again = c.nodes[0].Env().Quorum.Apply(c.tb.Context(), command)
		err = nil
	}
	require.NoError(c.tb, err)
}

// wait waits until every node's metadata says something of all partitions.
func (c *stopCluster) wait(ok func(*quorum.Partition) bool) {
	for _, n := range c.nodes {
		_, err := n.Env().Quorum.Wait(c.tb.Context(), func(img *quorum.Image) bool {
			t := img.Topics["t"]
			return t != nil && !slices.ContainsFunc(t.Partitions, func(p *quorum.Partition) bool { return !ok(p) })
		})
		require.NoError(c.tb, err)
	}
}

// fill makes a topic whose partitions mirror a source that is gone, and hold what
// it had: a batch of each producer, the last of them in an open transaction.
func (c *stopCluster) fill(partitions, producers int32) {
	b := c.tb
	assignment := make([][]int32, partitions)
	for i := range partitions {
		assignment[i] = []int32{i % 3, (i + 1) % 3, (i + 2) % 3}
	}
	c.apply(quorum.CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: assignment})
	c.apply(quorum.CreateMirror{Name: "m", SourceClusterID: crashSource, Bootstrap: []string{"127.0.0.1:1"}})
	c.apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Mirroring})
	var aligned []quorum.PartitionCommand
	for i, p := range c.nodes[0].Env().Quorum.Image().Topics["t"].Partitions {
		aligned = append(aligned, quorum.AlignMirror{Topic: "t", Partition: int32(i), LeaderEpoch: p.LeaderEpoch, LogEpoch: 5})
	}
	for some := range slices.Chunk(aligned, 1000) {
		together, err := quorum.NewTogether(some)
		require.NoError(b, err)
		c.apply(together)
	}
	c.wait(func(p *quorum.Partition) bool { return p.Mirror.State == quorum.Mirroring && len(p.ISR) == 3 })
	raw := manyBatches(producers, !c.whole)
	var filling sync.WaitGroup
	for _, n := range c.nodes {
		filling.Go(func() {
			for i := n.Env().NodeID; i < partitions; i += 3 {
				part, err := n.Env().Replicas.Partition("t", i)
				var session uint64
				if err == nil {
					session, err = part.BeginMirror()
				}
				if err == nil {
					_, err = part.AppendMirrored(session, slices.Clone(raw))
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	filling.Wait()
	require.False(b, b.Failed())
	for i := range partitions {
		part, err := c.nodes[i%3].Env().Replicas.Partition("t", i)
		require.NoError(b, err)
		require.NoError(b, part.WaitCommitted(b.Context(), int64(producers-1)))
	}
}

// check looks at every replica: cut, one barrier, no producer, and writable.
func (c *stopCluster) check(partitions, producers int32) {
	at := int64(producers - 1)
	if c.whole {
		at++
	}
	ctx, cancel := context.WithTimeout(c.tb.Context(), patience)
	defer cancel()
	for _, n := range c.nodes {
		for i := range partitions {
			part, err := n.Env().Replicas.Partition("t", i)
			require.NoError(c.tb, err)
			for part.Offsets().HighWatermark <= at {
				require.NoError(c.tb, sleep(ctx, 5*time.Millisecond))
			}
			require.False(c.tb, part.ReadOnly())
			require.Empty(c.tb, part.Producers())
			require.Len(c.tb, part.Barriers(), 1)
			require.Equal(c.tb, at, part.Barriers()[0].Offset)
		}
	}
}

// manyBatches are mirrored batches of as many producers, one each. That of the
// last may be in a transaction, which a stop cuts.
func manyBatches(producers int32, open bool) []byte {
	var all []byte
	for i := range int64(producers) {
		raw := batchOf("v", func(b *kmsg.RecordBatch) {
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = i, 0, 0
			b.FirstTimestamp = time.Now().UnixMilli()
			b.MaxTimestamp = b.FirstTimestamp
			if open && i == int64(producers)-1 {
				b.Attributes |= 1 << 4
			}
		})
		binary.BigEndian.PutUint64(raw, uint64(i))
		binary.BigEndian.PutUint32(raw[12:], 3)
		all = append(all, raw...)
	}
	return all
}
