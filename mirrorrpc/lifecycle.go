package mirrorrpc

import "github.com/twmb/franz-go/pkg/kmsg"

// Config is one setting of a mirror ([ConfigBootstrap] and so on).
type Config struct {
	Name  string
	Value *string
}

// Settings of a mirror that CreateClusterMirror needs.
const (
	// ConfigBootstrap lists the source's brokers, "host:port,host:port".
	ConfigBootstrap = "bootstrap.servers"
	// ConfigSourceClusterID is the id that the source must have (LINK-4). A
	// broker of ours that gets none asks the source.
	ConfigSourceClusterID = "mirror.source.cluster.id"
)

// Settings of a mirror that can be changed while it runs, by
// IncrementalAlterConfigs of the resource [ResourceMirror]. Patterns are lists of
// regular expressions, which match whole names.
const (
	// ConfigTopicsInclude and ConfigTopicsExclude choose topics of the source that
	// are mirrored without being named, also those that it gets later.
	ConfigTopicsInclude = "mirror.topics.include"
	ConfigTopicsExclude = "mirror.topics.exclude"
	// ConfigGroupsInclude and ConfigGroupsExclude choose the consumer groups whose
	// committed offsets are mirrored; none with an empty include.
	ConfigGroupsInclude = "mirror.groups.include"
	ConfigGroupsExclude = "mirror.groups.exclude"
	// ConfigRefresh is how often the source is asked for topics and for groups'
	// offsets, in ms.
	ConfigRefresh = "mirror.metadata.refresh.interval.ms"
	// ConfigThrottle is how many bytes a second the mirror fetches at the most, on
	// all nodes together.
	ConfigThrottle = "mirror.replication.throttled.rate"
)

// ResourceMirror is the type of the config resource that a mirror is.
const ResourceMirror = 64

// CreateClusterMirrorRequest (94) names a link to a source cluster.
type CreateClusterMirrorRequest struct {
	v0
	MirrorName string
	Config     []Config
}

// NewCreateClusterMirrorRequest returns a request with default fields.
func NewCreateClusterMirrorRequest() *CreateClusterMirrorRequest {
	return new(CreateClusterMirrorRequest)
}

func (v *CreateClusterMirrorRequest) walk(c *coder) {
	c.text(&v.MirrorName)
	array(c, &v.Config, func(c *coder, e *Config) {
		c.text(&e.Name)
		c.nullText(&e.Value)
		c.tags()
	})
	c.tags()
}

// Key is the API key.
func (*CreateClusterMirrorRequest) Key() int16 { return KeyCreateClusterMirror }

// AppendTo appends the message to dst.
func (v *CreateClusterMirrorRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *CreateClusterMirrorRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*CreateClusterMirrorRequest) ResponseKind() kmsg.Response {
	return new(CreateClusterMirrorResponse)
}

// CreateClusterMirrorResponse answers CreateClusterMirrorRequest.
type CreateClusterMirrorResponse struct {
	v0
	ThrottleMillis int32
	ErrorCode      int16
	ErrorMessage   *string
}

func (v *CreateClusterMirrorResponse) walk(c *coder) {
	walkTop(c, &v.ThrottleMillis, &v.ErrorCode, &v.ErrorMessage)
	c.tags()
}

// Key is the API key.
func (*CreateClusterMirrorResponse) Key() int16 { return KeyCreateClusterMirror }

// AppendTo appends the message to dst.
func (v *CreateClusterMirrorResponse) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *CreateClusterMirrorResponse) ReadFrom(src []byte) error { return decode(src, v.walk) }

// RequestKind returns an empty request.
func (*CreateClusterMirrorResponse) RequestKind() kmsg.Request {
	return NewCreateClusterMirrorRequest()
}

// DeleteClusterMirrorRequest (104) removes a mirror whose topics are stopped.
type DeleteClusterMirrorRequest struct {
	v0
	MirrorName            string
	StateValidationOffset int64 // -1: none
}

// NewDeleteClusterMirrorRequest returns a request with default fields.
func NewDeleteClusterMirrorRequest() *DeleteClusterMirrorRequest {
	return &DeleteClusterMirrorRequest{StateValidationOffset: -1}
}

func (v *DeleteClusterMirrorRequest) walk(c *coder) {
	c.text(&v.MirrorName)
	c.int64(&v.StateValidationOffset)
	c.tags()
}

// Key is the API key.
func (*DeleteClusterMirrorRequest) Key() int16 { return KeyDeleteClusterMirror }

// AppendTo appends the message to dst.
func (v *DeleteClusterMirrorRequest) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *DeleteClusterMirrorRequest) ReadFrom(src []byte) error { return decode(src, v.walk) }

// ResponseKind returns an empty response.
func (*DeleteClusterMirrorRequest) ResponseKind() kmsg.Response {
	return new(DeleteClusterMirrorResponse)
}

// DeleteClusterMirrorResponse answers DeleteClusterMirrorRequest.
type DeleteClusterMirrorResponse struct {
	v0
	ThrottleMillis int32
	ErrorCode      int16
	ErrorMessage   *string
}

func (v *DeleteClusterMirrorResponse) walk(c *coder) {
	walkTop(c, &v.ThrottleMillis, &v.ErrorCode, &v.ErrorMessage)
	c.tags()
}

// Key is the API key.
func (*DeleteClusterMirrorResponse) Key() int16 { return KeyDeleteClusterMirror }

// AppendTo appends the message to dst.
func (v *DeleteClusterMirrorResponse) AppendTo(dst []byte) []byte { return encode(dst, v.walk) }

// ReadFrom reads all of src.
func (v *DeleteClusterMirrorResponse) ReadFrom(src []byte) error { return decode(src, v.walk) }

// RequestKind returns an empty request.
func (*DeleteClusterMirrorResponse) RequestKind() kmsg.Request {
	return NewDeleteClusterMirrorRequest()
}

// walkTop walks over the fields that every response begins with.
func walkTop(c *coder, throttle *int32, code *int16, message **string) {
	c.int32(throttle)
	c.int16(code)
	c.nullText(message)
}
