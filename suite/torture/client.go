package torture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// client sends requests one by one and never tries again by itself: so what is
// not known of a request's outcome stays unknown. It belongs to one goroutine.
type client struct {
	name    string
	net     network
	nodes   []string // addresses, by node
	format  *kmsg.RequestFormatter
	conns   map[int32]net.Conn
	corr    int32
	timeout time.Duration
	leaders map[partition]int32
	asked   int // whom the metadata is asked of
}

// partition names one.
type partition struct {
	Topic string `json:"topic"`
	Index int32  `json:"index"`
}

func (p partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Index) }

// errNotSent is wrapped by errors of requests that nobody has got.
var errNotSent = errors.New("request was not sent")

func newClient(name string, n network, nodes []string, timeout time.Duration) *client {
	return &client{
		name: name, net: n, nodes: nodes, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(name)),
		conns: map[int32]net.Conn{}, timeout: timeout, leaders: map[partition]int32{},
	}
}

func (c *client) close() {
	for id, conn := range c.conns {
		_ = conn.Close()
		delete(c.conns, id)
	}
}

// ask sends a request in the version that it has to a node (an index into
// nodes), and reads the answer into resp.
func (c *client) ask(ctx context.Context, node int32, req kmsg.Request, resp kmsg.Response) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s", c.timeout))
	defer cancel()
	err := c.roundTrip(ctx, node, req, resp)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		if conn := c.conns[node]; conn != nil {
			_ = conn.Close()
			delete(c.conns, node)
		}
		return fmt.Errorf("%s to node %d: %w", kmsg.NameForKey(req.Key()), node, err)
	}
	return nil
}

func (c *client) roundTrip(ctx context.Context, node int32, req kmsg.Request, resp kmsg.Response) error {
	if int(node) >= len(c.nodes) || node < 0 {
		return fmt.Errorf("no such node: %w", errNotSent)
	}
	conn := c.conns[node]
	if conn == nil {
		var err error
		if conn, err = c.net.Dial(ctx, "tcp", c.nodes[node]); err != nil {
			return fmt.Errorf("%w: %w", errNotSent, err)
		}
		c.conns[node] = conn
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	c.corr++
	if _, err := conn.Write(c.format.AppendRequest(nil, req, c.corr)); err != nil {
		return err
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	size, corr := binary.BigEndian.Uint32(head[:]), int32(binary.BigEndian.Uint32(head[4:]))
	if size < 4 || size > 64<<20 || corr != c.corr {
		return fmt.Errorf("answer of %d bytes to request %d, not %d", size, corr, c.corr)
	}
	raw := make([]byte, size-4)
	if _, err := io.ReadFull(conn, raw); err != nil {
		return err
	}
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && resp.Key() != 18 {
		b := kbin.Reader{Src: raw}
		for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
			b.Uvarint()
			b.Span(int(b.Uvarint()))
		}
		if err := b.Complete(); err != nil {
			return err
		}
		raw = b.Src
	}
	return resp.ReadFrom(raw)
}

// metadata asks one node, another one each time.
func (c *client) metadata(ctx context.Context, topics ...string) (*kmsg.MetadataResponse, error) {
	c.asked = (c.asked + 1) % len(c.nodes)
	return c.metadataOf(ctx, int32(c.asked), topics...)
}

func (c *client) metadataOf(ctx context.Context, node int32, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(12)
	if len(topics) > 0 {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp := kmsg.NewPtrMetadataResponse()
	return resp, c.ask(ctx, node, req, resp)
}

// leader is a partition's, as last heard; it is forgotten by lost.
func (c *client) leader(ctx context.Context, p partition) (int32, error) {
	if id, ok := c.leaders[p]; ok {
		return id, nil
	}
	m, err := c.metadata(ctx, p.Topic)
	if err != nil {
		return -1, err
	}
	for _, t := range m.Topics {
		for _, q := range t.Partitions {
			if t.Topic != nil && q.ErrorCode == 0 && q.Leader >= 0 {
				c.leaders[partition{*t.Topic, q.Partition}] = q.Leader
			}
		}
	}
	if id, ok := c.leaders[p]; ok {
		return id, nil
	}
	return -1, fmt.Errorf("%s: %w", p, kerr.LeaderNotAvailable)
}

func (c *client) lost(p partition) { delete(c.leaders, p) }

// pause waits between two tries.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// produced is the answer to a Produce of one batch.
type produced struct {
	offset int64
	code   int16
	text   string
}

// produce sends one batch to a partition's leader, acks=all. An error means
// that the outcome is not known, or that nothing was sent (errNotSent).
func (c *client) produce(ctx context.Context, p partition, txn *string, raw []byte) (produced, error) {
	leader, err := c.leader(ctx, p)
	if err != nil {
		return produced{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(12)
	req.Acks, req.TimeoutMillis, req.TransactionID = -1, int32(c.timeout.Milliseconds()), txn
	t := kmsg.NewProduceRequestTopic()
	t.Topic = p.Topic
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = p.Index, raw
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	resp := kmsg.NewPtrProduceResponse()
	if err := c.ask(ctx, leader, req, resp); err != nil {
		c.lost(p)
		return produced{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return produced{}, fmt.Errorf("produce: answer names %d topics", len(resp.Topics))
	}
	r := resp.Topics[0].Partitions[0]
	out := produced{offset: r.BaseOffset, code: r.ErrorCode}
	if r.ErrorMessage != nil {
		out.text = *r.ErrorMessage
	}
	if out.code != 0 {
		c.lost(p)
	}
	return out, nil
}

// refusedBefore says that a Produce with this code has appended nothing.
func refusedBefore(code int16) bool {
	return slices.Contains([]*kerr.Error{
		kerr.NotEnoughReplicas, kerr.UnknownTopicOrPartition, kerr.OutOfOrderSequenceNumber, kerr.InvalidTxnState,
		kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.TransactionAbortable, kerr.ConcurrentTransactions,
	}, kerr.TypedErrorForCode(code))
}

// fetched is the answer to a Fetch of one partition.
type abortedTxn = kmsg.FetchResponseTopicPartitionAbortedTransaction

type fetched struct {
	raw          []byte
	high, stable int64
	start        int64
	aborted      []abortedTxn
	code         int16
}

func (c *client) fetch(ctx context.Context, p partition, offset int64, committed bool, limit int32) (fetched, error) {
	leader, err := c.leader(ctx, p)
	if err != nil {
		return fetched{}, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(12)
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, 200, 1, limit, -1
	if committed {
		req.IsolationLevel = 1
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic = p.Topic
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.Index, offset, limit
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	resp := kmsg.NewPtrFetchResponse()
	if err := c.ask(ctx, leader, req, resp); err != nil {
		c.lost(p)
		return fetched{}, err
	}
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fetched{}, fmt.Errorf("fetch of %s: error %d, %d topics", p, resp.ErrorCode, len(resp.Topics))
	}
	r := resp.Topics[0].Partitions[0]
	if r.ErrorCode != 0 {
		c.lost(p)
	}
	return fetched{
		raw: r.RecordBatches, high: r.HighWatermark, stable: r.LastStableOffset, start: r.LogStartOffset,
		aborted: r.AbortedTransactions, code: r.ErrorCode,
	}, nil
}

// end is where a partition ends for readers: its high watermark, or its last
// stable offset.
func (c *client) end(ctx context.Context, p partition, committed bool) (int64, error) {
	leader, err := c.leader(ctx, p)
	if err != nil {
		return -1, err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(7)
	req.ReplicaID = -1
	if committed {
		req.IsolationLevel = 1
	}
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = p.Topic
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = p.Index, -1
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	resp := kmsg.NewPtrListOffsetsResponse()
	if err := c.ask(ctx, leader, req, resp); err != nil {
		c.lost(p)
		return -1, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, fmt.Errorf("offsets of %s: %d topics", p, len(resp.Topics))
	}
	r := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		c.lost(p)
		return -1, fmt.Errorf("offsets of %s: %w", p, err)
	}
	return r.Offset, nil
}

// createTopic makes a topic, by whichever node answers.
func (c *client) createTopic(ctx context.Context, name string, partitions int32, replicas int16, configs map[string]string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	req.TimeoutMillis = int32(c.timeout.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	for k, v := range configs {
		conf := kmsg.NewCreateTopicsRequestTopicConfig()
		conf.Name, conf.Value = k, kmsg.StringPtr(v)
		t.Configs = append(t.Configs, conf)
	}
	req.Topics = append(req.Topics, t)
	var last error
	for try := 0; ctx.Err() == nil; try++ {
		resp := kmsg.NewPtrCreateTopicsResponse()
		last = c.ask(ctx, int32(try%len(c.nodes)), req, resp)
		if last == nil && len(resp.Topics) == 1 {
			last = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
			if last == nil || errors.Is(last, kerr.TopicAlreadyExists) {
				return nil
			}
		}
		pause(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("create topic %s: %w", name, last)
}
