package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/suite/history"
)

// Limits of a client's patience. They bound a run, they are no way to wait for
// anything: what is waited for is always an answer.
const (
	requestTimeout  = 5 * time.Second
	deliveryTimeout = 10 * time.Second
	// Transactions that are left open on purpose outlast any scenario, also on a
	// machine that is very busy; brokers allow a quarter of an hour.
	txnTimeout = 10 * time.Minute
)

// client is what a [Producer] writes with: franz-go's client, or Kafka's own.
type client interface {
	ProducerID(ctx context.Context) (int64, int16, error)
	Produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error))
	Flush(ctx context.Context) error
	BeginTransaction() error
	EndTransaction(ctx context.Context, commit kgo.TransactionEndTry) error
	Close()
}

// Producer is one producer of a client library. Its methods must not be called
// concurrently.
type Producer struct {
	name, txnID string
	cluster     Cluster
	mode        history.Mode
	rec         *Recorder
	cl          client
	payload     []byte
	varied      bool

	index int64 // of the next record
	txn   int64 // number of the next, or of the open, transaction
	// intent of the open transaction; IntentNone outside.
	intent history.Intent
}

// ProducerOptions say what kind of producer to make.
type ProducerOptions struct {
	Name string
	Mode history.Mode
	// TransactionalID is used with history.Transactional; the name where empty.
	TransactionalID string
	// Attempts bounds how often the client sends a refused record again; a
	// writer that expects to be refused wants 0, one that does not [Patiently].
	Attempts int
	// Payload follows the tag in each record's value.
	Payload []byte
	// Compression of the batches.
	Compression Codec
	// Varied records have null keys, null values, and headers beside the tag's.
	Varied bool
	// Java makes it a producer of Kafka's own client; nil for franz-go's.
	Java *Java
	// TransactionTimeout is how long a transaction may stay open; 0 for ten minutes.
	TransactionTimeout time.Duration
}

// Patiently are the attempts of a writer that is not to be refused: as many as there
// may be within the time of a delivery. Ten would be over in little more than a second,
// and a machine that is very busy can be without a leader for longer.
const Patiently = 1000

// NewProducer makes a producer for cluster. It connects when it first sends.
func NewProducer(rec *Recorder, cluster Cluster, o ProducerOptions) (*Producer, error) {
	p := &Producer{
		name: o.Name, txnID: o.TransactionalID, cluster: cluster, mode: o.Mode,
		rec: rec, payload: o.Payload, varied: o.Varied, intent: history.IntentNone,
	}
	if o.Mode == history.Transactional && p.txnID == "" {
		p.txnID = o.Name
	}
	if o.Java != nil {
		p.cl = newJavaProducer(cluster, o, p.txnID)
		return p, nil
	}
	opts := append(clientOpts(cluster, o.Name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// Records of one Send go out together, as one batch for each partition.
		kgo.ManualFlushing(),
		kgo.ProducerBatchCompression(o.Compression.franz()),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProduceRequestTimeout(requestTimeout),
		kgo.RecordRetries(o.Attempts),
		kgo.UnknownTopicRetries(max(3, o.Attempts)),
	)
	switch o.Mode {
	case history.Plain:
		opts = append(opts, kgo.DisableIdempotentWrite())
	case history.Transactional:
		opts = append(opts, kgo.TransactionalID(cluster.named(p.txnID)), kgo.TransactionTimeout(cmp.Or(o.TransactionTimeout, txnTimeout)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make producer %s for cluster %s: %w", o.Name, cluster.Name, err)
	}
	p.cl = cl
	return p, nil
}

// clientOpts are what every client of a run has in common.
func clientOpts(c Cluster, id string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap...),
		kgo.ClientID(id),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RequestTimeoutOverhead(requestTimeout),
		kgo.RetryTimeout(deliveryTimeout),
		kgo.RetryBackoffFn(func(n int) time.Duration {
			return min(time.Duration(n)*20*time.Millisecond, 200*time.Millisecond)
		}),
	}
	opts = append(opts, c.Opts...)
	if c.Dialer != nil {
		return append(opts, kgo.Dialer(c.Dialer(id)))
	}
	// DialTimeout belongs to the client's own dialer.
	return append(opts, kgo.DialTimeout(requestTimeout))
}

// Learn waits until the client knows of partitions that topics got meanwhile; by
// itself it would look much later. What it never wrote to it will ask for.
func (p *Producer) Learn(ctx context.Context, parts ...Partition) error {
	cl, ok := p.cl.(*kgo.Client)
	if !ok {
		return nil // Kafka's own looks for a partition that it does not know
	}
	for _, part := range parts {
		for known, _, _ := cl.PartitionLeader(part.Topic, 0); known >= 0; {
			if leader, _, err := cl.PartitionLeader(part.Topic, part.Index); leader >= 0 && err == nil {
				break
			}
			cl.ForceMetadataRefresh()
			select {
			case <-ctx.Done():
				return fmt.Errorf("producer %s does not hear of %s on cluster %s: %w", p.name, part, p.cluster.Name, context.Cause(ctx))
			case <-time.After(servesPause):
			}
		}
	}
	return nil
}

// Name returns the writer's name.
func (p *Producer) Name() string { return p.name }

// TransactionalID is the producer's, "" for one without transactions.
func (p *Producer) TransactionalID() string { return p.txnID }

// ID asks for the producer's id and epoch, if it has none yet, and records them.
func (p *Producer) ID(ctx context.Context) (int64, int16, error) {
	id, epoch, err := p.cl.ProducerID(ctx)
	if ended(ctx) && err != nil {
		return -1, -1, fmt.Errorf("producer %s: init producer id: %w", p.name, err)
	}
	p.rec.Add(history.Event{Kind: history.KindInitProducerID, InitPID: &history.InitPID{
		Writer: p.name, Cluster: p.cluster.Name, TransactionalID: p.txnID,
		ProducerID: id, Epoch: epoch, Result: resultOf(err),
	}})
	if err != nil {
		return -1, -1, fmt.Errorf("producer %s: init producer id: %w", p.name, err)
	}
	return id, epoch, nil
}

// Send writes n records to each of parts and waits for the answers. It returns
// the first record's error; which record met what is in the history.
func (p *Producer) Send(ctx context.Context, n int, parts ...Partition) error {
	if p.mode == history.Transactional && p.intent == history.IntentNone {
		return fmt.Errorf("producer %s: send outside a transaction", p.name)
	}
	txn := history.NoTxn
	if p.mode == history.Transactional {
		txn = p.txn
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for _, part := range parts {
		for range n {
			tag := history.Tag{
				Cluster: p.cluster.Name, Writer: p.name, Txn: txn, Intent: p.intent,
				Index: p.index, Place: part.String(),
			}
			p.index++
			op := p.rec.Op()
			sent := history.Produce{
				Writer: p.name, Cluster: p.cluster.Name, Topic: part.Topic, Partition: part.Index,
				Mode: p.mode, Tag: tag, Count: 1, Offset: -1,
			}
			p.rec.Add(history.Event{Kind: history.KindProduceBegin, Op: op, Produce: &sent})
			wg.Add(1)
			p.cl.Produce(ctx, p.record(part, tag), func(r *kgo.Record, err error) {
				defer wg.Done()
				acked := sent
				acked.Result = resultOf(err)
				if err == nil {
					acked.Offset = r.Offset
				}
				p.rec.Add(history.Event{Kind: history.KindProduceAck, Op: op, Produce: &acked})
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					if first == nil {
						first = fmt.Errorf("producer %s: write to %s on cluster %s: %w", p.name, part, p.cluster.Name, err)
					}
				}
			})
		}
	}
	err := p.cl.Flush(ctx)
	if err != nil {
		// ctx has ended. The library keeps idempotent records whose outcome it
		// does not know for ever, so only the client's end makes their promises come.
		p.cl.Close()
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if first == nil && err != nil {
		first = fmt.Errorf("producer %s: flush: %w", p.name, err)
	}
	return first
}

// record is what carries the tag to a partition.
func (p *Producer) record(part Partition, tag history.Tag) *kgo.Record {
	r := &kgo.Record{
		Topic: part.Topic, Partition: part.Index,
		Key: []byte(tag.Place), Value: tag.Value(p.payload),
		Headers: []kgo.RecordHeader{{Key: history.HeaderKey, Value: []byte(tag.String())}},
	}
	if !p.varied {
		return r
	}
	switch tag.Index % 4 {
	case 0:
		r.Value = nil
	case 1:
		r.Key = nil
	case 2:
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "null"}, kgo.RecordHeader{Key: "", Value: []byte{}},
			kgo.RecordHeader{Key: "null", Value: []byte{0, 0xff, 'x'}})
	}
	return r
}

// Begin opens a transaction that its writer means to end as intent says.
func (p *Producer) Begin(intent history.Intent) error {
	if err := p.cl.BeginTransaction(); err != nil {
		return fmt.Errorf("producer %s: begin transaction: %w", p.name, err)
	}
	p.intent = intent
	p.rec.Add(history.Event{Kind: history.KindTxnBegin, Txn: p.txnEvent(intent, nil)})
	return nil
}

// End commits or aborts the open transaction.
func (p *Producer) End(ctx context.Context, commit bool) error {
	asked := history.IntentAbort
	if commit {
		asked = history.IntentCommit
	}
	op := p.rec.Op()
	p.rec.Add(history.Event{Kind: history.KindTxnEndBegin, Op: op, Txn: p.txnEvent(asked, nil)})
	err := p.cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	p.rec.Add(history.Event{Kind: history.KindTxnEnd, Op: op, Txn: p.txnEvent(asked, resultOf(err))})
	p.intent = history.IntentNone
	p.txn++
	if err != nil {
		return fmt.Errorf("producer %s: end transaction on cluster %s (%s): %w", p.name, p.cluster.Name, asked, err)
	}
	return nil
}

func (p *Producer) txnEvent(intent history.Intent, r *history.Result) *history.Txn {
	return &history.Txn{
		Writer: p.name, Cluster: p.cluster.Name, TransactionalID: p.txnID,
		Number: p.txn, Intent: intent, Result: r,
	}
}

// Transaction writes n records to each of parts in one transaction and commits
// or aborts it. A transaction whose records were refused is aborted.
func (p *Producer) Transaction(ctx context.Context, commit bool, n int, parts ...Partition) error {
	intent := history.IntentAbort
	if commit {
		intent = history.IntentCommit
	}
	if err := p.Begin(intent); err != nil {
		return err
	}
	sendErr := p.Send(ctx, n, parts...)
	if sendErr != nil {
		commit = false
	}
	// A client that was closed amid the sending can't end it: what went before tells why.
	return errors.Join(sendErr, p.End(ctx, commit))
}

// Close closes the client without ending an open transaction.
func (p *Producer) Close() { p.cl.Close() }
