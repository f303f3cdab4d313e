package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// batchOf is a batch with one record, changed by change before its CRC is
// taken.
func batchOf(value string, change ...func(*kmsg.RecordBatch)) []byte {
	r := kmsg.Record{Value: []byte(value)}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b := kmsg.NewRecordBatch()
	b.Magic, b.PartitionLeaderEpoch, b.NumRecords = 2, -1, 1
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	b.Records = r.AppendTo(nil)
	for _, c := range change {
		c(&b)
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func produceOf(acks int16, topic string, partition int32, raw []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = acks, 5000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, raw
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	return r
}

func TestListOffsets(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	for _, ms := range []int64{1000, 3000, 2000} {
		raw := batchOf("v", func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = ms, ms })
		require.Zero(t, serveOne[*kmsg.ProduceResponse](n, 9, produceOf(-1, "t", 0, raw)).Topics[0].Partitions[0].ErrorCode)
	}
	for _, c := range []struct {
		name       string
		version    int16
		timestamp  int64
		epoch      int32
		code       int16
		offset, at int64
	}{
		{"latest", 4, -1, -1, 0, 3, -1},
		{"earliest", 4, -2, -1, 0, 0, -1},
		{"of a time", 4, 1500, -1, 0, 1, 3000},
		{"of a time to come", 4, 9000, -1, 0, -1, -1},
		{"of the highest time", 7, -3, -1, 0, 1, 3000},
		{"of the highest time, too old a version", 6, -3, -1, kerr.UnsupportedVersion.Code, -1, -1},
		{"earliest local", 8, -4, -1, 0, 0, -1},
		{"earliest local, too old a version", 7, -4, -1, kerr.UnsupportedVersion.Code, -1, -1},
		{"latest tiered", 9, -5, -1, 0, -1, -1},
		{"earliest to be tiered", 11, -6, -1, 0, -1, -1},
		{"earliest to be tiered, too old a version", 10, -6, -1, kerr.UnsupportedVersion.Code, -1, -1},
		{"no such timestamp", 11, -7, -1, kerr.UnsupportedVersion.Code, -1, -1},
		{"leader epoch to come", 4, -1, 9, kerr.UnknownLeaderEpoch.Code, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := kmsg.NewPtrListOffsetsRequest()
			r.ReplicaID = -1
			r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{
				{CurrentLeaderEpoch: c.epoch, Timestamp: c.timestamp},
			}}}
			p := serveOne[*kmsg.ListOffsetsResponse](n, c.version, r).Topics[0].Partitions[0]
			require.Equal(t, []any{c.code, c.offset, c.at}, []any{p.ErrorCode, p.Offset, p.Timestamp})
			require.Equal(t, c.offset >= 0, p.LeaderEpoch == 0, "leader epoch %d", p.LeaderEpoch)
		})
	}
}

func TestCreateTopics(t *testing.T) {
	n := startNode(t)
	n.topic("there", 1)
	value := func(s string) *string { return &s }
	topic := func(change func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsRequestTopic {
		r := kmsg.NewCreateTopicsRequestTopic()
		r.Topic, r.NumPartitions, r.ReplicationFactor = "new", 1, 1
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		topic kmsg.CreateTopicsRequestTopic
		want  *kerr.Error
	}{
		"there already": {topic(func(r *kmsg.CreateTopicsRequestTopic) { r.Topic = "there" }), kerr.TopicAlreadyExists},
		"name":          {topic(func(r *kmsg.CreateTopicsRequestTopic) { r.Topic = "a/b" }), kerr.InvalidTopicException},
		"no partitions": {topic(func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = 0 }), kerr.InvalidPartitions},
		"too many":      {topic(func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = math.MaxInt32 }), kerr.InvalidPartitions},
		"more replicas": {topic(func(r *kmsg.CreateTopicsRequestTopic) { r.ReplicationFactor = 2 }), kerr.InvalidReplicationFactor},
		"unknown config": {topic(func(r *kmsg.CreateTopicsRequestTopic) {
			r.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "x", Value: value("1")}}
		}), kerr.InvalidConfig},
		"bad config": {topic(func(r *kmsg.CreateTopicsRequestTopic) {
			r.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "segment.bytes", Value: value("1")}}
		}), kerr.InvalidConfig},
		"config of no value": {topic(func(r *kmsg.CreateTopicsRequestTopic) {
			r.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "segment.bytes"}}
		}), kerr.InvalidConfig},
		"assignment and counts": {topic(func(r *kmsg.CreateTopicsRequestTopic) {
			r.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1}}}
		}), kerr.InvalidRequest},
		"assignment with a gap": {topic(func(r *kmsg.CreateTopicsRequestTopic) {
			r.NumPartitions, r.ReplicationFactor = -1, -1
			r.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}}
		}), kerr.InvalidReplicaAssignment},
		"assignment with other numbers": {topic(func(r *kmsg.CreateTopicsRequestTopic) {
			r.NumPartitions, r.ReplicationFactor = -1, -1
			r.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1}}, {Partition: 1, Replicas: []int32{1, 2}}}
		}), kerr.InvalidReplicaAssignment},
		"assignment to nobody": {topic(func(r *kmsg.CreateTopicsRequestTopic) {
			r.NumPartitions, r.ReplicationFactor = -1, -1
			r.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{4}}}
		}), kerr.InvalidReplicaAssignment},
	} {
		t.Run(name, func(t *testing.T) {
			r := kmsg.NewPtrCreateTopicsRequest()
			r.Topics = []kmsg.CreateTopicsRequestTopic{c.topic}
			out := serveOne[*kmsg.CreateTopicsResponse](n, 7, r).Topics[0]
			require.Equal(t, c.want.Code, out.ErrorCode, "%v", kerr.ErrorForCode(out.ErrorCode))
			require.NotNil(t, out.ErrorMessage)
			require.NotContains(t, n.Env().Quorum.Image().Topics, "new")
		})
	}
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Topics = []kmsg.CreateTopicsRequestTopic{topic(func(r *kmsg.CreateTopicsRequestTopic) {
		r.NumPartitions, r.ReplicationFactor = -1, -1
		r.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "segment.bytes", Value: value("4096")}}
	})}
	r.ValidateOnly = true
	out := serveOne[*kmsg.CreateTopicsResponse](n, 7, r).Topics[0]
	require.Equal(t, []any{int16(0), int32(1), int16(1)}, []any{out.ErrorCode, out.NumPartitions, out.ReplicationFactor})
	require.NotContains(t, n.Env().Quorum.Image().Topics, "new", "only asked whether it could be made")
	r.ValidateOnly = false
	out = serveOne[*kmsg.CreateTopicsResponse](n, 7, r).Topics[0]
	require.Zero(t, out.ErrorCode)
	require.Equal(t, n.Env().Quorum.Image().Topics["new"].ID, out.TopicID)
	told := map[string]string{}
	for _, c := range out.Configs {
		told[c.Name] = fmt.Sprint(*c.Value, " ", c.Source)
	}
	require.Len(t, told, len(topicConfigs()), "all of them, as from Kafka")
	require.Equal(t, []string{"4096 1", "delete 5"}, []string{told["segment.bytes"], told["cleanup.policy"]})
	r.Topics = append(r.Topics, r.Topics[0])
	require.Equal(t, kerr.InvalidRequest.Code, serveOne[*kmsg.CreateTopicsResponse](n, 7, r).Topics[0].ErrorCode, "named twice")
}

func TestDeleteTopics(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	n.topic("by-id", 1)
	require.NoError(t, txn.EnsureTopic(n.ctx(), n.Env()))
	image := n.Env().Quorum.Image
	text := func(s string) *string { return &s }
	delete := func(want kmsg.DeleteTopicsRequestTopic) int16 {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Topics = []kmsg.DeleteTopicsRequestTopic{want}
		return serveOne[*kmsg.DeleteTopicsResponse](n, 6, r).Topics[0].ErrorCode
	}
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, delete(kmsg.DeleteTopicsRequestTopic{Topic: text("u")}))
	require.Equal(t, kerr.UnknownTopicID.Code, delete(kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{1}}))
	require.Equal(t, kerr.InvalidTopicException.Code, delete(kmsg.DeleteTopicsRequestTopic{Topic: text(txn.TopicName)}))
	require.Equal(t, kerr.InvalidRequest.Code, delete(kmsg.DeleteTopicsRequestTopic{Topic: text("t"), TopicID: image().Topics["t"].ID}))
	require.Zero(t, delete(kmsg.DeleteTopicsRequestTopic{TopicID: image().Topics["by-id"].ID}))
	old := kmsg.NewPtrDeleteTopicsRequest()
	old.TopicNames = []string{"t"}
	require.Zero(t, serveOne[*kmsg.DeleteTopicsResponse](n, 5, old).Topics[0].ErrorCode)
	require.NotContains(t, image().Topics, "t")
	require.NotContains(t, image().Topics, "by-id")
	require.Contains(t, image().Topics, txn.TopicName)

	// The name is free again, for another topic with a log of its own.
	n.topic("t", 1)
	require.Equal(t, []int64{0}, n.produce(n.client(), "t", "anew"))
}

func TestMetadataOfWhatIsNotThere(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	resp := serveOne[*kmsg.MetadataResponse](n, 12, metadataOf("t", "u", "a/b"))
	require.Equal(t, []int16{0, kerr.UnknownTopicOrPartition.Code, kerr.InvalidTopicException.Code},
		[]int16{resp.Topics[0].ErrorCode, resp.Topics[1].ErrorCode, resp.Topics[2].ErrorCode})
	require.NotContains(t, n.Env().Quorum.Image().Topics, "u", "asking makes no topic")

	byID := kmsg.NewPtrMetadataRequest()
	byID.Topics = []kmsg.MetadataRequestTopic{{TopicID: resp.Topics[0].TopicID}, {TopicID: [16]byte{1}}}
	found := serveOne[*kmsg.MetadataResponse](n, 12, byID)
	require.Equal(t, "t", *found.Topics[0].Topic)
	require.Equal(t, kerr.UnknownTopicID.Code, found.Topics[1].ErrorCode)

	require.Empty(t, serveOne[*kmsg.MetadataResponse](n, 12, metadataOf()).Topics, "no topics")
	require.Len(t, serveOne[*kmsg.MetadataResponse](n, 12, kmsg.NewPtrMetadataRequest()).Topics, 1, "all topics")
	require.Len(t, serveOne[*kmsg.MetadataResponse](n, 0, metadataOf()).Topics, 1, "all topics, as version 0 asks")
}

func TestFindCoordinator(t *testing.T) {
	n := startNode(t)
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorType, r.CoordinatorKeys = 1, []string{"tx-a", "tx-b"}
	for _, c := range serveOne[*kmsg.FindCoordinatorResponse](n, 4, r).Coordinators {
		require.Zero(t, c.ErrorCode)
		require.Equal(t, n.Addrs()["client"], fmt.Sprintf("%s:%d", c.Host, c.Port))
		require.Equal(t, int32(1), c.NodeID)
	}
	r.CoordinatorKey = "tx-c"
	require.Equal(t, int32(1), serveOne[*kmsg.FindCoordinatorResponse](n, 3, r).NodeID)
	r.CoordinatorType = 0
	require.Equal(t, int32(1), serveOne[*kmsg.FindCoordinatorResponse](n, 3, r).NodeID, "of a group")
	r.CoordinatorType = 9
	require.Equal(t, kerr.InvalidRequest.Code, serveOne[*kmsg.FindCoordinatorResponse](n, 4, r).Coordinators[0].ErrorCode)
}

func TestDescribeClusterAndProducers(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	cluster := serveOne[*kmsg.DescribeClusterResponse](n, 1, &kmsg.DescribeClusterRequest{EndpointType: 1})
	require.Equal(t, []any{int16(0), n.ClusterID(), int32(1), 1}, []any{cluster.ErrorCode, cluster.ClusterID, cluster.ControllerID, len(cluster.Brokers)})
	require.Equal(t, kerr.UnsupportedEndpointType.Code,
		serveOne[*kmsg.DescribeClusterResponse](n, 1, &kmsg.DescribeClusterRequest{EndpointType: 2}).ErrorCode)

	n.produce(n.client(), "t", "a", "b")
	r := kmsg.NewPtrDescribeProducersRequest()
	r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
	ps := serveOne[*kmsg.DescribeProducersResponse](n, 0, r).Topics[0].Partitions
	require.Len(t, ps[0].ActiveProducers, 1)
	a := ps[0].ActiveProducers[0]
	require.Equal(t, []any{int64(0), int32(0), int32(1), int64(-1)}, []any{a.ProducerID, a.ProducerEpoch, a.LastSequence, a.CurrentTxnStartOffset})
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, ps[1].ErrorCode)
	require.NotNil(t, ps[1].ErrorMessage)
}

func TestApiVersionsTellsTheTruth(t *testing.T) {
	n := startNode(t, func(c *Config) { c.TransactionVersion = 1 })
	cl := n.client(kgo.MaxVersions(nil))
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(n.ctx(), cl)
	require.NoError(t, err)
	told := map[int16][2]int16{}
	for _, k := range resp.ApiKeys {
		told[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	for _, a := range n.table.APIs() {
		require.Equal(t, [2]int16{a.Min, a.Max}, told[a.Key], a.Name)
		delete(told, a.Key)
	}
	require.Empty(t, told)
	features := map[string]int16{}
	for _, f := range serveOne[*kmsg.ApiVersionsResponse](n, 4, kmsg.NewPtrApiVersionsRequest()).FinalizedFeatures {
		features[f.Name] = f.MaxVersionLevel
	}
	require.Equal(t, map[string]int16{"mirror.version": 1, "transaction.version": 1}, features)
}

// Every version of every API of kmsg's that is told is decoded, handled and
// encoded: an empty request gets an answer, or silence on purpose.
func TestEveryVersionIsServed(t *testing.T) {
	n := startNode(t)
	for _, a := range n.table.APIs() {
		for version := a.Min; version <= a.Max; version++ {
			body := a.New()
			if _, ok := body.(kmsg.Request); !ok || a.Key >= 94 {
				continue
			}
			body.SetVersion(version)
			resp, err := a.Handle(n.ctx(), &wire.Request{Key: a.Key, Version: version, Listener: "client", Body: body})
			require.NoError(t, err, "%s version %d", a.Name, version)
			if resp == nil {
				require.Equal(t, "Produce", a.Name)
				continue
			}
			k, ok := resp.(kmsg.Response)
			require.True(t, ok)
			require.Equal(t, version, k.GetVersion(), a.Name)
			back := kmsg.ResponseForKey(a.Key)
			back.SetVersion(version)
			require.NoError(t, back.ReadFrom(resp.AppendTo(nil)), "%s version %d", a.Name, version)
		}
	}
}

func TestErrorsHaveCodesAndWords(t *testing.T) {
	for want, err := range map[*kerr.Error]error{
		kerr.NotController:      fmt.Errorf("wrapped: %w", kerr.NotController),
		kerr.RequestTimedOut:    context.DeadlineExceeded,
		kerr.UnknownServerError: fmt.Errorf("disk on fire"),
		quorum.ErrReadOnlyTopic: fmt.Errorf("t-0: %w", quorum.ErrReadOnlyTopic),
	} {
		code, words := errorOf(err)
		require.Equal(t, want.Code, code)
		require.Equal(t, err.Error(), *words)
	}
	code, _ := errorOf(wire.ErrClosing)
	require.Equal(t, kerr.RequestTimedOut.Code, code, "clients try it again")
	code, words := errorOf(nil)
	require.Zero(t, code)
	require.Nil(t, words)
}
