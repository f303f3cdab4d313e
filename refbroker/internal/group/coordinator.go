package group

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

// TopicName is the internal topic that holds groups and their offsets.
const TopicName = quorum.OffsetsTopic

// PartitionFor is the partition of [TopicName] that holds a group: by the same
// hash as that of transactional ids.
func PartitionFor(group string, partitions int) int32 { return shards.PartitionFor(group, partitions) }

// Log is what the coordinator needs of a partition of [TopicName];
// replica.API has it.
type Log interface {
	Append(ctx context.Context, raw []byte, o replica.AppendOptions) (replica.AppendResult, error)
	Read(o replica.ReadOptions) (replica.ReadResult, error)
	Settle(ctx context.Context) (replica.Offsets, error)
	Changed() <-chan struct{}
	StartVerification(producerID int64, epoch int16, baseSequence int32, v2 bool) (guard uint64, ongoing bool, err error)
}

// Cluster is what the coordinator asks the rest of its node. Nothing here may
// wait for the coordinator.
type Cluster interface {
	// Topic is [TopicName]. Changed is closed too when TopicID may answer
	// otherwise.
	shards.Topic
	Cuts
	// Open returns this node's replica of a partition of [TopicName].
	Open(shard int32) (Log, error)
	// TopicID is the id of the topic that has a name now.
	TopicID(topic string) (id [16]byte, ok bool)
}

// Settings are a broker's configuration of groups. Zero values get Kafka's
// defaults.
type Settings struct {
	// InitialRebalanceDelay is group.initial.rebalance.delay.ms (3 s; negative
	// for none).
	InitialRebalanceDelay time.Duration
	// MinSession and MaxSession are group.min.session.timeout.ms (6 s) and
	// group.max.session.timeout.ms (30 minutes).
	MinSession, MaxSession time.Duration
	// OffsetsRetention is offsets.retention.minutes (7 days).
	OffsetsRetention time.Duration
	// SweepEvery is offsets.retention.check.interval.ms (Kafka: 10 minutes;
	// here 1).
	SweepEvery time.Duration
	// MaxMetadata is offset.metadata.max.bytes (4096).
	MaxMetadata int
}

// The defaults of [Settings], Kafka's.
const (
	DefaultInitialRebalanceDelay = 3 * time.Second
	DefaultMinSession            = 6 * time.Second
	DefaultMaxSession            = 30 * time.Minute
	DefaultOffsetsRetention      = 7 * 24 * time.Hour
)

// Config is what a Coordinator needs. Zero durations get their defaults.
type Config struct {
	Settings
	Cluster  Cluster
	Verifier env.TxnVerifier
	// TransactionVersion is the finalized feature: 1 or 2.
	TransactionVersion int16
	// Now is the wall clock, for the timestamps in the log.
	Now func() time.Time
	Log *slog.Logger
	// WriteTimeout is offsets.commit.timeout.ms, which bounds one write to the
	// coordinator's log (5 s).
	WriteTimeout time.Duration
	// Backoff lies between attempts to load, or to follow the log (20 ms,
	// doubled up to 50 times that).
	Backoff time.Duration
	// NotLowered makes it wrong: see defect.GroupOffsetsNotLowered.
	NotLowered bool
	// LoadWait is how long a request waits for a shard that is being loaded
	// before it is answered COORDINATOR_LOAD_IN_PROGRESS (500 ms).
	LoadWait time.Duration
}

// freshTimeout is how long a first join waits for a rebalance to end; its
// client may be long gone (KAFKA-7610).
const freshTimeout = 5 * time.Minute

func (c *Config) setDefaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.InitialRebalanceDelay, DefaultInitialRebalanceDelay)
	set(&c.MinSession, DefaultMinSession)
	set(&c.MaxSession, DefaultMaxSession)
	set(&c.OffsetsRetention, DefaultOffsetsRetention)
	set(&c.SweepEvery, time.Minute)
	set(&c.WriteTimeout, 5*time.Second)
	set(&c.Backoff, 20*time.Millisecond)
	set(&c.LoadWait, 500*time.Millisecond)
	c.InitialRebalanceDelay = max(c.InitialRebalanceDelay, 0)
	if c.MaxMetadata == 0 {
		c.MaxMetadata = 4096
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Coordinator is a node's group coordinator. Its methods answer *kerr.Error
// values.
type Coordinator struct {
	cfg    Config
	shards *shards.Set[*shard]
}

// New returns a Coordinator, which answers NOT_COORDINATOR or
// COORDINATOR_LOAD_IN_PROGRESS until [Coordinator.Run] has loaded what this
// node leads.
func New(cfg Config) *Coordinator {
	cfg.setDefaults()
	c := &Coordinator{cfg: cfg}
	c.shards = shards.New(cfg.Cluster, func(ctx context.Context, index, epoch int32) *shard { return newShard(ctx, c, index, epoch) })
	return c
}

// Run follows the leadership of [TopicName] until ctx ends, and then waits for
// everything that it started.
func (c *Coordinator) Run(ctx context.Context) { c.shards.Run(ctx) }

// loaded returns the part of the coordinator that a group belongs to, and waits
// a little for what is being loaded.
func (c *Coordinator) loaded(ctx context.Context, group string) (*shard, error) {
	s, loaded, err := c.shards.Await(ctx, group, c.cfg.LoadWait)
	switch {
	case err != nil:
		return nil, err
	case !loaded:
		return nil, kerr.CoordinatorLoadInProgress
	}
	return s, nil
}

func (c *Coordinator) wall() int64 { return c.cfg.Now().UnixMilli() }

// writeError is the answer to a client for a failed write to the coordinator's
// own log.
func writeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.NotLeaderForPartition), errors.Is(err, kerr.FencedLeaderEpoch),
		errors.Is(err, kerr.UnknownLeaderEpoch), errors.Is(err, kerr.NotCoordinator), errors.Is(err, kerr.KafkaStorageError):
		return kerr.NotCoordinator
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return kerr.InvalidCommitOffsetSize
	case errors.Is(err, kerr.InvalidProducerEpoch):
		return kerr.InvalidProducerEpoch
	case errors.Is(err, kerr.InvalidTxnState):
		return kerr.InvalidTxnState
	}
	return kerr.CoordinatorNotAvailable
}
