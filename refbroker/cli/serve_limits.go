package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"watershed.example/refbroker/internal/broker"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/shards"
	"watershed.example/refbroker/internal/wire"
)

// limitFlags are the flags of serve that bound what clients may do, and that
// set up consumer groups. Their names are those of Apache Kafka's settings.
type limitFlags struct {
	wire.Limits
	group.Settings
	offsetsPartitions, txnPartitions int32
}

func (f *limitFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&f.MaxFrame, "max-request-bytes", wire.DefaultMaxFrame, "largest request (socket.request.max.bytes)")
	flags.Int64Var(&f.MaxQueued, "queued-max-request-bytes", wire.DefaultMaxQueued, "memory of all requests in flight; more of them wait (queued.max.request.bytes)")
	flags.IntVar(&f.MaxConns, "max-connections", wire.DefaultMaxConns, "open connections (max.connections)")
	flags.IntVar(&f.MaxConnsPerIP, "max-connections-per-ip", 0, "open connections from one address, 0 for no limit (max.connections.per.ip)")
	flags.DurationVar(&f.Idle, "connections-max-idle", wire.DefaultIdle, "how long a connection may be without a request (connections.max.idle.ms)")
	flags.DurationVar(&f.InitialRebalanceDelay, "group-initial-rebalance-delay", group.DefaultInitialRebalanceDelay, "how long an empty group waits for more members (group.initial.rebalance.delay.ms)")
	flags.DurationVar(&f.MinSession, "group-min-session-timeout", group.DefaultMinSession, "shortest session of a group's members (group.min.session.timeout.ms)")
	flags.DurationVar(&f.MaxSession, "group-max-session-timeout", group.DefaultMaxSession, "longest session of a group's members (group.max.session.timeout.ms)")
	flags.DurationVar(&f.OffsetsRetention, "offsets-retention", group.DefaultOffsetsRetention, "how long offsets of a group without members are kept (offsets.retention.minutes)")
	flags.Int32Var(&f.offsetsPartitions, "offsets-topic-partitions", shards.Count, "partitions of __consumer_offsets when it is made (offsets.topic.num.partitions)")
	flags.Int32Var(&f.txnPartitions, "transaction-state-partitions", shards.Count, "partitions of __transaction_state when it is made (transaction.state.log.num.partitions)")
}

// set checks the flags and takes them over.
func (f *limitFlags) set(cfg *broker.Config) error {
	for _, p := range []struct {
		flag         string
		value, least int64
	}{
		{"max-request-bytes", int64(f.MaxFrame), 1 << 10},
		{"queued-max-request-bytes", f.MaxQueued, 1 << 20},
		{"max-connections", int64(f.MaxConns), 1},
		{"max-connections-per-ip", int64(f.MaxConnsPerIP), 0},
		{"offsets-topic-partitions", int64(f.offsetsPartitions), 1},
		{"transaction-state-partitions", int64(f.txnPartitions), 1},
	} {
		if p.value < p.least {
			return fmt.Errorf("--%s %d: want at least %d", p.flag, p.value, p.least)
		}
	}
	for _, p := range []struct {
		flag         string
		value, least time.Duration
	}{
		{"connections-max-idle", f.Idle, time.Second},
		{"group-initial-rebalance-delay", f.InitialRebalanceDelay, 0},
		{"group-min-session-timeout", f.MinSession, time.Millisecond},
		{"group-max-session-timeout", f.MaxSession, f.MinSession},
		{"offsets-retention", f.OffsetsRetention, time.Millisecond},
	} {
		if p.value < p.least {
			return fmt.Errorf("--%s %s: want at least %s", p.flag, p.value, p.least)
		}
	}
	cfg.Limits, cfg.Groups = f.Limits, f.Settings
	if cfg.Groups.InitialRebalanceDelay == 0 {
		cfg.Groups.InitialRebalanceDelay = -1 // 0 stands for the default there
	}
	cfg.OffsetsPartitions, cfg.TxnPartitions = f.offsetsPartitions, f.txnPartitions
	return nil
}
