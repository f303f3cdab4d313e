package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/wire"
)

// The timestamps that mean a place in the log, and the version of ListOffsets
// that brought them.
const (
	latestOffset         = -1
	earliestOffset       = -2
	maxTimestampOffset   = -3 // version 7, KIP-734
	earliestLocalOffset  = -4 // version 8, KIP-405: this broker has no remote tier
	latestTieredOffset   = -5 // version 9, KIP-1005: there is none
	earliestPendingTier  = -6 // version 11, KIP-1023
	firstSpecialVersions = 7
)

// ListOffsets (key 2), versions 1 to 11: from 2 on read_committed readers get
// the last stable offset for the latest; from 4 on leader epochs are checked
// and told.
func listOffsets(e *env.Env) wire.API {
	return wire.Of("ListOffsets", 1, 11, func(_ context.Context, req *wire.Request, r *kmsg.ListOffsetsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrListOffsetsResponse()
		resp.Version = req.Version
		for _, t := range r.Topics {
			out := kmsg.NewListOffsetsResponseTopic()
			out.Topic = t.Topic
			for _, want := range t.Partitions {
				out.Partitions = append(out.Partitions, offsetFor(e, r, t.Topic, want))
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

func offsetFor(e *env.Env, r *kmsg.ListOffsetsRequest, topic string, want kmsg.ListOffsetsRequestTopicPartition) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition, out.Offset, out.Timestamp, out.LeaderEpoch = want.Partition, -1, -1, -1
	p, err := e.Replicas.Partition(topic, want.Partition)
	if err == nil {
		epoch := want.CurrentLeaderEpoch
		if r.Version < 4 {
			epoch = -1
		}
		err = p.CheckLeader(epoch)
	}
	if err == nil {
		err = findOffset(&out, p, r, want.Timestamp)
	}
	out.ErrorCode = codeOf(err)
	return out
}

func findOffset(out *kmsg.ListOffsetsResponseTopicPartition, p replica.API, r *kmsg.ListOffsetsRequest, timestamp int64) (err error) {
	o := p.Offsets()
	if r.ReplicaID < 0 && o.HighWatermark < o.LeaderSince && (timestamp == latestOffset || timestamp >= 0) {
		// KIP-207: a new leader's may be lower than what the last one told.
		if r.Version >= 5 {
			return fmt.Errorf("high watermark %d of a new leader, which began at %d: %w", o.HighWatermark, o.LeaderSince, kerr.OffsetNotAvailable)
		}
		return fmt.Errorf("high watermark %d of a new leader, which began at %d: %w", o.HighWatermark, o.LeaderSince, kerr.LeaderNotAvailable)
	}
	if timestamp <= maxTimestampOffset && int64(r.Version) < firstSpecialVersions+(maxTimestampOffset-timestamp) ||
		timestamp == earliestPendingTier && r.Version < 11 || timestamp < earliestPendingTier {
		return fmt.Errorf("timestamp %d in version %d: %w", timestamp, r.Version, kerr.UnsupportedVersion)
	}
	switch timestamp {
	case latestOffset:
		out.LeaderEpoch = o.LogEpoch
		switch {
		case r.ReplicaID >= 0:
			out.Offset = o.LogEnd
		case r.IsolationLevel == 1:
			out.Offset = o.LastStable
		default:
			out.Offset = o.HighWatermark
		}
	case earliestOffset, earliestLocalOffset:
		out.Offset, out.LeaderEpoch = o.LogStart, p.EpochAt(o.LogStart)
	case latestTieredOffset, earliestPendingTier:
		// Nothing was ever tiered: no offset, no error.
	case maxTimestampOffset:
		out.Offset, out.Timestamp, out.LeaderEpoch, err = p.MaxTimestamp()
	default:
		out.Offset, out.Timestamp, out.LeaderEpoch, err = p.OffsetForTime(timestamp)
		// What is above what this reader may see is not there for it.
		if bound := readBound(o, r); err == nil && out.Offset >= bound {
			out.Offset, out.Timestamp, out.LeaderEpoch = -1, -1, -1
		}
	}
	return err
}

// readBound is the first offset that the reader may not see.
func readBound(o replica.Offsets, r *kmsg.ListOffsetsRequest) int64 {
	switch {
	case r.ReplicaID >= 0:
		return o.LogEnd
	case r.IsolationLevel == 1:
		return o.LastStable
	}
	return o.HighWatermark
}
