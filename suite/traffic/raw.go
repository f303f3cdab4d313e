package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// Raw speaks the protocol by hand: it sets what a client library would choose
// itself, such as producer id, epoch and sequence, and sees answers as they
// came. It sends nothing again that may not be carried out twice, and what it does send
// again is told where it does. Its methods may be called concurrently.
type Raw struct {
	name    string
	cluster Cluster
	rec     *Recorder
	opts    []kgo.Opt

	mu      sync.Mutex
	cl      *kgo.Client
	leaders map[Partition]int32
	brokers []int32 // that live, by their ids
	index   int64
}

// NewRaw makes a raw client and looks up who leads what.
func NewRaw(ctx context.Context, rec *Recorder, cluster Cluster, name string) (*Raw, error) {
	return newRaw(ctx, rec, cluster, name, rawVersions())
}

// rawVersions are the latest versions of requests that raw clients send.
func rawVersions() *kversion.Versions {
	// The versions that name topics rather than give their ids are enough here.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 12)
	versions.SetMaxKeyVersion(int16(kmsg.Fetch), 12)
	versions.SetMaxKeyVersion(int16(kmsg.OffsetCommit), 9)
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9)
	// Later versions are for brokers, on behalf of clients.
	versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3)
	return versions
}

func newRaw(ctx context.Context, rec *Recorder, cluster Cluster, name string, versions *kversion.Versions) (*Raw, error) {
	r := &Raw{
		name: name, cluster: cluster, rec: rec, leaders: map[Partition]int32{},
		opts: append(clientOpts(cluster, name), kgo.MaxVersions(versions), kgo.RequestRetries(0)),
	}
	if err := r.Renew(); err != nil {
		return nil, err
	}
	if _, err := r.metadata(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Renew gives up every connection, and forgets who leads what. After a restart of a broker those that were
// not used since would fail once each.
func (r *Raw) Renew() error {
	cl, err := kgo.NewClient(r.opts...)
	if err != nil {
		return fmt.Errorf("make raw client %s for cluster %s: %w", r.name, r.cluster.Name, err)
	}
	r.mu.Lock()
	old := r.cl
	r.cl = cl
	clear(r.leaders)
	r.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return nil
}

func (r *Raw) client() *kgo.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cl
}

// Close closes the client.
func (r *Raw) Close() { r.client().Close() }

// metadata asks for all topics and remembers who leads what.
func (r *Raw) metadata(ctx context.Context) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	var resp *kmsg.MetadataResponse
	if err := again(ctx, func() (err error) {
		resp, err = req.RequestWith(ctx, r.client())
		return err
	}); err != nil {
		return nil, fmt.Errorf("raw client %s: metadata of cluster %s: %w", r.name, r.cluster.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.brokers = nil
	for _, b := range resp.Brokers {
		r.brokers = append(r.brokers, b.NodeID)
	}
	slices.Sort(r.brokers)
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		for _, p := range t.Partitions {
			r.leaders[Partition{*t.Topic, p.Partition}] = p.Leader
		}
	}
	return resp, nil
}

// leader returns the node that leads p.
func (r *Raw) leader(ctx context.Context, p Partition) (int32, error) {
	for range 2 {
		r.mu.Lock()
		id, ok := r.leaders[p]
		r.mu.Unlock()
		if ok && id >= 0 {
			return id, nil
		}
		if _, err := r.metadata(ctx); err != nil {
			return -1, err
		}
	}
	return -1, fmt.Errorf("raw client %s: partition %s has no leader on cluster %s: %w", r.name, p, r.cluster.Name, kerr.LeaderNotAvailable)
}

// knows says whether the cluster has a partition, with a leader or without one just now.
func (r *Raw) knows(ctx context.Context, p Partition) (bool, error) {
	if _, err := r.metadata(ctx); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.leaders[p]
	return there, nil
}

func (r *Raw) forget(p Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaders, p)
}

// ask sends req to the leader of p.
func (r *Raw) ask(ctx context.Context, p Partition, req kmsg.Request) (kmsg.Response, int32, error) {
	id, err := r.leader(ctx, p)
	if err != nil {
		return nil, -1, err
	}
	resp, err := r.client().Broker(int(id)).Request(ctx, req)
	if err != nil {
		r.forget(p)
		return nil, id, fmt.Errorf("raw client %s: %s for %s: %w", r.name, kmsg.NameForKey(req.Key()), p, err)
	}
	return resp, id, nil
}

// Tag returns the tag of the first of n records that this client writes next.
func (r *Raw) Tag(p Partition, txn int64, intent history.Intent, n int32) history.Tag {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := history.Tag{
		Cluster: r.cluster.Name, Writer: r.name, Txn: txn, Intent: intent,
		Index: r.index, Place: p.String(),
	}
	r.index += int64(n)
	return t
}

// Write is one hand-made batch on its way.
type Write struct {
	Partition Partition
	Batch     Batch
	Mode      history.Mode
	Collision history.Collision
	Trial     history.Trial
	// TransactionalID goes with transactional batches.
	TransactionalID string
	// Timeout is how long the broker may wait for other replicas; 0 for long.
	Timeout time.Duration
}

// Produce sends one batch, once, and returns the answered base offset. The
// result is nil only when ctx ended before anything was sent.
func (r *Raw) Produce(ctx context.Context, w Write) (int64, *history.Result) {
	return r.operation(w, func() (int64, *history.Result) { return r.produce(ctx, w) })
}

// operation records the sending of a batch, and its answer.
func (r *Raw) operation(w Write, send func() (int64, *history.Result)) (int64, *history.Result) {
	id := w.Batch.ID
	sent := history.Produce{
		Writer: r.name, Cluster: r.cluster.Name, Topic: w.Partition.Topic, Partition: w.Partition.Index,
		Mode: w.Mode, Tag: w.Batch.First, Count: w.Batch.Count, Collision: w.Collision, Trial: w.Trial,
		Batch: &id, Offset: -1,
	}
	op := r.rec.Op()
	r.rec.Add(history.Event{Kind: history.KindProduceBegin, Op: op, Produce: &sent})
	offset, result := send()
	acked := sent
	acked.Offset, acked.Result = offset, result
	r.rec.Add(history.Event{Kind: history.KindProduceAck, Op: op, Produce: &acked})
	return offset, result
}

func (r *Raw) produce(ctx context.Context, w Write) (int64, *history.Result) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = int32(cmp.Or(w.Timeout, requestTimeout).Milliseconds())
	if w.TransactionalID != "" {
		id := r.cluster.named(w.TransactionalID)
		req.TransactionID = &id
	}
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition = w.Partition.Index
	part.Records = w.Batch.Encode()
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = w.Partition.Topic
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, _, err := r.ask(ctx, w.Partition, req)
	if err != nil {
		return -1, resultOf(err)
	}
	topics := resp.(*kmsg.ProduceResponse).Topics
	if len(topics) == 0 || len(topics[0].Partitions) == 0 {
		return -1, resultOf(errors.New("the answer holds no partition"))
	}
	if p := topics[0].Partitions[0]; p.ErrorCode != 0 {
		r.forget(w.Partition)
		return -1, resultOfCode(p.ErrorCode, p.ErrorMessage)
	}
	return topics[0].Partitions[0].BaseOffset, resultOf(nil)
}

// InitProducerID asks for a producer id; an empty transactionalID asks for one
// that is not transactional.
func (r *Raw) InitProducerID(ctx context.Context, transactionalID string) (int64, int16, error) {
	return r.initProducerID(ctx, transactionalID, txnTimeout)
}

func (r *Raw) initProducerID(ctx context.Context, transactionalID string, timeout time.Duration) (int64, int16, error) {
	return r.recorded(transactionalID, func(node *int32) (int64, int16, error) {
		return r.askProducerID(ctx, transactionalID, timeout, node)
	})
}

// producerIDOf asks one broker for a producer id.
func (r *Raw) producerIDOf(ctx context.Context, broker int32) (int64, error) {
	id, _, err := r.recorded("", func(node *int32) (int64, int16, error) {
		*node = broker
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		for {
			resp, err := req.RequestWith(ctx, r.client().Broker(int(broker)))
			if err == nil {
				err = kerr.ErrorForCode(resp.ErrorCode)
			}
			switch {
			case busy(ctx, err):
			case err != nil:
				return -1, -1, err
			default:
				return resp.ProducerID, resp.ProducerEpoch, nil
			}
		}
	})
	return id, err
}

// recorded asks for a producer id, and records the answer.
func (r *Raw) recorded(transactionalID string, ask func(node *int32) (int64, int16, error)) (int64, int16, error) {
	var node int32
	id, epoch, err := ask(&node)
	e := history.InitPID{
		Writer: r.name, Cluster: r.cluster.Name, TransactionalID: transactionalID,
		ProducerID: id, Epoch: epoch, Node: node, Result: resultOf(err),
	}
	r.rec.Add(history.Event{Kind: history.KindInitProducerID, InitPID: &e})
	if err != nil {
		return -1, -1, fmt.Errorf("raw client %s: init producer id %q on cluster %s: %w", r.name, transactionalID, r.cluster.Name, err)
	}
	return id, epoch, nil
}

// askProducerID is initProducerID without a record of it. It sets node to the
// broker that answered, where that is known.
func (r *Raw) askProducerID(ctx context.Context, transactionalID string, timeout time.Duration, node *int32) (int64, int16, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = int32(timeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = -1, -1
	if transactionalID != "" {
		id := r.cluster.named(transactionalID)
		req.TransactionalID = &id
	}
	for {
		resp, err := r.askIssuer(ctx, req, node)
		if transactionalID == "" && broken(err) {
			_, _ = r.metadata(ctx) // who answers nothing may have gone
		}
		// The coordinator loads or ends a transaction; asking again is harmless. A
		// transactional id whose answer was lost would have its epoch raised twice.
		if !(transactionalID != "" && broken(err)) && busy(ctx, err) {
			continue
		}
		if transactionalID == "" && err != nil && r.several() {
			// It may have gone; another hands out ids then.
			if _, merr := r.metadata(ctx); merr == nil {
				resp, err = r.askIssuer(ctx, req, node)
			}
		}
		if err != nil {
			return -1, -1, err
		}
		return resp.ProducerID, resp.ProducerEpoch, nil
	}
}

// askIssuer sends the request to the issuer, or for a transactional id to its
// coordinator, which the client finds.
func (r *Raw) askIssuer(ctx context.Context, req *kmsg.InitProducerIDRequest, node *int32) (*kmsg.InitProducerIDResponse, error) {
	*node = 0
	var resp kmsg.Response
	var err error
	if id := r.issuer(); req.TransactionalID == nil && id >= 0 {
		*node = id
		resp, err = r.client().Broker(int(id)).Request(ctx, req)
	} else {
		shards := r.client().RequestSharded(ctx, req)
		if len(shards) != 1 {
			return nil, fmt.Errorf("%d answers", len(shards))
		}
		resp, err = shards[0].Resp, shards[0].Err
		*node = max(shards[0].Meta.NodeID, 0)
	}
	if err != nil {
		return nil, err
	}
	got, ok := resp.(*kmsg.InitProducerIDResponse)
	if !ok {
		return nil, fmt.Errorf("the answer is %T", resp)
	}
	return got, kerr.ErrorForCode(got.ErrorCode)
}

// AddPartitions asks the transaction coordinator to add p to a transaction
// (version 3, as clients of transactions version 1 do) and returns the
// partition's result.
func (r *Raw) AddPartitions(ctx context.Context, transactionalID string, id int64, epoch int16, p Partition) (*history.Result, error) {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = r.cluster.named(transactionalID), id, epoch
	topic := kmsg.NewAddPartitionsToTxnRequestTopic()
	topic.Topic, topic.Partitions = p.Topic, []int32{p.Index}
	req.Topics = append(req.Topics, topic)
	// Where nobody answered, nothing was refused; to add it twice is to add it once.
	var resp *kmsg.AddPartitionsToTxnResponse
	if err := again(ctx, func() (err error) {
		resp, err = req.RequestWith(ctx, r.client())
		return err
	}); err != nil {
		return nil, fmt.Errorf("raw client %s: add %s to transaction %s: %w", r.name, p, transactionalID, err)
	}
	result := resultOf(errors.New("the answer holds no partition"))
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			result = resultOfCode(part.ErrorCode, nil)
		}
	}
	r.rec.Add(history.Event{Kind: history.KindAddPartitions, AddPartitions: &history.AddPartitions{
		Writer: r.name, Cluster: r.cluster.Name, TransactionalID: transactionalID,
		Topic: p.Topic, Partition: p.Index, Result: result,
	}})
	return result, nil
}

// join has a coordinator add p to a transaction, however often it has to be asked.
func (r *Raw) join(ctx context.Context, transactionalID string, id int64, epoch int16, p Partition) error {
	for {
		res, err := r.AddPartitions(ctx, transactionalID, id, epoch, p)
		if err != nil || res.Outcome == history.OK {
			return err
		}
		if err := mirrorrpc.ErrorForCode(int16(kmsg.AddPartitionsToTxn), res.Code); !busy(ctx, err) {
			return fmt.Errorf("raw client %s: add %s to transaction %s: %w", r.name, p, transactionalID, err)
		}
	}
}
