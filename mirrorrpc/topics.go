package mirrorrpc

import "github.com/twmb/franz-go/pkg/kmsg"

// StartTopic is a topic to mirror.
type StartTopic struct {
	// TopicID is the topic's id on the source. A broker of ours that gets the
	// zero id and no partitions for a topic it does not have asks the source.
	TopicID       [16]byte
	TopicName     string
	NumPartitions int32
}

// StartMirrorTopicsRequest (95) starts the mirroring of topics. From then on
// they are read-only until they are stopped (RO-1).
type StartMirrorTopicsRequest struct {
	v0
	MirrorName            string
	Topics                []StartTopic
	IncludePatterns       []string // tag 0
	ExcludePatterns       []string // tag 1
	StateValidationOffset int64    // -1: none
	// Discard lets the alignment cut everything that the topics hold here, also
	// what has no common history with the source. Ours.
	Discard bool // tag 10000
}

// NewStartMirrorTopicsRequest returns a request with default fields.
func NewStartMirrorTopicsRequest() *StartMirrorTopicsRequest {
	return &StartMirrorTopicsRequest{StateValidationOffset: -1}
}

func (v *StartMirrorTopicsRequest) walk(c *coder) {
	c.text(&v.MirrorName)
	array(c, &v.Topics, func(c *coder, e *StartTopic) {
		c.uuid(&e.TopicID)
		c.text(&e.TopicName)
		c.int32(&e.NumPartitions)
		c.tags()
	})
	c.int64(&v.StateValidationOffset)
	c.tags(
		tagArray(0, &v.IncludePatterns, (*coder).text),
		tagArray(1, &v.ExcludePatterns, (*coder).text),
		tagOf(FirstOwnTag, &v.Discard, false, (*coder).boolean),
	)
}

// Key is the API key.
func (*StartMirrorTopicsRequest) Key() int16 { return KeyStartMirrorTopics }

// AppendTo appends the message to dst.
func (v *StartMirrorTopicsRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *StartMirrorTopicsRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*StartMirrorTopicsRequest) ResponseKind() kmsg.Response {
	return &TopicsResponse{key: KeyStartMirrorTopics}
}

// NamedTopic is a topic to stop, pause or resume.
type NamedTopic struct{ TopicName string }

func walkNamed(c *coder, e *NamedTopic) {
	c.text(&e.TopicName)
	c.tags()
}

// StopMirrorTopicsRequest (96) fails topics over: each partition is cut to
// its last stable offset, gets its barrier and becomes writable.
type StopMirrorTopicsRequest struct {
	v0
	MirrorName            string
	Topics                []NamedTopic
	Patterns              []string // tag 0
	StateValidationOffset int64    // -1: none
}

// NewStopMirrorTopicsRequest returns a request with default fields.
func NewStopMirrorTopicsRequest() *StopMirrorTopicsRequest {
	return &StopMirrorTopicsRequest{StateValidationOffset: -1}
}

func (v *StopMirrorTopicsRequest) walk(c *coder) {
	c.text(&v.MirrorName)
	array(c, &v.Topics, walkNamed)
	c.int64(&v.StateValidationOffset)
	c.tags(tagArray(0, &v.Patterns, (*coder).text))
}

// Key is the API key.
func (*StopMirrorTopicsRequest) Key() int16 { return KeyStopMirrorTopics }

// AppendTo appends the message to dst.
func (v *StopMirrorTopicsRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *StopMirrorTopicsRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*StopMirrorTopicsRequest) ResponseKind() kmsg.Response {
	return &TopicsResponse{key: KeyStopMirrorTopics}
}

// PauseMirrorTopicsRequest (102) removes the fetchers of topics, which stay
// read-only.
type PauseMirrorTopicsRequest struct {
	v0
	MirrorName            string
	Topics                []NamedTopic
	StateValidationOffset int64 // -1: none
	// Patterns choose more of the mirror's topics. Ours.
	Patterns []string // tag 10000
}

// NewPauseMirrorTopicsRequest returns a request with default fields.
func NewPauseMirrorTopicsRequest() *PauseMirrorTopicsRequest {
	return &PauseMirrorTopicsRequest{StateValidationOffset: -1}
}

func (v *PauseMirrorTopicsRequest) walk(c *coder) {
	walkNamedTopics(c, &v.MirrorName, &v.Topics, &v.StateValidationOffset, &v.Patterns)
}

// Key is the API key.
func (*PauseMirrorTopicsRequest) Key() int16 { return KeyPauseMirrorTopics }

// AppendTo appends the message to dst.
func (v *PauseMirrorTopicsRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *PauseMirrorTopicsRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*PauseMirrorTopicsRequest) ResponseKind() kmsg.Response {
	return &TopicsResponse{key: KeyPauseMirrorTopics}
}

// ResumeMirrorTopicsRequest (103) goes on after a pause.
type ResumeMirrorTopicsRequest struct {
	v0
	MirrorName            string
	Topics                []NamedTopic
	StateValidationOffset int64 // -1: none
	// Patterns choose more of the mirror's topics. Ours.
	Patterns []string // tag 10000
}

// NewResumeMirrorTopicsRequest returns a request with default fields.
func NewResumeMirrorTopicsRequest() *ResumeMirrorTopicsRequest {
	return &ResumeMirrorTopicsRequest{StateValidationOffset: -1}
}

func (v *ResumeMirrorTopicsRequest) walk(c *coder) {
	walkNamedTopics(c, &v.MirrorName, &v.Topics, &v.StateValidationOffset, &v.Patterns)
}

// Key is the API key.
func (*ResumeMirrorTopicsRequest) Key() int16 { return KeyResumeMirrorTopics }

// AppendTo appends the message to dst.
func (v *ResumeMirrorTopicsRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *ResumeMirrorTopicsRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*ResumeMirrorTopicsRequest) ResponseKind() kmsg.Response {
	return &TopicsResponse{key: KeyResumeMirrorTopics}
}

func walkNamedTopics(c *coder, mirror *string, topics *[]NamedTopic, validation *int64, patterns *[]string) {
	c.text(mirror)
	array(c, topics, walkNamed)
	c.int64(validation)
	c.tags(tagArray(FirstOwnTag, patterns, (*coder).text))
}

// TopicResult is how one topic fared.
type TopicResult struct {
	Name         string
	ErrorCode    int16
	ErrorMessage *string
}

// TopicsResponse answers start, stop, pause and resume alike (95, 96, 102,
// 103). Make it by the request's ResponseKind, which sets its key.
type TopicsResponse struct {
	v0
	ThrottleMillis int32
	ErrorCode      int16
	ErrorMessage   *string
	Topics         []TopicResult

	key int16
}

func (v *TopicsResponse) walk(c *coder) {
	walkTop(c, &v.ThrottleMillis, &v.ErrorCode, &v.ErrorMessage)
	array(c, &v.Topics, func(c *coder, e *TopicResult) {
		c.text(&e.Name)
		c.int16(&e.ErrorCode)
		c.nullText(&e.ErrorMessage)
		c.tags()
	})
	c.tags()
}

// Key is the API key of the request.
func (v *TopicsResponse) Key() int16 { return v.key }

// AppendTo appends the message to dst.
func (v *TopicsResponse) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *TopicsResponse) ReadFrom(src []byte) error { return decode(src, v.walk) }

// RequestKind returns an empty request.
func (v *TopicsResponse) RequestKind() kmsg.Request { return RequestForKey(v.key) }
