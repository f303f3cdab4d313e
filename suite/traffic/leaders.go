package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/suite/history"
)

// Placement is where a partition's replicas are, as one broker says.
type Placement struct {
	Leader        int32
	Replicas, ISR []int32
}

// placements asks one broker, or with -1 any, where all partitions are.
func (r *Raw) placements(ctx context.Context, broker int32) (map[Partition]Placement, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	to := kmsg.Requestor(r.client())
	if broker >= 0 {
		to = r.client().Broker(int(broker))
	}
	resp, err := req.RequestWith(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("raw client %s: ask broker %d of cluster %s for metadata: %w", r.name, broker, r.cluster.Name, err)
	}
	all := map[Partition]Placement{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if t.Topic != nil {
				all[Partition{*t.Topic, p.Partition}] = Placement{p.Leader, p.Replicas, p.ISR}
			}
		}
	}
	return all, nil
}

// Placements says where partitions are.
func (r *Raw) Placements(ctx context.Context, parts ...Partition) (map[Partition]Placement, error) {
	var all map[Partition]Placement
	if err := again(ctx, func() (err error) {
		all, err = r.placements(ctx, -1)
		return err
	}); err != nil {
		return nil, err
	}
	found := map[Partition]Placement{}
	for _, p := range parts {
		at, ok := all[p]
		if !ok {
			return nil, fmt.Errorf("raw client %s: cluster %s has no partition %s", r.name, r.cluster.Name, p)
		}
		found[p] = at
	}
	return found, nil
}

// AwaitPlaced waits until each of the brokers says of each partition what is
// wanted: brokers hear of a new leader one after the other, and a client may ask
// any of them.
func (r *Raw) AwaitPlaced(ctx context.Context, brokers []int32, parts []Partition, is func(Partition, Placement) bool) error {
	for _, b := range brokers {
		for {
			all, err := r.placements(ctx, b)
			odd := slices.IndexFunc(parts, func(p Partition) bool { return err == nil && !is(p, all[p]) })
			if err == nil && odd < 0 {
				break
			}
			if err == nil {
				err = fmt.Errorf("broker %d says of %s: %+v", b, parts[odd], all[parts[odd]])
			}
			if !pause(ctx, describeEvery) {
				return fmt.Errorf("raw client %s: partitions of cluster %s are not as they should be: %w", r.name, r.cluster.Name, errors.Join(err, context.Cause(ctx)))
			}
		}
	}
	return nil
}

// Brokers are the ids of the brokers that live.
func (r *Raw) Brokers(ctx context.Context) ([]int32, error) {
	if _, err := r.metadata(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.brokers), nil
}

// Place moves partitions to these replicas, has the first of each lead, and waits
// until every broker says so and all replicas are in sync (KIP-455, KIP-460).
func (r *Raw) Place(ctx context.Context, want map[Partition][]int32) error {
	brokers, err := r.Brokers(ctx)
	if err != nil {
		return err
	}
	var parts []Partition
	for p := range want {
		parts = append(parts, p)
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = int32(requestTimeout.Milliseconds())
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.TimeoutMillis = req.TimeoutMillis
	for p, replicas := range want {
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = p.Topic
		part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		part.Partition, part.Replicas = p.Index, replicas
		t.Partitions = append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
		e := kmsg.NewElectLeadersRequestTopic()
		e.Topic, e.Partitions = p.Topic, []int32{p.Index}
		elect.Topics = append(elect.Topics, e)
	}
	// Both may be asked again: what was done is what is wanted.
	if err := again(ctx, func() error {
		resp, err := req.RequestWith(ctx, r.client())
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(resp.ErrorCode)
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
			}
		}
		return err
	}); err != nil {
		return fmt.Errorf("raw client %s: reassign partitions of cluster %s: %w", r.name, r.cluster.Name, err)
	}
	if err := r.AwaitPlaced(ctx, brokers, parts, func(p Partition, at Placement) bool {
		return slices.Equal(at.Replicas, want[p]) && len(at.ISR) == len(want[p])
	}); err != nil {
		return err
	}
	for {
		if err := again(ctx, func() error { return r.electFirst(ctx, elect) }); err != nil {
			return fmt.Errorf("raw client %s: elect leaders on cluster %s: %w", r.name, r.cluster.Name, err)
		}
		err := r.awaitLed(ctx, brokers, parts, func(p Partition, at Placement) bool { return at.Leader == want[p][0] })
		if err == nil || ended(ctx) {
			return err
		}
	}
}

// electFirst has the first replica of each partition lead, where it does not yet.
func (r *Raw) electFirst(ctx context.Context, elect *kmsg.ElectLeadersRequest) error {
	resp, err := elect.RequestWith(ctx, r.client())
	if err != nil {
		return err
	}
	err = kerr.ErrorForCode(resp.ErrorCode)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if e := kerr.ErrorForCode(p.ErrorCode); !errors.Is(e, kerr.ElectionNotNeeded) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// awaitLed is AwaitPlaced, for as long as brokers take to hear of an election. On a busy
// machine a leader may be gone again before all have: then it is to be elected again.
func (r *Raw) awaitLed(ctx context.Context, brokers []int32, parts []Partition, is func(Partition, Placement) bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return r.AwaitPlaced(ctx, brokers, parts, is)
}

// suffixWait is how long a leader that is cut off waits for the others before it
// answers that it has appended, alone.
const suffixWait = 200 * time.Millisecond

// Suffix writes to a leader that is cut off from the other replicas what will
// have to go: the next batch of a producer, one of the open transaction, and a
// marker that ends it (SC-7, field case FA-05). It returns when the leader has
// all of it in its log: a produce that waited in vain was appended first.
//
// Clients must know the leader from before; see [Sequences.Meet] and [Ledger.Meet].
func Suffix(ctx context.Context, s *Sequences, l *Ledger) error {
	if res := s.unheard(ctx); !unreplicated(res.Code) {
		return fmt.Errorf("raw client %s: a write to %s that nobody can replicate: code %d %s", s.raw.name, s.part, res.Code, res.Message)
	}
	return l.unheard(ctx)
}

// unreplicated says whether a broker answers so what it has appended and could
// not replicate.
func unreplicated(code int16) bool {
	return code == kerr.RequestTimedOut.Code || code == kerr.NotEnoughReplicasAfterAppend.Code
}

// Meet looks up who leads.
func (s *Sequences) Meet(ctx context.Context) error {
	_, err := s.raw.metadata(ctx)
	return err
}

// unheard sends the next batch of a producer, which goes on from before it when
// the batch is gone.
func (s *Sequences) unheard(ctx context.Context) *history.Result {
	w := s.next(&s.window, history.TrialFirst, s.window.epoch, s.window.next, 2)
	w.Timeout = suffixWait
	_, res := s.raw.Produce(ctx, w)
	return res
}

// Meet has every client look up who leads.
func (l *Ledger) Meet(ctx context.Context) error {
	for _, r := range l.raws {
		if _, err := r.metadata(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) unheard(ctx context.Context) error {
	t := l.open
	state, open, err := producerIn(ctx, l.raw, l.part, t.id)
	if err != nil || !open || state.CurrentTxnStart < 0 {
		return errors.Join(err, fmt.Errorf("raw client %s: no transaction of producer id %d is open in %s", l.raw.name, t.id, l.part))
	}
	w := t.batch(l.part, 1, history.TrialFirst, handTxnState{t.id, t.epoch, t.number, false, t.intent, t.next})
	w.Timeout = suffixWait
	if _, res := t.raw.Produce(ctx, w); !unreplicated(res.Code) {
		return fmt.Errorf("raw client %s: a write to %s that nobody can replicate: code %d %s", t.raw.name, l.part, res.Code, res.Message)
	}
	// The marker's answer comes when another leads. Nobody waits for it.
	ctx, cancel := context.WithCancel(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = l.first.raw.WriteMarker(ctx, l.part, t.id, t.epoch+1, state.CoordinatorEpoch, true)
	}()
	defer func() { cancel(); <-answered }()
	for {
		state, known, err := producerIn(ctx, l.raw, l.part, t.id)
		switch {
		case err != nil:
			return err
		case known && state.CurrentTxnStart < 0:
			return nil
		case !pause(ctx, describeEvery):
			return fmt.Errorf("raw client %s: the leader of %s, cut off, takes no marker: %w", l.raw.name, l.part, context.Cause(ctx))
		}
	}
}
