package broker

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/storage"
	"watershed.example/refbroker/internal/wire"
)

// Fetch (key 1), versions 4 to 18: both isolation levels, raw batches with the
// control batches among them; from 12 on diverging epochs (KIP-595), from 13 on
// topic ids (KIP-516), from 16 on who leads is told with its address (KIP-951).
// Sessions (from 7 on) are declined with session id 0, as KIP-227 allows, so every
// request names all of its partitions.
func fetch(e *env.Env) wire.API {
	mirrors := mirrorsOfSource(e.Defects)
	return wire.Of("Fetch", 4, 18, func(ctx context.Context, req *wire.Request, r *kmsg.FetchRequest) (wire.Response, error) {
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = req.Version
		if req.Version >= 7 && r.SessionID != 0 {
			resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
			return resp, nil
		}
		if mirrors.refuses(req.ClientID) {
			resp.ErrorCode = kerr.UnknownServerError.Code
			return resp, nil
		}
		f := &fetching{env: e, request: r, replica: r.ReplicaID, replicaEpoch: -1}
		if req.Version >= 15 {
			f.replica, f.replicaEpoch = r.ReplicaState.ID, r.ReplicaState.Epoch
		}
		got := f.poll(ctx)
		resp.Topics = got.topics
		if req.Version >= 16 { // KIP-951
			got.leaders.each(e, req.Listener, func(id int32, host string, port int32) {
				b := kmsg.NewFetchResponseBroker()
				b.NodeID, b.Host, b.Port = id, host, port
				resp.Brokers = append(resp.Brokers, b)
			})
		}
		return &fetchResponse{resp, got.sections}, nil
	})
}

// fetching is one Fetch request that waits for its bytes.
type fetching struct {
	env     *env.Env
	request *kmsg.FetchRequest
	replica int32
	// replicaEpoch is the follower's broker epoch, -1 for unknown.
	replicaEpoch int64
}

// maxFetchBytes is Kafka's fetch.max.bytes of a broker.
const maxFetchBytes = 55 << 20

// poll reads until there are enough bytes, or something that the client must
// know at once, or the time is over.
func (f *fetching) poll(ctx context.Context) round {
	wait := time.NewTimer(millis(f.request.MaxWaitMillis))
	defer wait.Stop()
	over, waited := false, false
	var changes []<-chan struct{}
	var before round
	for {
		// The metadata's channel before the metadata, and each partition's
		// before its read: a change in between is not missed.
		last := changes
		changes = []<-chan struct{}{f.env.Quorum.Changed()}
		if over {
			last = nil
		}
		r := f.read(f.env.Quorum.Image(), &changes, last, &before)
		if over || r.urgent || r.bytes >= int(f.request.MinBytes) || ctx.Err() != nil {
			if waited {
				f.afterWait(&r)
			}
			return r
		}
		r.release()
		before, waited = r, true
		over = !waitAny(ctx, wait.C, changes)
	}
}

// round is what one reading of all partitions found.
type round struct {
	topics []kmsg.FetchResponseTopic
	// sections are those of partitions without bytes, by their place.
	sections map[int]*storage.Section
	bytes    int
	leaders  hinted
	// urgent: an error or a diverging epoch does not wait.
	urgent bool
}

func (r *round) release() {
	for _, s := range r.sections {
		s.Release()
	}
}

// read reads all partitions. last are the channels of the round before: of a
// partition that had nothing then, and has not changed since, that is said again,
// so that one of a thousand that changes costs one read. Another role is a change
// too, and another topic of the same name has channels of its own.
func (f *fetching) read(img *quorum.Image, changes *[]<-chan struct{}, last []<-chan struct{}, before *round) round {
	r := round{sections: map[int]*storage.Section{}}
	place := -1
	again := func(topic, partition int, now <-chan struct{}) bool {
		at := len(*changes) - 1
		return before.bytes == 0 && len(last) > at && last[at] == now &&
			topic < len(before.topics) && partition < len(before.topics[topic].Partitions)
	}
	budget := min(int(f.request.MaxBytes), maxFetchBytes)
	byID := f.request.Version >= 13
	for i, t := range f.request.Topics {
		out := kmsg.NewFetchResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		name, err := topicName(img, t.Topic, t.TopicID, byID)
		for k, want := range t.Partitions {
			var p replica.API
			perr := err
			if perr == nil {
				p, perr = f.env.Replicas.Partition(name, want.Partition)
			}
			part := emptyFetch(want.Partition)
			place++
			var section *storage.Section
			if perr == nil {
				*changes = append(*changes, p.Changed())
				if again(i, k, (*changes)[len(*changes)-1]) {
					out.Partitions = append(out.Partitions, before.topics[i].Partitions[k])
					continue
				}
				section, perr = f.readPartition(&part, p, want, min(int(want.PartitionMaxBytes), budget), r.bytes == 0)
			}
			if perr != nil {
				part.ErrorCode = codeOf(perr)
				if id, epoch, ok := leaderOf(f.env, name, want.Partition, perr); ok {
					part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch = id, epoch
					r.leaders.add(id)
				}
			}
			// A follower whose high watermark is behind hears of it at once
			// (KIP-1166): a leader with a stale one is of little use.
			// So does one whose log begins before the leader's: DeleteRecords waits for it.
			behind := part.HighWatermark > want.HighWatermark || part.LogStartOffset > want.LogStartOffset
			// A consumer of a leader that has yet to cut its log waits for that: answered at once, a
			// client would find the same leader in the metadata and ask again at once, too (BAR-6).
			refused := perr != nil && !(f.replica < 0 && errors.Is(perr, replica.ErrUncut))
			r.urgent = r.urgent || refused || part.DivergingEpoch.Epoch >= 0 || f.replica >= 0 && behind
			size := len(part.RecordBatches)
			if section != nil {
				r.sections[place] = section
				size = int(section.Size())
			}
			r.bytes += size
			budget = max(0, budget-size)
			out.Partitions = append(out.Partitions, part)
		}
		r.topics = append(r.topics, out)
	}
	r.urgent = r.urgent || len(f.request.Topics) == 0
	return r
}

func emptyFetch(partition int32) kmsg.FetchResponseTopicPartition {
	part := kmsg.NewFetchResponseTopicPartition()
	part.Partition, part.HighWatermark = partition, -1
	part.RecordBatches = []byte{}
	return part
}

func (f *fetching) readPartition(part *kmsg.FetchResponseTopicPartition, p replica.API, want kmsg.FetchRequestTopicPartition, limit int, minOne bool) (*storage.Section, error) {
	o := replica.ReadOptions{
		Offset: want.FetchOffset, MaxBytes: limit, MinOne: minOne, ReadCommitted: f.request.IsolationLevel == 1,
		ReplicaID: max(f.replica, -1), ReplicaEpoch: f.replicaEpoch, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1,
		LogStart: want.LogStartOffset,
		// Without tagged fields the records may be the last bytes of a frame.
		Lend: f.request.Version >= 12 && !f.env.Defects.Has(defect.ControlRecordDelivered, defect.ControlBatchesWithheld),
	}
	if f.request.Version >= 9 {
		o.CurrentLeaderEpoch = want.CurrentLeaderEpoch
	}
	if f.request.Version >= 12 {
		o.LastFetchedEpoch = want.LastFetchedEpoch
	}
	got, err := p.Read(o)
	if err != nil {
		if errors.Is(err, kerr.OffsetOutOfRange) {
			// Who fetches from outside of the log learns where that starts.
			part.LogStartOffset = p.Offsets().LogStart
		}
		return nil, err
	}
	part.HighWatermark, part.LastStableOffset, part.LogStartOffset = got.HighWatermark, got.LastStableOffset, got.LogStartOffset
	if got.DivergingEpoch >= 0 {
		part.DivergingEpoch.Epoch, part.DivergingEpoch.EndOffset = got.DivergingEpoch, got.DivergingEnd
	}
	if got.Raw != nil {
		part.RecordBatches = f.shown(got.Raw)
	}
	if got.Aborted != nil {
		part.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 0, len(got.Aborted))
		for _, a := range got.Aborted {
			out := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			out.ProducerID, out.FirstOffset = a.ProducerID, a.FirstOffset
			part.AbortedTransactions = append(part.AbortedTransactions, out)
		}
	}
	return got.Section, nil
}

// maxWaits is what one select can wait for, less some: a fetch of more
// partitions hears of the first ones only, until its time is over.
const maxWaits = 60_000

// waitAny waits for the first of changes. It reports false when the time or
// ctx came first.
func waitAny(ctx context.Context, over <-chan time.Time, changes []<-chan struct{}) bool {
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(over)},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
	}
	for _, c := range changes[:min(len(changes), maxWaits)] {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	chosen, _, _ := reflect.Select(cases)
	return chosen > 1
}
