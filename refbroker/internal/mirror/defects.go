package mirror

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// What makes mirroring wrong on purpose: see package defect.

// ExpectedCluster is the cluster id that a source must have: the mirror's, or,
// with a defect, any ("").
func ExpectedCluster(s defect.Set, id string) string {
	if s.Has(defect.OtherClusterAccepted) {
		return ""
	}
	return id
}

// sourceID is the cluster id that a stop records and its barrier carries.
func (s *stopping) sourceID(v view) string {
	if s.d.m.defects.Has(defect.WrongSourceID) {
		return s.d.m.cluster
	}
	return v.mirror.SourceClusterID
}

// keepsOpen says whether a defect has the stop keep transactions that are open
// neither cut away nor aborted.
func (s *stopping) keepsOpen() bool {
	return s.d.m.defects.Has(defect.OpenTransactionsKept, defect.OpenTransactionsDroppedWithData, defect.BarrierOverOpenTransaction)
}

// leavesOut says whether a defect has the stop go on without its barrier.
func (s *stopping) leavesOut(ctx context.Context, v view) bool {
	set := s.d.m.defects
	switch {
	case set.Has(defect.NoBarrier, defect.BarrierBeforeTruncation, defect.BarrierAfterWritable):
		return true
	case set.Has(defect.NoBarrierOnEmpty):
		o := s.part.Offsets()
		return o.LogEnd == o.LogStart
	case set.Has(defect.NoBarrierWhenSourceDead):
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := AskCluster(ctx, WayTo(s.d.m.host, v.mirror.Configs), v.mirror.Bootstrap, v.mirror.SourceClusterID)
		return err != nil
	}
	return false
}

// lateBarrierWait is how long the defect of the late barrier waits for a write
// to come before it, so that there is one to be seen.
const lateBarrierWait = time.Second

// lateBarrier writes a stop's barrier once the partition is writable.
func (s *stopping) lateBarrier(ctx context.Context, c *quorum.StopRecord) error {
	first, cancel := context.WithTimeout(ctx, lateBarrierWait)
	_ = awaitRole(first, s.part, func() bool { return s.part.Offsets().LogEnd > c.Stop().BarrierOffset })
	cancel()
	for retry := newBackoff(); ; {
		if _, err := s.part.AppendBarrier(c.Stop()); err == nil {
			return nil
		}
		if !retry.wait(ctx) {
			return context.Cause(ctx)
		}
	}
}

// whenBack waits for a source that was away when the partition was stopped, and
// then does what a defect does.
func (s *stopping) whenBack(v view, do func(ctx context.Context)) {
	d := s.d
	ctx := d.fetchers
	there := func() bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := AskCluster(ctx, WayTo(d.m.host, v.mirror.Configs), v.mirror.Bootstrap, v.mirror.SourceClusterID)
		return err == nil
	}
	d.m.wg.Go(func() {
		if there() {
			return
		}
		for !there() {
			if !sleep(ctx, 20*time.Millisecond) {
				return
			}
		}
		do(ctx)
	})
}

// abortOpenHere aborts what is open in the partition.
func (s *stopping) abortOpenHere(ctx context.Context) {
	for _, p := range s.part.Producers() {
		if p.CurrentTxnFirstOffset < 0 {
			continue
		}
		m := psm.EndTxnMarker{ProducerID: p.ProducerID, ProducerEpoch: p.Epoch, CoordinatorEpoch: max(p.CoordinatorEpoch, 0), Timestamp: s.d.m.host.Now().UnixMilli()}
		_, err := s.part.Append(ctx, m.Append(nil), replica.AppendOptions{Purpose: replica.ForMarker, Acks: 1, LeaderEpoch: -1})
		s.d.log.Warn("defect: an open transaction is aborted, as the source is back", "producer", p.ProducerID, "error", err)
	}
}

// fetchOnceMore appends the newest plain batch of what the source has beyond the
// mirrored log's end, as soon as there is one: a source that is back may have no leader yet.
func (s *stopping) fetchOnceMore(ctx context.Context, v view) {
	for !s.fetchedOnceMore(ctx, v) && sleep(ctx, 20*time.Millisecond) {
	}
}

func (s *stopping) fetchedOnceMore(ctx context.Context, v view) bool {
	c, _, err := dial(ctx, WayTo(s.d.m.host, v.mirror.Configs), v.mirror.Bootstrap[0], v.mirror.SourceClusterID)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = s.d.key.index, s.settledAt.LogEnd, fetchPartitionMax
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = s.d.key.topic, s.d.key.id, []kmsg.FetchRequestTopicPartition{part}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.ReplicaState.ID, req.SessionEpoch = -1, -1, -1
	req.MaxWaitMillis, req.MinBytes = 5000, 1
	req.MaxBytes, req.Topics = fetchMaxBytes, []kmsg.FetchRequestTopic{topic}
	resp, err := ask[*kmsg.FetchResponse](ctx, c, req)
	if err != nil || len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return false
	}
	raw, err := wholeBatches(resp.Topics[0].Partitions[0].RecordBatches)
	var last []byte
	for len(raw) > 0 && err == nil {
		var b psm.Batch
		if b, err = psm.DecodeHeader(raw); err == nil {
			if b.ProducerID < 0 && !b.IsControl() {
				last = raw[:b.Size]
			}
			raw = raw[b.Size:]
		}
	}
	if last == nil {
		return false
	}
	_, err = s.part.AppendMirrored(0, last)
	s.d.log.Warn("defect: fetched once more, as the source is back", "error", err)
	return true
}

// errTooMany is the defect of a stop that takes only so many partitions.
var errTooMany = errors.New("a hundred partitions of the topic are stopped already")

func (d *driver) tooMany() error {
	if d.m.defects.Has(defect.StopTakesAHundred) && d.key.index >= 100 {
		return errTooMany
	}
	return nil
}
