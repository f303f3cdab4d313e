package traffic

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// WriteMarker asks the leader of p for a transaction marker, as a coordinator
// does, and records the answer (SC-5).
func (r *Raw) WriteMarker(ctx context.Context, p Partition, id int64, epoch int16, coordinatorEpoch int32, commit bool) (*history.Result, error) {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic, topic.Partitions = p.Topic, []int32{p.Index}
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch, m.Committed = id, epoch, coordinatorEpoch, commit
	m.Topics = append(m.Topics, topic)
	req.Markers = append(req.Markers, m)
	result := resultOf(errors.New("the answer holds no partition"))
	resp, _, err := r.ask(ctx, p, req)
	switch {
	case ended(ctx):
		return nil, context.Cause(ctx)
	case err != nil:
		result = resultOf(err)
	default:
		for _, m := range resp.(*kmsg.WriteTxnMarkersResponse).Markers {
			for _, t := range m.Topics {
				for _, got := range t.Partitions {
					result = resultOf(mirrorrpc.ErrorForCode(resp.Key(), got.ErrorCode))
				}
			}
		}
	}
	r.rec.Add(history.Event{Kind: history.KindMarker, Marker: &history.Marker{
		Cluster: r.cluster.Name, Topic: p.Topic, Partition: p.Index, ProducerID: id, Epoch: epoch,
		CoordinatorEpoch: coordinatorEpoch, Commit: commit, Result: result,
	}})
	return result, nil
}

// writeMarkerAgain is WriteMarker, repeated while the partition's leader changes. A
// marker that was written before its leader was deposed is written twice then, as
// coordinators do it too: SC-5 has it that this changes nothing. Each answer is recorded.
func (r *Raw) writeMarkerAgain(ctx context.Context, p Partition, id int64, epoch int16, coordinatorEpoch int32, commit bool) error {
	return again(ctx, func() error {
		res, err := r.WriteMarker(ctx, p, id, epoch, coordinatorEpoch, commit)
		if err == nil && res.Code == kerr.NotLeaderForPartition.Code {
			r.forget(p)
			return kerr.NotLeaderForPartition
		}
		return err
	})
}

// forgedCoordinator is the epoch of a coordinator that there never was: it lies
// above what an election in a run can reach.
const forgedCoordinator int32 = 1000

// Markers tries on p what an old coordinator says late: markers from an older
// coordinator epoch, markers once more, and retries of batches whose
// transaction a marker has ended (SC-5, field case FA-13).
func Markers(ctx context.Context, rec *Recorder, cluster Cluster, name string, p Partition, payload []byte) error {
	raw, err := NewRaw(ctx, rec, cluster, name)
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := forgedMarkers(ctx, raw, p); err != nil {
		return err
	}
	if err := realMarkers(ctx, raw, name, p, payload); err != nil {
		return fmt.Errorf("markers: %w", err)
	}
	return LateProduces(ctx, rec, cluster, name+"-late", p, payload)
}

// forgedMarkers are of a producer that never wrote: what its coordinator epoch
// was is known, and no real coordinator is disturbed.
func forgedMarkers(ctx context.Context, raw *Raw, p Partition) error {
	id := raw.forgedID(lowerID)
	for _, m := range []struct {
		epoch       int16
		coordinator int32
	}{
		{4, forgedCoordinator},
		{4, forgedCoordinator - 1}, // old
		{5, forgedCoordinator - 1}, // old, whatever the producer's epoch
		{4, forgedCoordinator},     // once more
		{5, forgedCoordinator + 1},
		{5, forgedCoordinator}, // old by now
	} {
		if err := raw.writeMarkerAgain(ctx, p, id, m.epoch, m.coordinator, false); err != nil {
			return err
		}
		if _, err := raw.Producers(ctx, p, history.WhenAlone); err != nil {
			return err
		}
	}
	return nil
}

// realMarkers meet transactions of a real producer.
func realMarkers(ctx context.Context, raw *Raw, name string, p Partition, payload []byte) error {
	t, err := NewHandTxn(ctx, raw, name, 2, payload)
	if err != nil {
		return err
	}
	for _, intent := range []history.Intent{history.IntentCommit, history.IntentAbort} {
		commit := intent == history.IntentCommit
		t.Begin(intent)
		if err := t.Send(ctx, p, 2); err != nil {
			return err
		}
		if err := t.End(ctx, commit); err != nil {
			return err
		}
		// What the partition says of the producer now, its marker has made it.
		state, found, err := producerIn(ctx, raw, p, t.ended.id)
		if err != nil {
			return err
		}
		if !found {
			// Whose coordinator epoch nobody can tell, no marker can be forged of.
			raw.rec.Note("producer id %d is not described in %s after its marker: no marker of it is tried", t.ended.id, p)
			continue
		}
		last, coordinator := int16(state.Epoch), state.CoordinatorEpoch
		// Once more, at rest.
		if err := raw.writeMarkerAgain(ctx, p, t.ended.id, last, coordinator, commit); err != nil {
			return err
		}
		if err := lookAround(ctx, raw, p); err != nil {
			return err
		}
		t.Begin(intent)
		if err := t.Send(ctx, p, 1); err != nil {
			return err
		}
		// While the next one is open: from an older coordinator, with the epoch that
		// would end it, and the opposite outcome.
		if err := raw.writeMarkerAgain(ctx, p, t.id, t.epoch+1, coordinator-1, !commit); err != nil {
			return err
		}
		if err := lookAround(ctx, raw, p); err != nil {
			return err
		}
		if err := t.Send(ctx, p, 1); err != nil {
			return err
		}
		if err := t.End(ctx, commit); err != nil {
			return err
		}
	}
	return nil
}

// lookAround samples what a marker may have changed.
func lookAround(ctx context.Context, raw *Raw, p Partition) error {
	for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
		if _, err := raw.FetchAgain(ctx, p, FetchOptions{Isolation: level}); err != nil {
			return err
		}
	}
	_, err := raw.Producers(ctx, p, history.WhenAlone)
	return err
}

// producerIn is what a partition's leader says of one producer.
func producerIn(ctx context.Context, raw *Raw, p Partition, id int64) (history.ProducerState, bool, error) {
	all, err := raw.Producers(ctx, p, history.WhenAlone)
	if err != nil {
		return history.ProducerState{}, false, err
	}
	for _, s := range all.Active {
		if s.ProducerID == id {
			return s, true, nil
		}
	}
	return history.ProducerState{}, false, nil
}
