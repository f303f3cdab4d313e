package txn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

// NewForNode returns the coordinator of a node.
func NewForNode(e *env.Env) *Coordinator {
	n := node{e, shards.TopicOf(e, TopicName)}
	return New(Config{Cluster: n, Markers: n, Defects: e.Defects, Now: e.Host.Now, Log: e.Log.With("part", "transaction coordinator")})
}

// EnsureTopic makes [TopicName] if there is none yet.
func EnsureTopic(ctx context.Context, e *env.Env) error {
	var configs map[string]string
	if len(e.Quorum.Voters()) > 2 {
		configs = map[string]string{"min.insync.replicas": "2"} // transaction.state.log.min.isr
	}
	return shards.TopicOf(e, TopicName).Ensure(ctx, e.TxnPartitions, configs)
}

// node is a broker's node as its coordinator sees it.
type node struct {
	*env.Env
	shards.OnNode
}

func (n node) Open(shard int32) (Log, error) { return n.Replicas.Partition(TopicName, shard) }

func (n node) Partition(p Partition) PartitionState {
	_, q, err := n.Quorum.Image().Partition(p.Topic, p.Index)
	if err != nil {
		return PartitionState{}
	}
	return PartitionState{
		Exists:   true,
		ReadOnly: q.Mirror.State != quorum.Unknown && q.Mirror.State != quorum.Stopped,
		Aligned:  q.Mirror.Aligned,
	}
}

func (n node) AllocateProducerIDs(ctx context.Context) (first int64, size int, err error) {
	if n.Defects.Has(defect.IDBlocksNotReserved) && n.Quorum.Leader() != n.NodeID {
		return n.Quorum.Image().NextProducerID, quorum.ProducerIDBlockSize, nil
	}
	got, err := n.Quorum.Apply(ctx, quorum.AllocateProducerIDs{Broker: n.NodeID})
	if err != nil {
		return 0, 0, err
	}
	block, ok := got.(quorum.ProducerIDBlock)
	if !ok || block.Size <= 0 {
		return 0, 0, fmt.Errorf("producer id block: unexpected result %v", got)
	}
	if n.Defects.Has(defect.IDsHandedOutTwice) {
		return 0, int(block.Size), nil
	}
	return block.First, int(block.Size), nil
}

// markerTimeout bounds the wait for one marker's replication, after which it
// is sent again.
const markerTimeout = 5 * time.Second

// AppendMarkers appends a marker to partitions that this node leads, and waits
// until all in-sync replicas have it. It returns one error for each partition:
// it is what WriteTxnMarkers does.
func AppendMarkers(ctx context.Context, e *env.Env, m Marker, partitions []Partition) []error {
	errs := make([]error, len(partitions))
	if len(partitions) == 1 {
		errs[0] = appendMarker(ctx, e, m, partitions[0])
		return errs
	}
	var all sync.WaitGroup
	for i, p := range partitions {
		all.Go(func() { errs[i] = appendMarker(ctx, e, m, p) })
	}
	all.Wait()
	return errs
}

func appendMarker(ctx context.Context, e *env.Env, m Marker, p Partition) error {
	log, err := e.Replicas.Partition(p.Topic, p.Index)
	if err != nil {
		return err
	}
	purpose := replica.ForMarker
	if m.Owed {
		purpose = replica.ForOwedMarker
	}
	batch := psm.EndTxnMarker{
		LeaderEpoch: -1, Timestamp: e.Host.Now().UnixMilli(), ProducerID: m.ProducerID, ProducerEpoch: m.Epoch,
		CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Commit,
	}
	_, err = log.Append(ctx, batch.Append(nil), replica.AppendOptions{
		Purpose: purpose, Acks: -1, LeaderEpoch: -1, TransactionVersion: int8(m.Version),
		Within: markerTimeout, Late: kerr.RequestTimedOut,
	})
	return err
}
