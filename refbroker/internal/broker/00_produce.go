package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/wire"
)

// producer serves Produce.
type producer struct {
	env      *env.Env
	verifier env.TxnVerifier
}

// Produce (key 0), versions 3 to 13: record batches (magic 2) only, one for
// each partition. From 8 on errors have words, from 10 on they name the leader
// (KIP-951), from 11 on TRANSACTION_ABORTABLE is known, from 12 on a batch adds
// its partition to the transaction by itself (KIP-890), in 13 topics are named
// by id (KIP-516).
func produce(p *producer) wire.API {
	a := wire.Of("Produce", 3, 13, p.handle)
	a.Bulk = true
	return a
}

// leastProduceWait is the shortest wait for replication: a timeout of 0 must
// not fail what needs no wait at all.
const leastProduceWait = 100 * time.Millisecond

// notReplicatedWithin is REQUEST_TIMED_OUT. Few see it, so its words are made
// for them only.
type notReplicatedWithin time.Duration

func (d notReplicatedWithin) Error() string {
	return fmt.Sprintf("not replicated within %s: %v", time.Duration(d), kerr.RequestTimedOut)
}

func (notReplicatedWithin) Unwrap() error { return kerr.RequestTimedOut }

// write is one partition of a Produce request on its way.
type write struct {
	topic string
	index int32
	raw   []byte
	batch psm.Batch
	log   replica.API
	guard uint64
	done  replica.AppendResult
	err   error
}

func (p *producer) handle(ctx context.Context, req *wire.Request, r *kmsg.ProduceRequest) (wire.Response, error) {
	img := p.env.Quorum.Image()
	var writes []*write
	for _, t := range r.Topics {
		name, err := topicName(img, t.Topic, t.TopicID, req.Version >= 13)
		for _, part := range t.Partitions {
			w := &write{topic: name, index: part.Partition, raw: part.Records, err: err}
			if r.Acks < -1 || r.Acks > 1 {
				w.err = fmt.Errorf("acks %d: %w", r.Acks, kerr.InvalidRequiredAcks)
			}
			if w.err == nil {
				w.err = p.open(img, w)
			}
			writes = append(writes, w)
		}
	}
	if r.Acks == -1 {
		var cancel context.CancelFunc
		wait := max(millis(r.TimeoutMillis), leastProduceWait)
		ctx, cancel = context.WithTimeoutCause(ctx, wait, notReplicatedWithin(wait))
		defer cancel()
	}
	p.verify(ctx, req, r, writes)
	p.append(ctx, r.Acks, writes)
	return p.answer(req, r, writes)
}

// open finds the partition and looks at the batch's header.
func (p *producer) open(img *quorum.Image, w *write) (err error) {
	if t, ok := img.Topics[w.topic]; ok && t.Internal {
		return fmt.Errorf("topic %q is internal: %w", w.topic, kerr.InvalidTopicException)
	}
	if w.log, err = p.env.Replicas.Partition(w.topic, w.index); err != nil {
		return err
	}
	if w.log.ReadOnly() && !p.env.Defects.Has(defect.RefusedProducersStayRefused) { // that one has the append refused
		return fmt.Errorf("%s-%d: %w", w.topic, w.index, replica.ErrReadOnly)
	}
	if w.batch, err = psm.DecodeHeader(w.raw); err != nil {
		code := kerr.CorruptMessage
		if errors.Is(err, psm.ErrMagic) {
			code = kerr.UnsupportedForMessageFormat
		}
		return fmt.Errorf("%s-%d: %w: %w", w.topic, w.index, err, code)
	}
	if w.batch.Size != len(w.raw) {
		return fmt.Errorf("%s-%d: %d bytes with a batch of %d: want exactly one batch: %w", w.topic, w.index, len(w.raw), w.batch.Size, kerr.InvalidRecord)
	}
	return nil
}

// verify has the coordinator confirm transactional batches of transactions that
// are not open here yet, so that none can hang (KIP-890).
func (p *producer) verify(ctx context.Context, req *wire.Request, r *kmsg.ProduceRequest, writes []*write) {
	v2 := req.Version >= 12 && p.env.TransactionVersion >= 2
	type owner struct {
		id    int64
		epoch int16
	}
	unknown := map[owner][]*write{}
	for _, w := range writes {
		if w.err != nil || !w.batch.Transactional() {
			continue
		}
		if r.TransactionID == nil {
			w.err = fmt.Errorf("%s-%d: transactional batch without a transactional id: %w", w.topic, w.index, kerr.TransactionalIDAuthorizationFailed)
			continue
		}
		var ongoing bool
		w.guard, ongoing, w.err = w.log.StartVerification(w.batch.ProducerID, w.batch.ProducerEpoch, w.batch.BaseSequence, v2)
		if w.err == nil && !ongoing {
			o := owner{w.batch.ProducerID, w.batch.ProducerEpoch}
			unknown[o] = append(unknown[o], w)
		}
	}
	for o, ws := range unknown {
		var partitions []env.TopicPartition
		for _, w := range ws {
			partitions = append(partitions, env.TopicPartition{Topic: w.topic, Partition: w.index})
		}
		for i, err := range p.verifier.VerifyOrAdd(ctx, *r.TransactionID, o.id, o.epoch, partitions, v2) {
			if err != nil && !p.letsLateIn(err) {
				ws[i].err = fmt.Errorf("%s-%d: verify transaction of %q: %w", ws[i].topic, ws[i].index, *r.TransactionID, forProducer(err, req.Version))
			}
		}
	}
}

// forProducer is a coordinator's error as producers of a version understand
// it: what passes by itself becomes an error that they try again.
func forProducer(err error, version int16) error {
	switch {
	case errors.Is(err, kerr.ConcurrentTransactions) && version >= 12:
		return err
	case errors.Is(err, kerr.ConcurrentTransactions), errors.Is(err, kerr.CoordinatorLoadInProgress),
		errors.Is(err, kerr.CoordinatorNotAvailable), errors.Is(err, kerr.NotCoordinator):
		return fmt.Errorf("%w: %w", kerr.NotEnoughReplicas, err)
	case errors.Is(err, kerr.TransactionAbortable) && version < 11:
		return fmt.Errorf("%w: %w", kerr.InvalidTxnState, err)
	}
	return err
}

// append writes to all partitions at once, so that their waits for replication
// are one.
func (p *producer) append(ctx context.Context, acks int16, writes []*write) {
	var all sync.WaitGroup
	for _, w := range writes {
		if w.err != nil {
			continue
		}
		do := func() {
			w.done, w.err = w.log.Append(ctx, w.raw, replica.AppendOptions{
				Purpose: replica.ForClient, Acks: acks, LeaderEpoch: -1, Guard: w.guard,
			})
		}
		if len(writes) == 1 {
			do()
			continue
		}
		all.Go(do)
	}
	all.Wait()
}

func (p *producer) answer(req *wire.Request, r *kmsg.ProduceRequest, writes []*write) (wire.Response, error) {
	if r.Acks == 0 {
		for _, w := range writes {
			if w.err != nil {
				// The only way to tell a client that wants no answer.
				return nil, wire.ErrCloseConnection
			}
		}
		return nil, nil
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = req.Version
	var leaders hinted
	for _, t := range r.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		for range t.Partitions {
			got := p.result(writes[0])
			leaders.add(got.CurrentLeader.LeaderID)
			out.Partitions = append(out.Partitions, got)
			writes = writes[1:]
		}
		resp.Topics = append(resp.Topics, out)
	}
	if req.Version >= 10 { // KIP-951
		leaders.each(p.env, req.Listener, func(id int32, host string, port int32) {
			b := kmsg.NewProduceResponseBroker()
			b.NodeID, b.Host, b.Port = id, host, port
			resp.Brokers = append(resp.Brokers, b)
		})
	}
	return resp, nil
}

func (p *producer) result(w *write) kmsg.ProduceResponseTopicPartition {
	out := kmsg.NewProduceResponseTopicPartition()
	out.Partition, out.BaseOffset = w.index, -1
	if w.err != nil {
		out.ErrorCode, out.ErrorMessage = errorOf(w.err)
		if errors.Is(w.err, replica.ErrReadOnly) && p.env.Defects.Has(defect.RefusedWithoutAWord) {
			out.ErrorMessage = nil
		}
		if errors.Is(w.err, kerr.ProducerFenced) {
			// Producers know a fenced epoch by this code (SC-2).
			out.ErrorCode = kerr.InvalidProducerEpoch.Code
		}
		var keyless *replica.KeylessError
		if errors.As(w.err, &keyless) {
			for _, place := range keyless.Records {
				r := kmsg.NewProduceResponseTopicPartitionErrorRecord()
				r.RelativeOffset, r.ErrorMessage = place, out.ErrorMessage
				out.ErrorRecords = append(out.ErrorRecords, r)
			}
		}
		if id, epoch, ok := leaderOf(p.env, w.topic, w.index, w.err); ok {
			out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = id, epoch
		}
		return out
	}
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = w.done.BaseOffset, w.done.LogAppendTime, w.done.LogStartOffset
	return out
}
