package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// TxnOffsetCommit (key 28), versions 0 to 6: offsets that take effect with the
// transaction; from 3 on by a member, which is fenced as in OffsetCommit
// (KIP-447), from 4 on TRANSACTION_ABORTABLE is known, from 5 on it adds the
// group to the transaction by itself (KIP-890), in 6 topics are named by id and
// GROUP_ID_NOT_FOUND is known.
func txnOffsetCommit(e *env.Env, c *group.Coordinator) wire.API {
	return wire.Of("TxnOffsetCommit", 0, 6, func(ctx context.Context, req *wire.Request, r *kmsg.TxnOffsetCommitRequest) (wire.Response, error) {
		by := group.Committer{MemberID: r.MemberID, InstanceID: textOf(r.InstanceID), Generation: r.Generation}
		in := group.Transaction{ID: r.TransactionalID, Producer: group.Producer{ID: r.ProducerID, Epoch: r.ProducerEpoch}}
		if req.Version >= 5 {
			in.Version = 2
		}
		asked := commits{coordinator: c, img: e.Quorum.Image(), byID: req.Version >= 6}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				asked.add(t.Topic, t.TopicID, group.Offset{
					Partition: group.Partition{Index: p.Partition}, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
				}, p.Metadata)
			}
		}
		err := forMember(c.CommitInTransaction(ctx, r.Group, by, in, asked.offsets), req.Version < 6)
		if req.Version < 4 && errors.Is(err, kerr.TransactionAbortable) {
			err = kerr.InvalidTxnState
		}
		resp := kmsg.NewPtrTxnOffsetCommitResponse()
		resp.Version = req.Version
		for _, t := range r.Topics {
			out := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: asked.code(err)})
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}
