package group

import (
	"context"
	"sync"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/shards"
)

// NewForNode returns the coordinator of a node.
func NewForNode(e *env.Env, verifier env.TxnVerifier, settings Settings) *Coordinator {
	return New(Config{
		Settings: settings, Cluster: node{e, shards.TopicOf(e, TopicName), &book{}}, Verifier: verifier, TransactionVersion: e.TransactionVersion,
		Now: e.Host.Now, NotLowered: e.Defects.Has(defect.GroupOffsetsNotLowered), Log: e.Log.With("part", "group coordinator"),
	})
}

// EnsureTopic makes [TopicName] if there is none yet.
func EnsureTopic(ctx context.Context, e *env.Env) error {
	return shards.TopicOf(e, TopicName).Ensure(ctx, e.OffsetsPartitions, nil)
}

// node is a broker's node as its coordinator sees it.
type node struct {
	*env.Env
	shards.OnNode
	book *book
}

func (n node) Open(shard int32) (Log, error) { return n.Replicas.Partition(TopicName, shard) }

func (n node) TopicID(topic string) (id [16]byte, ok bool) {
	t, ok := n.Quorum.Image().Topics[topic]
	if !ok {
		return id, false
	}
	return t.ID, true
}

// book is what the shards owe in one version of the metadata, which all of a
// node ask for at the same time.
type book struct {
	mu    sync.Mutex // never held while waiting
	img   *quorum.Image
	debts map[int32]debt
}

type debt struct {
	of     map[Partition]int64
	number uint64
}

func (n node) Debts(shard int32) (debts map[Partition]int64, number uint64) {
	img := n.Quorum.Image()
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	if n.book.img != img {
		n.book.img, n.book.debts = img, debtsOf(img)
	}
	d := n.book.debts[shard]
	return d.of, d.number
}

func debtsOf(img *quorum.Image) map[int32]debt {
	all := map[int32]debt{}
	for _, t := range img.Topics {
		for i, p := range t.Partitions {
			if len(p.Mirror.Lowerings) == 0 {
				continue
			}
			for _, shard := range img.Owing(p) {
				d := all[shard]
				if d.of == nil {
					d.of = map[Partition]int64{}
				}
				d.of[Partition{Topic: t.Name, Index: int32(i)}], _ = img.Owed(shard, p)
				for _, l := range p.Mirror.Lowerings {
					d.number = max(d.number, l.Number)
				}
				all[shard] = d
			}
		}
	}
	return all
}

func (n node) Owed(shard int32, p Partition) (to int64, owed bool) {
	img := n.Quorum.Image()
	_, q, err := img.Partition(p.Topic, p.Index)
	if err != nil {
		return 0, false
	}
	return img.Owed(shard, q)
}

func (n node) Pay(ctx context.Context, shard, epoch int32, number uint64) error {
	_, err := n.Quorum.Apply(ctx, quorum.LowerGroups{Shard: shard, LeaderEpoch: epoch, Through: number})
	return err
}

func (n node) Reached(p Partition, offset int64, epoch int32) int64 {
	_, q, err := n.Quorum.Image().Partition(p.Topic, p.Index)
	if err != nil || epoch < 0 {
		return offset
	}
	for _, s := range q.Mirror.Stops {
		if epoch < s.Epoch {
			offset = min(offset, s.L)
		}
	}
	return offset
}

func (n node) Mirrors(p Partition, topicID [16]byte) bool {
	t, q, err := n.Quorum.Image().Partition(p.Topic, p.Index)
	return err == nil && t.ID == topicID && q.Mirror.State == quorum.Mirroring
}
