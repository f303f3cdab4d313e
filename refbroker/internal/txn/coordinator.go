package txn

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

// Log is what the coordinator needs of a partition of [TopicName];
// replica.API has it.
type Log interface {
	Append(ctx context.Context, raw []byte, o replica.AppendOptions) (replica.AppendResult, error)
	Read(o replica.ReadOptions) (replica.ReadResult, error)
	Settle(ctx context.Context) (replica.Offsets, error)
}

// Cluster is what the coordinator asks the rest of its node. Nothing here may
// wait for the coordinator.
type Cluster interface {
	// Topic is [TopicName]; the leader epoch is the coordinator epoch of the
	// markers. Changed is closed too when Partition may answer otherwise.
	shards.Topic
	// Open returns this node's replica of a partition of [TopicName].
	Open(shard int32) (Log, error)
	// Partition tells what a transaction must know of a partition.
	Partition(p Partition) PartitionState
	// Elsewhere has the node that leads a partition of [TopicName] verify or
	// add, if that is another one; ok is false when it is this.
	Elsewhere(ctx context.Context, shard int32, r AddRequest) (errs []error, ok bool)
	// AllocateProducerIDs returns a new block of producer ids, unique in the
	// cluster for ever (SC-8): first, first+1, … first+n-1.
	AllocateProducerIDs(ctx context.Context) (first int64, n int, err error)
}

// PartitionState is what a transaction must know of a partition.
type PartitionState struct {
	Exists bool
	// ReadOnly: a mirror keeps this cluster's writes out (RO-1, RO-2).
	ReadOnly bool
	// Aligned: the log was aligned with the source's since the last mirror
	// start, and so holds no open transaction of this cluster that is older.
	Aligned bool
}

// Marker is a transaction's outcome, to be appended to its partitions.
type Marker struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	// Version is the transactions version of the transaction: with 2, Epoch is
	// above that of the transaction's records.
	Version int16
	Commit  bool
	// Owed: a mirror that stops before alignment is still read-only for
	// everything but the markers that its partitions owe.
	Owed bool
}

// MarkerSender brings a marker to the leaders of partitions. It returns one
// error for each, nil once the marker is on all in-sync replicas. Other errors
// are, or wrap, *kerr.Error; what is not final is tried again.
type MarkerSender interface {
	SendMarker(ctx context.Context, m Marker, partitions []Partition) []error
}

// Config is what a Coordinator needs. Zero durations get their defaults.
type Config struct {
	Cluster Cluster
	Markers MarkerSender
	// Now is the wall clock, for the timestamps in the log.
	Now func() time.Time
	Log *slog.Logger
	// Defects make it wrong on purpose.
	Defects defect.Set
	// MaxTimeout is transaction.max.timeout.ms (15 minutes).
	MaxTimeout time.Duration
	// SweepEvery is how often open transactions are checked for their timeout,
	// and debts for their settlement (250 ms).
	SweepEvery time.Duration
	// WriteTimeout bounds one write to the coordinator's log (5 s).
	WriteTimeout time.Duration
	// Expiration is transactional.id.expiration.ms (7 days).
	Expiration time.Duration
	// Backoff lies between attempts to write markers (20 ms, doubled up to
	// 50 times that).
	Backoff time.Duration
	// AddWait is how long an implicit add waits for the end of the transaction
	// before, so that a producer that goes on at once is not sent round again
	// (KAFKA-18575; 100 ms).
	AddWait time.Duration
	// LoadWait is how long a request waits for a shard that is being loaded,
	// before it is answered COORDINATOR_LOAD_IN_PROGRESS (500 ms). Loading is
	// quick, and clients back off for longer.
	LoadWait time.Duration
}

func (c *Config) setDefaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.MaxTimeout, 15*time.Minute)
	set(&c.SweepEvery, 250*time.Millisecond)
	set(&c.WriteTimeout, 5*time.Second)
	set(&c.Expiration, 7*24*time.Hour)
	set(&c.Backoff, 20*time.Millisecond)
	set(&c.AddWait, 100*time.Millisecond)
	set(&c.LoadWait, 500*time.Millisecond)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Coordinator is a node's transaction coordinator. Its methods answer
// *kerr.Error values.
type Coordinator struct {
	cfg Config
	ids idBlock

	shards *shards.Set[*shard]
}

// New returns a Coordinator, which answers NOT_COORDINATOR or
// COORDINATOR_LOAD_IN_PROGRESS until [Coordinator.Run] has loaded what this
// node leads.
func New(cfg Config) *Coordinator {
	cfg.setDefaults()
	c := &Coordinator{cfg: cfg, ids: newIDBlock(cfg.Cluster.AllocateProducerIDs)}
	c.shards = shards.New(cfg.Cluster, func(ctx context.Context, index, epoch int32) *shard { return newShard(ctx, c, index, epoch) })
	return c
}

// Run follows the leadership of [TopicName] until ctx ends, and then waits for
// everything that it started.
func (c *Coordinator) Run(ctx context.Context) { c.shards.Run(ctx) }

// shard returns the part of the coordinator that a transactional id belongs to.
func (c *Coordinator) shard(id string) (*shard, error) { return c.shards.Of(id) }

// loadedShard is shard, but waits a little for what is being loaded.
func (c *Coordinator) loadedShard(ctx context.Context, id string) (*shard, error) {
	s, _, err := c.shards.Await(ctx, id, c.cfg.LoadWait)
	return s, err
}

func (c *Coordinator) now() int64 { return c.cfg.Now().UnixMilli() }

// coordinatorError is the answer to a producer for a failed write to the
// coordinator's own log.
func coordinatorError(err error) error {
	switch {
	case errors.Is(err, kerr.NotLeaderForPartition), errors.Is(err, kerr.FencedLeaderEpoch),
		errors.Is(err, kerr.UnknownLeaderEpoch), errors.Is(err, kerr.NotCoordinator):
		return kerr.NotCoordinator
	default:
		return kerr.CoordinatorNotAvailable
	}
}
