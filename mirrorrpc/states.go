package mirrorrpc

import "github.com/twmb/franz-go/pkg/kmsg"

// StateTopic names partitions of a topic.
type StateTopic struct {
	Name       string
	Partitions []int32
}

// ReadMirrorStatesRequest (100) is sent between brokers.
type ReadMirrorStatesRequest struct {
	v0
	MirrorName string
	Topics     []StateTopic
}

// NewReadMirrorStatesRequest returns a request with default fields.
func NewReadMirrorStatesRequest() *ReadMirrorStatesRequest { return new(ReadMirrorStatesRequest) }

func (v *ReadMirrorStatesRequest) walk(c *coder) {
	c.text(&v.MirrorName)
	array(c, &v.Topics, func(c *coder, e *StateTopic) {
		c.text(&e.Name)
		// On the wire each partition is a struct of its index and tags.
		array(c, &e.Partitions, func(c *coder, p *int32) {
			c.int32(p)
			c.tags()
		})
		c.tags()
	})
	c.tags()
}

// Key is the API key.
func (*ReadMirrorStatesRequest) Key() int16 { return KeyReadMirrorStates }

// AppendTo appends the message to dst.
func (v *ReadMirrorStatesRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *ReadMirrorStatesRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*ReadMirrorStatesRequest) ResponseKind() kmsg.Response { return new(ReadMirrorStatesResponse) }

// NoPreviousState is the default of PreviousState: no such state exists.
const NoPreviousState int8 = 16

// ReadState is the state of one partition.
type ReadState struct {
	PartitionIndex  int32
	LastMirrorEpoch int32 // -1: none
	State           int8
	ErrorCode       int16
	PreviousState   int8
	RetryAttempt    int16
	ErrorMessage    *string
}

// ReadStates are the states of one topic.
type ReadStates struct {
	Name       string
	Partitions []ReadState
}

// ReadMirrorStatesResponse answers ReadMirrorStatesRequest.
type ReadMirrorStatesResponse struct {
	v0
	ThrottleMillis int32
	ErrorCode      int16
	ErrorMessage   *string
	Topics         []ReadStates
}

func (v *ReadMirrorStatesResponse) walk(c *coder) {
	walkTop(c, &v.ThrottleMillis, &v.ErrorCode, &v.ErrorMessage)
	array(c, &v.Topics, func(c *coder, e *ReadStates) {
		c.text(&e.Name)
		array(c, &e.Partitions, func(c *coder, e *ReadState) {
			c.int32(&e.PartitionIndex)
			c.int32(&e.LastMirrorEpoch)
			c.int8(&e.State)
			c.int16(&e.ErrorCode)
			c.int8(&e.PreviousState)
			c.int16(&e.RetryAttempt)
			c.nullText(&e.ErrorMessage)
			c.tags()
		})
		c.tags()
	})
	c.tags()
}

// Key is the API key.
func (*ReadMirrorStatesResponse) Key() int16 { return KeyReadMirrorStates }

// AppendTo appends the message to dst.
func (v *ReadMirrorStatesResponse) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *ReadMirrorStatesResponse) ReadFrom(src []byte) error { return decode(src, v.walk) }

// RequestKind returns an empty request.
func (*ReadMirrorStatesResponse) RequestKind() kmsg.Request { return NewReadMirrorStatesRequest() }

// WriteState is a state to store.
type WriteState struct {
	PartitionIndex  int32
	LastMirrorEpoch int32 // -1: none
	State           int8
}

// WriteStates are states to store for one topic.
type WriteStates struct {
	Name       string
	Partitions []WriteState
}

// WriteMirrorStatesRequest (101) is sent between brokers.
type WriteMirrorStatesRequest struct {
	v0
	MirrorName    string
	Topics        []WriteStates
	StoppedTopics []string
}

// NewWriteMirrorStatesRequest returns a request with default fields.
func NewWriteMirrorStatesRequest() *WriteMirrorStatesRequest { return new(WriteMirrorStatesRequest) }

func (v *WriteMirrorStatesRequest) walk(c *coder) {
	c.text(&v.MirrorName)
	array(c, &v.Topics, func(c *coder, e *WriteStates) {
		c.text(&e.Name)
		array(c, &e.Partitions, func(c *coder, e *WriteState) {
			c.int32(&e.PartitionIndex)
			c.int32(&e.LastMirrorEpoch)
			c.int8(&e.State)
			c.tags()
		})
		c.tags()
	})
	texts(c, &v.StoppedTopics)
	c.tags()
}

// Key is the API key.
func (*WriteMirrorStatesRequest) Key() int16 { return KeyWriteMirrorStates }

// AppendTo appends the message to dst.
func (v *WriteMirrorStatesRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *WriteMirrorStatesRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*WriteMirrorStatesRequest) ResponseKind() kmsg.Response {
	return &PartitionsResponse{key: KeyWriteMirrorStates}
}

// BumpPartition is a partition whose leader epoch is to rise above a value.
type BumpPartition struct {
	PartitionIndex int32
	MinLeaderEpoch int32
}

// BumpTopic names the partitions of a topic to bump.
type BumpTopic struct {
	TopicID    [16]byte
	Partitions []BumpPartition
}

// BumpLeaderEpochsRequest (105) is sent by a broker to the controller.
type BumpLeaderEpochsRequest struct {
	v0
	Topics []BumpTopic
}

// NewBumpLeaderEpochsRequest returns a request with default fields.
func NewBumpLeaderEpochsRequest() *BumpLeaderEpochsRequest { return new(BumpLeaderEpochsRequest) }

func (v *BumpLeaderEpochsRequest) walk(c *coder) {
	array(c, &v.Topics, func(c *coder, e *BumpTopic) {
		c.uuid(&e.TopicID)
		array(c, &e.Partitions, func(c *coder, e *BumpPartition) {
			c.int32(&e.PartitionIndex)
			c.int32(&e.MinLeaderEpoch)
			c.tags()
		})
		c.tags()
	})
	c.tags()
}

// Key is the API key.
func (*BumpLeaderEpochsRequest) Key() int16 { return KeyBumpLeaderEpochs }

// AppendTo appends the message to dst.
func (v *BumpLeaderEpochsRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *BumpLeaderEpochsRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*BumpLeaderEpochsRequest) ResponseKind() kmsg.Response {
	return &PartitionsResponse{key: KeyBumpLeaderEpochs}
}

// PartitionResult is how one partition fared.
type PartitionResult struct {
	PartitionIndex int32
	ErrorCode      int16
	ErrorMessage   *string
}

// PartitionResults are the results of one topic.
type PartitionResults struct {
	Name       string
	Partitions []PartitionResult
}

// PartitionsResponse answers WriteMirrorStates (101) and BumpLeaderEpochs
// (105) alike. Make it by the request's ResponseKind, which sets its key.
type PartitionsResponse struct {
	v0
	ThrottleMillis int32
	ErrorCode      int16
	ErrorMessage   *string
	Topics         []PartitionResults

	key int16
}

func (v *PartitionsResponse) walk(c *coder) {
	walkTop(c, &v.ThrottleMillis, &v.ErrorCode, &v.ErrorMessage)
	array(c, &v.Topics, func(c *coder, e *PartitionResults) {
		c.text(&e.Name)
		array(c, &e.Partitions, func(c *coder, e *PartitionResult) {
			c.int32(&e.PartitionIndex)
			c.int16(&e.ErrorCode)
			c.nullText(&e.ErrorMessage)
			c.tags()
		})
		c.tags()
	})
	c.tags()
}

// Key is the API key of the request.
func (v *PartitionsResponse) Key() int16 { return v.key }

// AppendTo appends the message to dst.
func (v *PartitionsResponse) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *PartitionsResponse) ReadFrom(src []byte) error { return decode(src, v.walk) }

// RequestKind returns an empty request.
func (v *PartitionsResponse) RequestKind() kmsg.Request { return RequestForKey(v.key) }
