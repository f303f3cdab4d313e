package traffic

import (
	"context"
	"fmt"
	"time"

	"watershed.example/suite/history"
)

// Forged producer ids lie far above what a cluster hands out in a run.
const forgedBase int64 = 9_000_000

// Seeds of the forged collisions: what the source's raw producer writes so
// that the destination's may collide with it, one id for each kind. Each episode
// has ids of its own: what was the destination of one may be the source of the
// next, and knows the ids that were forged there.
const (
	lowerID = iota + 1
	higherID
	gapID
	// What lies under these, later leaders and brokers that recover meet: the very
	// same headers, one id for each time.
	laterID
	forgedIDs = laterID + laterIDs
)

const (
	// forgedEpoch is the epoch of the mirrored batches under these ids.
	forgedEpoch int16 = 3
	forgedCount int32 = 3
)

// laterIDs is how often [MeetLater] can be called in an episode.
const laterIDs = 3

func forgedIn(episode int32, id int64) int64 { return forgedBase + int64(episode)*forgedIDs + id }

func (r *Raw) forgedID(id int64) int64 { return forgedIn(r.rec.Episode(), id) }

// SeedForgeries writes to p on the source the batches with which
// [Forge] collides on the destination, two for each id.
func SeedForgeries(ctx context.Context, source *Raw, p Partition, payload []byte) error {
	for id := int64(lowerID); id < forgedIDs; id++ {
		for i := range int32(2) {
			w := Write{
				Partition: p, Mode: history.Idempotent,
				Batch: Batch{
					ID:        history.BatchID{ProducerID: source.forgedID(id), Epoch: forgedEpoch, BaseSequence: i * forgedCount},
					Timestamp: time.Now().UnixMilli(), Count: forgedCount, Payload: payload,
					First: source.Tag(p, history.NoTxn, history.IntentNone, forgedCount),
				},
			}
			if _, res := source.produceAgain(ctx, w); res.Outcome != history.OK {
				return fmt.Errorf("write producer id %d to %s on cluster %s: code %d %s", w.Batch.ID.ProducerID, p, source.cluster.Name, res.Code, res.Message)
			}
		}
	}
	return nil
}

// Reusable returns the last batch of an ordinary idempotent producer in
// headers, below offset end: the one that a stale entry would take a batch with
// the same header for a retry of.
func Reusable(headers []Header, end int64) (Header, bool) {
	for i := len(headers) - 1; i >= 0; i-- {
		h := headers[i]
		if h.LastOffset < end && h.ID.ProducerID >= 0 && h.ID.ProducerID < forgedBase && !h.Transactional && !h.Control {
			return h, true
		}
	}
	return Header{}, false
}

// Forge writes to p on the promoted cluster, under producer ids that the
// source's producers used: the very same batch header as mirrored, where
// that is known; a lower epoch; a higher epoch; a sequence that would be out of
// order for the mirrored entry. Every answer is in the history.
func Forge(ctx context.Context, promoted *Raw, p Partition, mirrored *Header, payload []byte) {
	type forgery struct {
		kind  history.Collision
		id    history.BatchID
		count int32
	}
	var all []forgery
	if mirrored != nil {
		all = append(all, forgery{history.SameHeader, mirrored.ID, mirrored.Count})
	}
	all = append(all,
		forgery{history.LowerEpoch, history.BatchID{ProducerID: promoted.forgedID(lowerID), Epoch: forgedEpoch - 1}, forgedCount},
		forgery{history.HigherEpoch, history.BatchID{ProducerID: promoted.forgedID(higherID), Epoch: forgedEpoch + 1}, forgedCount},
		// The mirrored entry's last sequence is 2*forgedCount-1.
		forgery{history.SequenceGap, history.BatchID{ProducerID: promoted.forgedID(gapID), Epoch: forgedEpoch, BaseSequence: 5 * forgedCount}, forgedCount},
	)
	for _, f := range all {
		promoted.produceAgain(ctx, Write{
			Partition: p, Mode: history.Idempotent, Collision: f.kind,
			Batch: Batch{
				ID: f.id, Timestamp: time.Now().UnixMilli(), Count: f.count, Payload: payload,
				First: promoted.Tag(p, history.NoTxn, history.IntentNone, f.count),
			},
		})
	}
}

// MeetLater writes to p, where an episode's forged batches met mirrored ones, a
// batch with the very header of one that nobody has met there yet: a leader that
// was a follower, or a broker that has recovered, may still know that (PSM-2,
// BAR-8). It can be called laterIDs times, with n from 0.
func MeetLater(ctx context.Context, promoted *Raw, p Partition, episode int32, n int64, payload []byte) error {
	if n >= laterIDs {
		return fmt.Errorf("batch %d with a mirrored one's header: there are %d", n, laterIDs)
	}
	promoted.produceAgain(ctx, Write{
		Partition: p, Mode: history.Idempotent, Collision: history.SameHeader,
		Batch: Batch{
			ID:        history.BatchID{ProducerID: forgedIn(episode, laterID+n), Epoch: forgedEpoch, BaseSequence: 0},
			Timestamp: time.Now().UnixMilli(), Count: forgedCount, Payload: payload,
			First: promoted.Tag(p, history.NoTxn, history.IntentNone, forgedCount),
		},
	})
	return context.Cause(ctx)
}

// BurnProducerIDs asks cluster for producer ids until the next one it hands
// out is next. It returns false when that one is gone already.
func BurnProducerIDs(ctx context.Context, raw *Raw, next int64) (bool, error) {
	for {
		id, _, err := raw.InitProducerID(ctx, "")
		if err != nil {
			return false, err
		}
		if id >= next-1 {
			return id == next-1, nil
		}
	}
}

// MeetTransactional makes transactionalID on raw's cluster own the producer id
// and epoch of a mirrored transactional producer, by real InitProducerId calls,
// up to one epoch short of it: the franz-go producer that is made next with that
// id takes the last step itself. It returns false when the cluster has handed
// that id out already.
func MeetTransactional(ctx context.Context, raw *Raw, transactionalID string, id int64, epoch int16) (bool, error) {
	if id > 0 {
		free, err := BurnProducerIDs(ctx, raw, id)
		if !free || err != nil {
			return false, err
		}
	}
	for e := int16(0); e < epoch; e++ {
		gotID, gotEpoch, err := raw.InitProducerID(ctx, transactionalID)
		if err != nil {
			return false, err
		}
		if gotID != id || gotEpoch >= epoch {
			return false, nil
		}
		e = gotEpoch
	}
	return true, nil
}
