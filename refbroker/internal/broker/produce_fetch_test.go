package broker

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

func TestProduceRefusesInWords(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	require.NoError(t, txn.EnsureTopic(n.ctx(), n.Env()))
	good := batchOf("v")
	corrupt := batchOf("v")
	corrupt[len(corrupt)-1] ^= 1
	old := batchOf("v")
	old[16] = 1
	transactional := func(b *kmsg.RecordBatch) {
		b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1<<4, 77, 0, 0
	}
	withID := produceOf(-1, "t", 0, batchOf("v", transactional))
	withID.TransactionID = new(string)
	*withID.TransactionID = "never begun"
	for name, c := range map[string]struct {
		request *kmsg.ProduceRequest
		want    *kerr.Error
	}{
		"acks":                           {produceOf(2, "t", 0, good), kerr.InvalidRequiredAcks},
		"unknown topic":                  {produceOf(-1, "u", 0, good), kerr.UnknownTopicOrPartition},
		"unknown partition":              {produceOf(-1, "t", 1, good), kerr.UnknownTopicOrPartition},
		"internal topic":                 {produceOf(-1, txn.TopicName, 0, good), kerr.InvalidTopicException},
		"nothing":                        {produceOf(-1, "t", 0, nil), kerr.CorruptMessage},
		"half a batch":                   {produceOf(-1, "t", 0, good[:len(good)-1]), kerr.InvalidRecord},
		"two batches":                    {produceOf(-1, "t", 0, append(batchOf("a"), batchOf("b")...)), kerr.InvalidRecord},
		"wrong crc":                      {produceOf(-1, "t", 0, corrupt), kerr.CorruptMessage},
		"old magic":                      {produceOf(-1, "t", 0, old), kerr.UnsupportedForMessageFormat},
		"control batch":                  {produceOf(-1, "t", 0, batchOf("v", func(b *kmsg.RecordBatch) { b.Attributes = 1 << 5 })), kerr.InvalidRecord},
		"transactional without an id":    {produceOf(-1, "t", 0, batchOf("v", transactional)), kerr.TransactionalIDAuthorizationFailed},
		"transaction that never began":   {withID, kerr.InvalidProducerIDMapping},
		"sequence gap of a known":        {produceOf(-1, "t", 0, batchOf("v", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 5, 1, 9 })), kerr.OutOfOrderSequenceNumber},
		"epoch below the one that wrote": {produceOf(-1, "t", 0, batchOf("v", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 5, 0, 0 })), kerr.InvalidProducerEpoch},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == kerr.OutOfOrderSequenceNumber || c.want == kerr.InvalidProducerEpoch {
				known := produceOf(-1, "t", 0, batchOf("known", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 5, 1, 0 }))
				require.Zero(t, serveOne[*kmsg.ProduceResponse](n, 9, known).Topics[0].Partitions[0].ErrorCode)
			}
			before := n.part("t", 0).Offsets()
			p := serveOne[*kmsg.ProduceResponse](n, 11, c.request).Topics[0].Partitions[0]
			for ctx := n.ctx(); p.ErrorCode == kerr.NotEnoughReplicas.Code && ctx.Err() == nil; {
				// The coordinator is still being loaded, as producers are told.
				p = serveOne[*kmsg.ProduceResponse](n, 11, c.request).Topics[0].Partitions[0]
			}
			require.Equal(t, c.want.Code, p.ErrorCode, "%v", kerr.ErrorForCode(p.ErrorCode))
			require.NotNil(t, p.ErrorMessage)
			require.NotEmpty(t, *p.ErrorMessage)
			require.Equal(t, int64(-1), p.BaseOffset)
			require.Equal(t, before, n.part("t", 0).Offsets(), "nothing was appended")
		})
	}
}

func (n *testNode) part(topic string, index int32) replica.API {
	n.t.Helper()
	p, err := n.Env().Replicas.Partition(topic, index)
	require.NoError(n.t, err)
	return p
}

func TestProduceWithoutAcksTellsOfFailureByClosing(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	resp, err := tryOne(n, 9, produceOf(0, "t", 0, batchOf("v")))
	require.NoError(t, err)
	require.Nil(t, resp)
	require.Equal(t, int64(1), n.part("t", 0).Offsets().LogEnd)
	_, err = tryOne(n, 9, produceOf(0, "u", 0, batchOf("v")))
	require.ErrorIs(t, err, wire.ErrCloseConnection)
}

func TestProduceByTopicID(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	r := produceOf(-1, "", 0, batchOf("v"))
	r.Topics[0].TopicID = n.Env().Quorum.Image().Topics["t"].ID
	resp := serveOne[*kmsg.ProduceResponse](n, 13, r)
	require.Equal(t, r.Topics[0].TopicID, resp.Topics[0].TopicID)
	require.Equal(t, []any{int16(0), int64(0)}, []any{resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[0].Partitions[0].BaseOffset})
	r.Topics[0].TopicID = [16]byte{1}
	require.Equal(t, kerr.UnknownTopicID.Code, serveOne[*kmsg.ProduceResponse](n, 13, r).Topics[0].Partitions[0].ErrorCode)
}

func TestVerificationErrorsAsProducersUnderstandThem(t *testing.T) {
	for _, c := range []struct {
		from    error
		version int16
		want    *kerr.Error
	}{
		{kerr.ConcurrentTransactions, 12, kerr.ConcurrentTransactions},
		{kerr.ConcurrentTransactions, 11, kerr.NotEnoughReplicas},
		{kerr.CoordinatorLoadInProgress, 12, kerr.NotEnoughReplicas},
		{kerr.CoordinatorNotAvailable, 12, kerr.NotEnoughReplicas},
		{kerr.NotCoordinator, 12, kerr.NotEnoughReplicas},
		{kerr.TransactionAbortable, 11, kerr.TransactionAbortable},
		{kerr.TransactionAbortable, 10, kerr.InvalidTxnState},
		{kerr.InvalidProducerIDMapping, 12, kerr.InvalidProducerIDMapping},
	} {
		require.Equal(t, c.want.Code, codeOf(forProducer(c.from, c.version)), "%v in version %d", c.from, c.version)
	}
}

func TestFetchErrorsAreAnsweredAtOnce(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	n.produce(n.client(), "t", "v")
	change := func(offset int64, epoch int32) *kmsg.FetchRequest {
		r := fetchOf("t", offset)
		r.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		return r
	}
	byID := fetchOf("", 0)
	byID.Topics[0].TopicID = [16]byte{1}
	for name, c := range map[string]struct {
		version int16
		request *kmsg.FetchRequest
		want    *kerr.Error
	}{
		"unknown topic":        {12, fetchOf("u", 0), kerr.UnknownTopicOrPartition},
		"unknown id":           {13, byID, kerr.UnknownTopicID},
		"past the end":         {12, fetchOf("t", 2), kerr.OffsetOutOfRange},
		"before the start":     {12, fetchOf("t", -1), kerr.OffsetOutOfRange},
		"leader epoch to come": {12, change(0, 9), kerr.UnknownLeaderEpoch},
	} {
		t.Run(name, func(t *testing.T) {
			c.request.MinBytes, c.request.MaxWaitMillis = 1, math.MaxInt32
			p := serveOne[*kmsg.FetchResponse](n, c.version, c.request).Topics[0].Partitions[0]
			require.Equal(t, c.want.Code, p.ErrorCode, "%v", kerr.ErrorForCode(p.ErrorCode))
			require.NotNil(t, p.RecordBatches)
		})
	}
	session := fetchOf("t", 0)
	session.SessionID = 5
	require.Equal(t, kerr.FetchSessionIDNotFound.Code, serveOne[*kmsg.FetchResponse](n, 12, session).ErrorCode)
}

func TestFetchTellsADivergingEpoch(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	n.produce(n.client(), "t", "a", "b")
	require.NoError(t, n.Close())
	n.start()
	n.produce(n.client(), "t", "c")
	r := fetchOf("t", 3)
	r.MinBytes, r.MaxWaitMillis = 1, math.MaxInt32
	r.Topics[0].Partitions[0].LastFetchedEpoch = 0 // ended at 2 here
	p := serveOne[*kmsg.FetchResponse](n, 12, r).Topics[0].Partitions[0]
	require.Equal(t, []any{int16(0), int32(0), int64(2)}, []any{p.ErrorCode, p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset})
	require.Empty(t, p.RecordBatches)
}

func TestFetchKeepsToItsBytes(t *testing.T) {
	n := startNode(t)
	n.topic("t", 2)
	size := 0
	for _, value := range []string{"aaaaaaaa", "bbbbbbbb", "cccccccc"} {
		raw := batchOf(value)
		size = len(raw)
		require.Zero(t, serveOne[*kmsg.ProduceResponse](n, 9, produceOf(1, "t", 0, raw)).Topics[0].Partitions[0].ErrorCode)
		require.Zero(t, serveOne[*kmsg.ProduceResponse](n, 9, produceOf(1, "t", 1, raw)).Topics[0].Partitions[0].ErrorCode)
	}
	for _, c := range []struct {
		name               string
		total, each        int32
		batches0, batches1 int
	}{
		{"all", 1 << 20, 1 << 20, 3, 3},
		{"one batch at least, in the first partition only", 1, 1, 1, 0},
		{"limit of a partition", 1 << 20, int32(2*size + 1), 2, 2},
		{"limit of all", int32(4*size + 1), 1 << 20, 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fetchOf("t", 0)
			r.MaxBytes = c.total
			second := r.Topics[0].Partitions[0]
			second.Partition = 1
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, second)
			for i := range r.Topics[0].Partitions {
				r.Topics[0].Partitions[i].PartitionMaxBytes = c.each
			}
			ps := serveOne[*kmsg.FetchResponse](n, 12, r).Topics[0].Partitions
			require.Equal(t, []int{c.batches0 * size, c.batches1 * size}, []int{len(ps[0].RecordBatches), len(ps[1].RecordBatches)})
		})
	}
}
