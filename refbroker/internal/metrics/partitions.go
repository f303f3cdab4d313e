package metrics

import (
	"strconv"
	"time"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

func partitionMetrics() []metric {
	of := []string{"topic", "partition"}
	return []metric{
		gauge("refbroker_partitions", "Partitions of which this node has a replica."),
		gauge("refbroker_leaders", "Partitions that this node leads."),
		gauge("refbroker_under_replicated_partitions", "Partitions that this node leads of which not all replicas are in sync."),
		gauge("refbroker_under_min_isr_partitions", "Partitions that this node leads with fewer in-sync replicas than min.insync.replicas."),
		gauge("refbroker_offline_replicas", "Replicas of this node whose storage takes nothing until a restart."),
		gauge("refbroker_producers", "Producer ids that the partitions led by this node know, in total."),
		gauge("refbroker_open_transactions", "Transactions open in partitions that this node leads; one counts in each of its partitions."),
		gauge("refbroker_oldest_open_transaction_seconds", "Age of the oldest open transaction in a partition that this node leads, by the time of its first batch; 0 for none."),
		gauge("refbroker_partition_isr", "In-sync replicas of a partition that this node leads.", of...),
		gauge("refbroker_partition_replicas", "Replicas of a partition that this node leads.", of...),
		gauge("refbroker_partition_leader_epoch", "Leader epoch of a partition that this node leads.", of...),
		gauge("refbroker_partition_log_start_offset", "Log start offset of a partition that this node leads.", of...),
		gauge("refbroker_partition_log_end_offset", "Log end offset of a partition that this node leads.", of...),
		gauge("refbroker_partition_high_watermark", "High watermark of a partition that this node leads.", of...),
		gauge("refbroker_partition_last_stable_offset_lag", "High watermark less last stable offset: what readers of committed records wait for.", of...),
		gauge("refbroker_partition_producers", "Producer ids that a partition led by this node knows.", of...),
		gauge("refbroker_partition_open_transactions", "Transactions open in a partition that this node leads.", of...),
		gauge("refbroker_log_size_bytes", "Size of the log of a replica of this node, led or not.", of...),
	}
}

// totals are the sums over a node's partitions.
type totals struct {
	partitions, leaders, underReplicated, underMinISR, offline, producers, open int
	oldest                                                                      time.Duration
}

func (p Parts) partitions(s *sink) {
	img := p.Quorum.Image()
	var sum totals
	for _, part := range p.Replicas.All() {
		sum.partitions++
		if part.Failure() != nil {
			sum.offline++
		}
		name, index := part.Topic(), strconv.Itoa(int(part.Index()))
		s.set("refbroker_log_size_bytes", float64(part.Size()), name, index)
		if t, ok := img.Topics[name]; ok && int(part.Index()) < len(t.Partitions) && t.Partitions[part.Index()].Leader == p.Node {
			p.led(s, &sum, part, t, t.Partitions[part.Index()])
		}
	}
	for name, value := range map[string]int{
		"refbroker_partitions": sum.partitions, "refbroker_leaders": sum.leaders,
		"refbroker_under_replicated_partitions": sum.underReplicated, "refbroker_under_min_isr_partitions": sum.underMinISR,
		"refbroker_offline_replicas": sum.offline, "refbroker_producers": sum.producers, "refbroker_open_transactions": sum.open,
	} {
		s.set(name, float64(value))
	}
	s.set("refbroker_oldest_open_transaction_seconds", sum.oldest.Seconds())
}

// led tells of a partition that this node leads.
func (p Parts) led(s *sink, sum *totals, part *replica.Partition, t *quorum.Topic, q *quorum.Partition) {
	of := []string{t.Name, strconv.Itoa(int(part.Index()))}
	sum.leaders++
	if len(q.ISR) < len(q.Replicas) {
		sum.underReplicated++
	}
	if len(q.ISR) < part.MinISR() {
		sum.underMinISR++
	}
	o := part.Offsets()
	producers := part.Producers()
	open, first := 0, int64(-1)
	for _, producer := range producers {
		if at := producer.CurrentTxnFirstOffset; at >= 0 {
			open++
			if first < 0 || at < first {
				first = at
			}
		}
	}
	sum.producers += len(producers)
	sum.open += open
	if since, ok := begun(part, first); ok {
		sum.oldest = max(sum.oldest, p.Now().Sub(since))
	}
	for name, value := range map[string]int64{
		"isr": int64(len(q.ISR)), "replicas": int64(len(q.Replicas)), "leader_epoch": int64(o.LeaderEpoch),
		"log_start_offset": o.LogStart, "log_end_offset": o.LogEnd, "high_watermark": o.HighWatermark,
		"last_stable_offset_lag": o.HighWatermark - min(o.LastStable, o.HighWatermark), "producers": int64(len(producers)), "open_transactions": int64(open),
	} {
		s.set("refbroker_partition_"+name, float64(value), of...)
	}
}

// begun is the time of the batch at an offset: that of the first batch of the
// oldest transaction, which is asked for only where one is open.
func begun(part *replica.Partition, offset int64) (time.Time, bool) {
	if offset < 0 {
		return time.Time{}, false
	}
	read, err := part.Read(replica.ReadOptions{Offset: offset, MinOne: true, ReplicaID: -1, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
	if err != nil {
		return time.Time{}, false
	}
	b, err := psm.DecodeHeader(read.Raw)
	if err != nil || b.BaseTimestamp < 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(b.BaseTimestamp), true
}
