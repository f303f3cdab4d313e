package broker

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// controller is the node that clients are told to send metadata changes to. As
// every node passes them on it is this one while there is no leader: Kafka names
// any broker at all times, and clients give up where they are told of none.
func controller(e *env.Env) int32 {
	if leader := e.Quorum.Leader(); leader >= 0 {
		return leader
	}
	return e.NodeID
}

// Metadata (key 3), versions 0 to 13: from 1 on a null list means all topics,
// from 10 on topics have ids. Topics are never made by asking for them.
func metadata(e *env.Env) wire.API {
	return wire.Of("Metadata", 0, 13, func(_ context.Context, req *wire.Request, r *kmsg.MetadataRequest) (wire.Response, error) {
		img := e.Quorum.Image()
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version = req.Version
		resp.ClusterID = &img.ClusterID
		resp.ControllerID = controller(e)
		for _, id := range slices.Sorted(maps.Keys(img.Brokers)) {
			host, port, ok := advertised(img.Brokers[id], req.Listener)
			if !ok || img.Brokers[id].Fenced {
				continue
			}
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Host, b.Port = id, host, port
			resp.Brokers = append(resp.Brokers, b)
		}
		if r.Topics == nil || req.Version == 0 && len(r.Topics) == 0 {
			for _, name := range slices.Sorted(maps.Keys(img.Topics)) {
				resp.Topics = append(resp.Topics, metadataTopic(img, img.Topics[name]))
			}
			return resp, nil
		}
		for _, want := range r.Topics {
			resp.Topics = append(resp.Topics, findMetadata(img, want))
		}
		return resp, nil
	})
}

// findMetadata answers for one topic of the request, which has a name or an id.
func findMetadata(img *quorum.Image, want kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	missing := kmsg.NewMetadataResponseTopic()
	if want.Topic == nil {
		t, err := img.TopicByID(want.TopicID)
		if err == nil {
			return metadataTopic(img, t)
		}
		missing.TopicID, missing.ErrorCode = want.TopicID, kerr.UnknownTopicID.Code
		return missing
	}
	missing.Topic = want.Topic
	if want.TopicID != ([16]byte{}) {
		missing.ErrorCode = kerr.InvalidRequest.Code
		return missing
	}
	t, err := img.Topic(*want.Topic)
	if err == nil {
		return metadataTopic(img, t)
	}
	missing.ErrorCode = codeOf(err)
	if invalid := quorum.ValidTopicName(*want.Topic); invalid != nil {
		missing.ErrorCode = codeOf(invalid)
	}
	return missing
}

func metadataTopic(img *quorum.Image, t *quorum.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	name := t.Name
	out.Topic, out.TopicID, out.IsInternal = &name, t.ID, t.Internal
	for i, p := range t.Partitions {
		mp := kmsg.NewMetadataResponseTopicPartition()
		mp.Partition, mp.Leader, mp.LeaderEpoch = int32(i), p.Leader, p.LeaderEpoch
		mp.Replicas, mp.ISR = p.Replicas, p.ISR
		for _, r := range p.Replicas {
			if b, ok := img.Brokers[r]; !ok || b.Fenced {
				mp.OfflineReplicas = append(mp.OfflineReplicas, r)
			}
		}
		if p.Leader < 0 {
			mp.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		out.Partitions = append(out.Partitions, mp)
	}
	return out
}
