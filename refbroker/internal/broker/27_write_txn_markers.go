package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// WriteTxnMarkers (key 27), versions 1 and 2: a coordinator's markers for
// partitions that this node leads; from 2 on a marker says its transactions
// version (KIP-1228). A mirroring partition answers READ_ONLY_TOPIC (RO-2).
func writeTxnMarkers(e *env.Env) wire.API {
	return wire.Of("WriteTxnMarkers", 1, 2, func(ctx context.Context, req *wire.Request, r *kmsg.WriteTxnMarkersRequest) (wire.Response, error) {
		resp := kmsg.NewPtrWriteTxnMarkersResponse()
		resp.Version = req.Version
		for _, in := range r.Markers {
			m := txn.Marker{
				ProducerID: in.ProducerID, Epoch: in.ProducerEpoch, CoordinatorEpoch: in.CoordinatorEpoch, Commit: in.Committed,
			}
			if req.Version >= 2 {
				m.Version = int16(in.TransactionVersion)
			}
			in.UnknownTags.Each(func(tag uint32, _ []byte) { m.Owed = m.Owed || tag == txn.TagOwed })
			var partitions []txn.Partition
			for _, t := range in.Topics {
				partitions = appendPartitions(partitions, t.Topic, t.Partitions)
			}
			errs := txn.AppendMarkers(ctx, e, m, partitions)
			out := kmsg.WriteTxnMarkersResponseMarker{ProducerID: in.ProducerID}
			for _, t := range in.Topics {
				topic := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
				for _, p := range t.Partitions {
					topic.Partitions = append(topic.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{
						Partition: p, ErrorCode: txnErrorCode(errs[0], false),
					})
					errs = errs[1:]
				}
				out.Topics = append(out.Topics, topic)
			}
			resp.Markers = append(resp.Markers, out)
		}
		return resp, nil
	})
}
