package psm

import "log/slog"

// Origin says on whose behalf a batch is appended.
type Origin uint8

// The origins (Kafka's AppendOrigin).
const (
	// Client is a produce request: everything is checked.
	Client Origin = iota
	// Coordinator is a group or transaction coordinator, or the broker
	// itself: epochs are checked, sequences are not. A barrier from here is
	// the partition's own.
	Coordinator
	// Replication is a follower's fetch, a mirror's fetch, a reload or a
	// recovery: the log is the truth, nothing but transaction state is
	// checked.
	Replication
)

// Producer is what is known of one producer id, for DescribeProducers.
type Producer struct {
	ProducerID int64
	Epoch      int16
	// LastSequence is -1 when no data batch is remembered.
	LastSequence int32
	// LastTimestamp in ms, -1 for none.
	LastTimestamp int64
	// CoordinatorEpoch is the last marker's, -1 for none.
	CoordinatorEpoch int32
	// CurrentTxnFirstOffset is -1 when no transaction is open.
	CurrentTxnFirstOffset int64
}

// Completed is a transaction that an append ended. An aborted one belongs
// into the transaction index.
type Completed struct {
	ProducerID int64
	// FirstOffset is the transaction's first, LastOffset its marker's (or
	// the barrier's that ended it).
	FirstOffset, LastOffset int64
	// LSO is the last stable offset that holds once this transaction has
	// ended and nothing else has: the first offset of the earliest
	// transaction still open, else the offset after LastOffset.
	LSO     int64
	Aborted bool
	// ByBarrier says that no marker but a barrier ended it (PSM-8).
	ByBarrier bool
}

// OpenTxn is a transaction without its marker.
type OpenTxn struct {
	ProducerID  int64
	Epoch       int16
	FirstOffset int64
	// LastTimestamp is the producer's last, in ms.
	LastTimestamp int64
}

// Defaults of [Config], Kafka's own.
const (
	DefaultExpirationMs            int64 = 86_400_000
	DefaultMaxTransactionTimeoutMs int64 = 900_000
	// LateTransactionBufferMs is how far beyond the longest timeout an open
	// transaction counts as late.
	LateTransactionBufferMs int64 = 300_000
)

// Config of a [State]. The zero value has Kafka's defaults, but does not
// verify transactions.
type Config struct {
	// ExpirationMs is producer.id.expiration.ms.
	ExpirationMs int64
	// MaxTransactionTimeoutMs is transaction.max.timeout.ms.
	MaxTransactionTimeoutMs int64
	// VerifyTransactions is transaction.partition.verification.enable.
	VerifyTransactions bool
	// AnyBarrierExpires makes inherited barriers expire producers as own
	// ones do (profile kip1279-latest).
	AnyBarrierExpires bool
	// Log gets what is odd but not refused; nil for nowhere.
	Log *slog.Logger
	// Faults make it wrong on purpose; the zero value is right.
	Faults Faults
}

// Faults make a [State] wrong on purpose, in ways in which brokers were seen to
// be, for suites that have to prove that they see it.
type Faults struct {
	// NegativeIDs keeps state under producer ids below -1 too, which are none.
	NegativeIDs bool
	// PutBack has an append's other batches survive its barrier, and a reload
	// read the log as one append.
	PutBack bool
	// KeepOpen has a barrier pass over producers with an open transaction.
	KeepOpen bool
	// DropOpen has a barrier forget open transactions without aborting them.
	DropOpen bool
	// OverOpen takes a leader's barrier over open transactions, and aborts them.
	OverOpen bool
	// StaleDuplicates has a barrier leave the batches by which retries are known.
	StaleDuplicates bool
	// StaleEpochs has a barrier leave the epochs by which producers are fenced.
	StaleEpochs bool
	// OneBatch knows a producer's newest batch only, where five are promised.
	OneBatch bool
	// OldCoordinators takes markers of older coordinator epochs.
	OldCoordinators bool
	// ForgetDeleted forgets producers whose records lie below the log's start.
	ForgetDeleted bool
}

func (c Config) withDefaults() Config {
	if c.ExpirationMs == 0 {
		c.ExpirationMs = DefaultExpirationMs
	}
	if c.MaxTransactionTimeoutMs == 0 {
		c.MaxTransactionTimeoutMs = DefaultMaxTransactionTimeoutMs
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
