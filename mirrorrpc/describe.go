package mirrorrpc

import "github.com/twmb/franz-go/pkg/kmsg"

// ListClusterMirrorsRequest (98) asks for every mirror.
type ListClusterMirrorsRequest struct {
	v0
	IncludeTopicNames bool
}

// NewListClusterMirrorsRequest returns a request with default fields.
func NewListClusterMirrorsRequest() *ListClusterMirrorsRequest {
	return new(ListClusterMirrorsRequest)
}

func (v *ListClusterMirrorsRequest) walk(c *coder) {
	c.boolean(&v.IncludeTopicNames)
	c.tags()
}

// Key is the API key.
func (*ListClusterMirrorsRequest) Key() int16 { return KeyListClusterMirrors }

// AppendTo appends the message to dst.
func (v *ListClusterMirrorsRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *ListClusterMirrorsRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*ListClusterMirrorsRequest) ResponseKind() kmsg.Response {
	return new(ListClusterMirrorsResponse)
}

// ListedMirror is one mirror of a list.
type ListedMirror struct {
	MirrorName      string
	SourceBootstrap string
	SourceClusterID string
	TopicCount      int32
	// TopicNames is filled on request.
	TopicNames []string
}

// ListClusterMirrorsResponse answers ListClusterMirrorsRequest.
type ListClusterMirrorsResponse struct {
	v0
	ThrottleMillis int32
	ErrorCode      int16
	ErrorMessage   *string
	Mirrors        []ListedMirror
}

func (v *ListClusterMirrorsResponse) walk(c *coder) {
	walkTop(c, &v.ThrottleMillis, &v.ErrorCode, &v.ErrorMessage)
	array(c, &v.Mirrors, func(c *coder, e *ListedMirror) {
		c.text(&e.MirrorName)
		c.text(&e.SourceBootstrap)
		c.text(&e.SourceClusterID)
		c.int32(&e.TopicCount)
		texts(c, &e.TopicNames)
		c.tags()
	})
	c.tags()
}

// Key is the API key.
func (*ListClusterMirrorsResponse) Key() int16 { return KeyListClusterMirrors }

// AppendTo appends the message to dst.
func (v *ListClusterMirrorsResponse) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *ListClusterMirrorsResponse) ReadFrom(src []byte) error { return decode(src, v.walk) }

// RequestKind returns an empty request.
func (*ListClusterMirrorsResponse) RequestKind() kmsg.Request { return NewListClusterMirrorsRequest() }

// EpochLookup asks for the last mirror epochs of a topic's partitions.
type EpochLookup struct {
	TopicID    [16]byte
	Partitions []int32
}

// DescribeClusterMirrorsRequest (99) asks for the state of mirrors.
type DescribeClusterMirrorsRequest struct {
	v0
	MirrorNames                 []string // empty: all
	IncludeAuthorizedOperations bool
	// ClusterID is the requester's, with LastMirrorEpochLookups.
	ClusterID              *string       // tag 0
	LastMirrorEpochLookups []EpochLookup // tag 1
}

// NewDescribeClusterMirrorsRequest returns a request with default fields.
func NewDescribeClusterMirrorsRequest() *DescribeClusterMirrorsRequest {
	return new(DescribeClusterMirrorsRequest)
}

func (v *DescribeClusterMirrorsRequest) walk(c *coder) {
	texts(c, &v.MirrorNames)
	c.boolean(&v.IncludeAuthorizedOperations)
	c.tags(
		tagOf(0, &v.ClusterID, nil, (*coder).nullText),
		tagArray(1, &v.LastMirrorEpochLookups, func(c *coder, e *EpochLookup) {
			c.uuid(&e.TopicID)
			int32s(c, &e.Partitions)
			c.tags()
		}),
	)
}

// Key is the API key.
func (*DescribeClusterMirrorsRequest) Key() int16 { return KeyDescribeClusterMirrors }

// AppendTo appends the message to dst.
func (v *DescribeClusterMirrorsRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *DescribeClusterMirrorsRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*DescribeClusterMirrorsRequest) ResponseKind() kmsg.Response {
	return new(DescribeClusterMirrorsResponse)
}

// DescribedPartition is the state of one mirrored partition. -1 stands for
// what the broker does not know.
type DescribedPartition struct {
	PartitionIndex int32
	// SourceOffset is the source's high watermark, as last seen.
	SourceOffset int64
	// DestinationOffset is this cluster's log end.
	DestinationOffset int64
	Lag               int64
	// StateValue is the state's name, "MIRRORING".
	StateValue string
	// RetryAttempt counts the tries since the last success; -1: no more.
	RetryAttempt int16
	ErrorMessage *string

	// From here on our additions, as tagged fields.

	// Phase is the step of STOPPING that is under way, or "".
	Phase string
	// LastMirroredOffset is the last stop's: the last offset below its L.
	LastMirroredOffset int64
	// StopOffset is L of the last stop, and BarrierOffset where its barrier
	// lies.
	StopOffset, BarrierOffset int64
	// LeaderEpoch is the partition's in this cluster.
	LeaderEpoch int32
	// SourceClusterID is the id of the cluster that is, or was, mirrored.
	SourceClusterID string
	// AlignedAt is the offset from which on only the source's bytes follow;
	// -1 before the mirror aligned the log.
	AlignedAt int64
	// NonStable is how many offsets lie above the last stable offset.
	NonStable int64
	// LastStableOffset and HighWatermark are this cluster's.
	LastStableOffset, HighWatermark int64
	// AlignmentCut is what alignments since the mirror start have cut off this
	// cluster's log, StopCut what the last stop has.
	AlignmentCut, StopCut CutReport
	// UpstreamClusterIDs are the clusters that the log is mirrored from now,
	// nearest first.
	UpstreamClusterIDs []string
	// WouldCut is what a stop now would cut (OPS-4); nothing once one has begun.
	// OldestOpen is the open transaction that began first: where it stays open,
	// it is why.
	WouldCut   CutReport
	OldestOpen OpenTransaction
}

// CutReport counts what was cut off a log: the offsets from From on and below
// To, -1 for nothing, and the records in it, without control records.
type CutReport struct{ From, To, Records int64 }

// OpenTransaction is a transaction that is open in a log; -1 for none. StartMs is
// the timestamp of its first record.
type OpenTransaction struct {
	ProducerID           int64
	ProducerEpoch        int16
	FirstOffset, StartMs int64
}

// NothingOpen is no open transaction.
var NothingOpen = OpenTransaction{ProducerID: -1, ProducerEpoch: -1, FirstOffset: -1, StartMs: -1}

func (c *coder) openTransaction(v *OpenTransaction) {
	c.int64(&v.ProducerID)
	c.int16(&v.ProducerEpoch)
	c.int64(&v.FirstOffset)
	c.int64(&v.StartMs)
	c.tags()
}

// NothingCut is the report of no cut.
var NothingCut = CutReport{From: -1, To: -1}

func (c *coder) cutReport(v *CutReport) {
	c.int64(&v.From)
	c.int64(&v.To)
	c.int64(&v.Records)
	c.tags()
}

// NewDescribedPartition returns a partition of which nothing is known.
func NewDescribedPartition() DescribedPartition {
	return DescribedPartition{
		SourceOffset: -1, DestinationOffset: -1, Lag: -1,
		LastMirroredOffset: -1, StopOffset: -1, BarrierOffset: -1, LeaderEpoch: -1,
		AlignedAt: -1, NonStable: -1, LastStableOffset: -1, HighWatermark: -1,
		AlignmentCut: NothingCut, StopCut: NothingCut, WouldCut: NothingCut, OldestOpen: NothingOpen,
	}
}

func walkDescribed(c *coder, e *DescribedPartition) {
	c.int32(&e.PartitionIndex)
	c.int64(&e.SourceOffset)
	c.int64(&e.DestinationOffset)
	c.int64(&e.Lag)
	c.text(&e.StateValue)
	c.int16(&e.RetryAttempt)
	c.nullText(&e.ErrorMessage)
	c.tags(
		tagOf(FirstOwnTag, &e.Phase, "", (*coder).text),
		tagOf(FirstOwnTag+1, &e.LastMirroredOffset, -1, (*coder).int64),
		tagOf(FirstOwnTag+2, &e.StopOffset, -1, (*coder).int64),
		tagOf(FirstOwnTag+3, &e.BarrierOffset, -1, (*coder).int64),
		tagOf(FirstOwnTag+4, &e.LeaderEpoch, -1, (*coder).int32),
		tagOf(FirstOwnTag+5, &e.SourceClusterID, "", (*coder).text),
		tagOf(FirstOwnTag+6, &e.AlignedAt, -1, (*coder).int64),
		tagOf(FirstOwnTag+7, &e.NonStable, -1, (*coder).int64),
		tagOf(FirstOwnTag+8, &e.LastStableOffset, -1, (*coder).int64),
		tagOf(FirstOwnTag+9, &e.HighWatermark, -1, (*coder).int64),
		tagOf(FirstOwnTag+10, &e.AlignmentCut, NothingCut, (*coder).cutReport),
		tagOf(FirstOwnTag+11, &e.StopCut, NothingCut, (*coder).cutReport),
		tagArray(FirstOwnTag+12, &e.UpstreamClusterIDs, (*coder).text),
		tagOf(FirstOwnTag+13, &e.WouldCut, NothingCut, (*coder).cutReport),
		tagOf(FirstOwnTag+14, &e.OldestOpen, NothingOpen, (*coder).openTransaction),
	)
}

// DescribedTopic is a topic of a mirror.
type DescribedTopic struct {
	TopicName  string
	Partitions []DescribedPartition
}

// DescribedMirror is one mirror.
type DescribedMirror struct {
	ErrorCode            int16
	MirrorName           string
	AuthorizedOperations int32
	Topics               []DescribedTopic
	// Profile is the text of KIP-1279 that the cluster follows, "" where it does
	// not say: our addition, as a tagged field.
	Profile string

	// Configs are those that may change while the mirror runs, defaults too, and
	// GroupsError is what keeps the broker that answers from mirroring groups'
	// offsets. Ours.
	Configs     []Config // tag 10001
	GroupsError string   // tag 10002
}

// EpochResult is the last mirror epoch of one partition, -1 for none, and as
// our additions, in tagged fields, what a mirror has to know to align its log:
// leader epochs of two clusters collide, so they alone don't tell.
type EpochResult struct {
	PartitionIndex  int32
	LastMirrorEpoch int32

	// ErrorCode says why nothing of the following is told.
	ErrorCode int16
	// LeaderEpoch is the partition's, in which the list holds.
	LeaderEpoch int32
	// LogStartOffset is where the log starts.
	LogStartOffset int64
	// Barriers are those that the log holds or has held, by offset.
	Barriers []Barrier
	// LogName is the log's name among those of all clusters, another one once the
	// log was begun anew. History are the names of those that it was mirrored
	// from, at first or second hand.
	LogName string
	History []string
	// UpstreamClusterIDs are the clusters that it is mirrored from now, nearest
	// first.
	UpstreamClusterIDs []string
	// ForgottenUpTo is the offset below which the log's cleaner may have removed
	// tombstones and markers of transactions: who has less of the log than that
	// never hears of what these ended.
	ForgottenUpTo int64
}

// NewEpochResult returns a result in which nothing is told.
func NewEpochResult() EpochResult {
	return EpochResult{LastMirrorEpoch: -1, LeaderEpoch: -1, LogStartOffset: -1}
}

// Barrier is one MIRROR_PID_RESET batch of a log.
type Barrier struct {
	Offset      int64
	LeaderEpoch int32
	CRC         uint32
	// SourceClusterID is the cluster that the batch names, WriterClusterID the one
	// that wrote it, "" when that is not known.
	SourceClusterID, WriterClusterID string
	// Markers is how many ABORT markers the writer's stop left right before it
	// (profile kip1279-latest): the logs part where those begin.
	Markers int64
}

func walkEpochResult(c *coder, e *EpochResult) {
	c.int32(&e.PartitionIndex)
	c.int32(&e.LastMirrorEpoch)
	c.tags(
		tagOf(FirstOwnTag, &e.ErrorCode, 0, (*coder).int16),
		tagOf(FirstOwnTag+1, &e.LeaderEpoch, -1, (*coder).int32),
		tagOf(FirstOwnTag+2, &e.LogStartOffset, -1, (*coder).int64),
		tagArray(FirstOwnTag+3, &e.Barriers, func(c *coder, b *Barrier) {
			crc := int32(b.CRC)
			c.int64(&b.Offset)
			c.int32(&b.LeaderEpoch)
			c.int32(&crc)
			b.CRC = uint32(crc)
			c.text(&b.SourceClusterID)
			c.text(&b.WriterClusterID)
			c.tags(tagOf(FirstOwnTag, &b.Markers, 0, (*coder).int64))
		}),
		tagOf(FirstOwnTag+4, &e.LogName, "", (*coder).text),
		tagArray(FirstOwnTag+5, &e.History, (*coder).text),
		tagArray(FirstOwnTag+6, &e.UpstreamClusterIDs, (*coder).text),
		tagOf(FirstOwnTag+7, &e.ForgottenUpTo, 0, (*coder).int64),
	)
}

// LookupResult answers one EpochLookup.
type LookupResult struct {
	TopicID    [16]byte
	Partitions []EpochResult
}

// DescribeClusterMirrorsResponse answers DescribeClusterMirrorsRequest.
type DescribeClusterMirrorsResponse struct {
	v0
	ThrottleMillis int32
	ErrorCode      int16
	ErrorMessage   *string
	Mirrors        []DescribedMirror
	LookupResults  []LookupResult // tag 0
}

func (v *DescribeClusterMirrorsResponse) walk(c *coder) {
	walkTop(c, &v.ThrottleMillis, &v.ErrorCode, &v.ErrorMessage)
	array(c, &v.Mirrors, func(c *coder, e *DescribedMirror) {
		c.int16(&e.ErrorCode)
		c.text(&e.MirrorName)
		c.int32(&e.AuthorizedOperations)
		array(c, &e.Topics, func(c *coder, e *DescribedTopic) {
			c.text(&e.TopicName)
			array(c, &e.Partitions, walkDescribed)
			c.tags()
		})
		c.tags(
			tagOf(FirstOwnTag, &e.Profile, "", (*coder).text),
			tagArray(FirstOwnTag+1, &e.Configs, func(c *coder, e *Config) {
				c.text(&e.Name)
				c.nullText(&e.Value)
				c.tags()
			}),
			tagOf(FirstOwnTag+2, &e.GroupsError, "", (*coder).text),
		)
	})
	c.tags(tagArray(0, &v.LookupResults, func(c *coder, e *LookupResult) {
		c.uuid(&e.TopicID)
		array(c, &e.Partitions, walkEpochResult)
		c.tags()
	}))
}

// Key is the API key.
func (*DescribeClusterMirrorsResponse) Key() int16 { return KeyDescribeClusterMirrors }

// AppendTo appends the message to dst.
func (v *DescribeClusterMirrorsResponse) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *DescribeClusterMirrorsResponse) ReadFrom(src []byte) error { return decode(src, v.walk) }

// RequestKind returns an empty request.
func (*DescribeClusterMirrorsResponse) RequestKind() kmsg.Request {
	return NewDescribeClusterMirrorsRequest()
}
