package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/shards"
)

// Versions of what coordinators and leaders ask of each other.
const (
	markersVersion = 2
	addVersion     = 5
)

// TagOwed is the tag in a marker of WriteTxnMarkers that says that the
// partition owes it; see [Marker].
const TagOwed = 1000

// SendMarker has the leaders of partitions append a marker, wherever they are.
func (n node) SendMarker(ctx context.Context, m Marker, partitions []Partition) []error {
	errs := make([]error, len(partitions))
	places := map[int32][]int{}
	img := n.Quorum.Image()
	for i, p := range partitions {
		_, q, err := img.Partition(p.Topic, p.Index)
		switch {
		case err != nil:
			errs[i] = err
		case q.Leader < 0:
			errs[i] = fmt.Errorf("partition %s-%d has no leader: %w", p.Topic, p.Index, kerr.LeaderNotAvailable)
		default:
			places[q.Leader] = append(places[q.Leader], i)
		}
	}
	var all sync.WaitGroup
	for leader, at := range places {
		send := func() {
			some := make([]Partition, len(at))
			for j, i := range at {
				some[j] = partitions[i]
			}
			var got []error
			if leader == n.NodeID {
				got = AppendMarkers(ctx, n.Env, m, some)
			} else {
				got = n.sendMarker(ctx, leader, m, some)
			}
			for j, i := range at {
				errs[i] = got[j]
			}
		}
		if len(places) == 1 {
			send() // a goroutine costs more than the marker
			continue
		}
		all.Go(send)
	}
	all.Wait()
	return errs
}

// sendMarker sends a marker to another node.
func (n node) sendMarker(ctx context.Context, leader int32, m Marker, partitions []Partition) []error {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.SetVersion(markersVersion)
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch = m.ProducerID, m.Epoch, m.CoordinatorEpoch
	marker.Committed, marker.TransactionVersion = m.Commit, int8(m.Version)
	if m.Owed {
		marker.UnknownTags.Set(TagOwed, []byte{1})
	}
	for _, p := range partitions {
		i := slices.IndexFunc(marker.Topics, func(t kmsg.WriteTxnMarkersRequestMarkerTopic) bool { return t.Topic == p.Topic })
		if i < 0 {
			t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			t.Topic = p.Topic
			i = len(marker.Topics)
			marker.Topics = append(marker.Topics, t)
		}
		marker.Topics[i].Partitions = append(marker.Topics[i].Partitions, p.Index)
	}
	req.Markers = append(req.Markers, marker)
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	err := n.Peers.Request(ctx, leader, req, resp)
	codes := map[Partition]int16{}
	for _, m := range resp.Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				codes[Partition{t.Topic, p.Partition}] = p.ErrorCode
			}
		}
	}
	errs := make([]error, len(partitions))
	for i, p := range partitions {
		code, ok := codes[p]
		switch {
		case err != nil:
			errs[i] = fmt.Errorf("%w: %w", kerr.LeaderNotAvailable, err)
		case !ok:
			errs[i] = fmt.Errorf("node %d says nothing of %s-%d: %w", leader, p.Topic, p.Index, kerr.UnknownServerError)
		default:
			errs[i] = remoteError(req.Key(), code, leader)
		}
	}
	return errs
}

// remoteError is another node's answer.
func remoteError(key, code int16, node int32) error {
	if err := mirrorrpc.ErrorForCode(key, code); err != nil {
		return fmt.Errorf("node %d: %w", node, err)
	}
	return nil
}

// Elsewhere implements [Cluster].
func (n node) Elsewhere(ctx context.Context, shard int32, r AddRequest) ([]error, bool) {
	_, p, err := n.Quorum.Image().Partition(TopicName, shard)
	if err != nil || p.Leader == n.NodeID {
		return nil, false
	}
	all := func(err error) ([]error, bool) {
		errs := make([]error, len(r.Partitions))
		for i := range errs {
			errs[i] = err
		}
		return errs, true
	}
	if p.Leader < 0 {
		return all(kerr.CoordinatorNotAvailable)
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.SetVersion(addVersion)
	tx := kmsg.NewAddPartitionsToTxnRequestTransaction()
	tx.TransactionalID, tx.ProducerID, tx.ProducerEpoch, tx.VerifyOnly = r.TransactionalID, r.ProducerID, r.Epoch, r.VerifyOnly
	for _, q := range r.Partitions {
		i := slices.IndexFunc(tx.Topics, func(t kmsg.AddPartitionsToTxnRequestTransactionTopic) bool { return t.Topic == q.Topic })
		if i < 0 {
			t := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
			t.Topic = q.Topic
			i = len(tx.Topics)
			tx.Topics = append(tx.Topics, t)
		}
		tx.Topics[i].Partitions = append(tx.Topics[i].Partitions, q.Index)
	}
	req.Transactions = append(req.Transactions, tx)
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	if err := n.Peers.Request(ctx, p.Leader, req, resp); err != nil {
		return all(fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, err))
	}
	if err := remoteError(req.Key(), resp.ErrorCode, p.Leader); err != nil {
		return all(err)
	}
	codes := map[Partition]int16{}
	for _, t := range resp.Transactions {
		for _, topic := range t.Topics {
			for _, q := range topic.Partitions {
				codes[Partition{topic.Topic, q.Partition}] = q.ErrorCode
			}
		}
	}
	errs := make([]error, len(r.Partitions))
	for i, q := range r.Partitions {
		code, ok := codes[q]
		if !ok {
			code = kerr.UnknownServerError.Code
		}
		errs[i] = remoteError(req.Key(), code, p.Leader)
	}
	return errs, true
}

// elsewherePause lies between the tries of an implicit add at another node,
// while the transaction before is being ended.
const elsewherePause = 10 * time.Millisecond

// elsewhere has another node verify or add, if that is the coordinator.
func (c *Coordinator) elsewhere(ctx context.Context, r AddRequest) ([]error, bool) {
	n := c.cfg.Cluster.Shards()
	if n == 0 {
		return nil, false
	}
	shard := PartitionFor(r.TransactionalID, n)
	deadline := time.Now().Add(c.cfg.AddWait)
	for {
		errs, ok := c.cfg.Cluster.Elsewhere(ctx, shard, r)
		if !ok || !containsError(errs, kerr.ConcurrentTransactions) || time.Now().After(deadline) || !shards.Pause(ctx, elsewherePause) {
			return errs, ok
		}
	}
}

// Debts settles what a partition owes to the transactional ids of the whole
// cluster, on whichever nodes their coordinators are.
type Debts struct {
	Env         *env.Env
	Coordinator *Coordinator
}

// SettleDebts is [Coordinator.SettleDebts] on every node that coordinates.
func (d Debts) SettleDebts(ctx context.Context, p Partition) error {
	t := d.Env.Quorum.Image().Topics[TopicName]
	if t == nil {
		return nil
	}
	nodes := map[int32]bool{}
	for i, q := range t.Partitions {
		if q.Leader < 0 {
			return fmt.Errorf("partition %s-%d has no leader: %w", TopicName, i, kerr.CoordinatorNotAvailable)
		}
		nodes[q.Leader] = true
	}
	var errs error
	for id := range nodes {
		if id == d.Env.NodeID {
			errs = errors.Join(errs, d.Coordinator.SettleDebts(ctx, p))
			continue
		}
		resp := &SettleDebtsResponse{}
		err := d.Env.Peers.Request(ctx, id, &SettleDebtsRequest{Partition: p}, resp)
		if err == nil {
			err = remoteError(27, resp.ErrorCode, id)
		}
		errs = errors.Join(errs, err)
	}
	return errs
}
