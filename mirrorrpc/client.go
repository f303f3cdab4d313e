package mirrorrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Mirrors are those into one cluster, as somebody drives them: a [Client] by the
// requests of KIP-1279, others by a product's own commands.
type Mirrors interface {
	Create(ctx context.Context, mirror string, configs map[string]string) error
	Start(ctx context.Context, mirror string, topics ...string) error
	Stop(ctx context.Context, mirror string, topics ...string) error
	Pause(ctx context.Context, mirror string, topics ...string) error
	Delete(ctx context.Context, mirror string) error
	Describe(ctx context.Context, mirrors ...string) ([]DescribedMirror, error)
}

var _ Mirrors = Client{}

// Client drives the mirrors of one cluster. Any broker answers.
type Client struct {
	// R sends a request to a broker and returns its response. A *kgo.Client
	// does, when it was made with kgo.MaxVersions(nil).
	R kmsg.Requestor
}

// An Error is what a cluster answered, about one topic or the whole request.
type Error struct {
	// Err is a *kerr.Error.
	Err error
	// Topic is "" when the error is about the whole request.
	Topic string
	// Message is the broker's own explanation.
	Message string
}

func (e *Error) Error() string {
	s := e.Err.Error()
	if e.Message != "" {
		s = fmt.Sprintf("%s (%s)", e.Message, e.Err.Error())
	}
	if e.Topic != "" {
		s = fmt.Sprintf("topic %q: %s", e.Topic, s)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

func answered(key, code int16, message *string, topic string) error {
	err := ErrorForCode(key, code)
	if err == nil {
		return nil
	}
	e := &Error{Err: err, Topic: topic}
	if message != nil {
		e.Message = *message
	}
	return e
}

func request[R kmsg.Response](ctx context.Context, c Client, req kmsg.Request) (R, error) {
	var none R
	resp, err := c.R.Request(ctx, req)
	if err != nil {
		return none, fmt.Errorf("%s: %w", nameOf(req), err)
	}
	r, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("%s: unexpected response %T", nameOf(req), resp)
	}
	return r, nil
}

// Create makes a mirror. configs needs [ConfigBootstrap]; without
// [ConfigSourceClusterID] the broker asks the source for its id.
func (c Client) Create(ctx context.Context, mirror string, configs map[string]string) error {
	req := NewCreateClusterMirrorRequest()
	req.MirrorName = mirror
	for _, k := range slices.Sorted(maps.Keys(configs)) {
		v := configs[k]
		req.Config = append(req.Config, Config{Name: k, Value: &v})
	}
	resp, err := request[*CreateClusterMirrorResponse](ctx, c, req)
	if err != nil {
		return fmt.Errorf("create mirror %q: %w", mirror, err)
	}
	if err := answered(req.Key(), resp.ErrorCode, resp.ErrorMessage, ""); err != nil {
		return fmt.Errorf("create mirror %q: %w", mirror, err)
	}
	return nil
}

// Start starts the mirroring of topics; their ids and partition counts are
// looked up on the source by the broker. The error joins those of all topics.
func (c Client) Start(ctx context.Context, mirror string, topics ...string) error {
	return c.start(ctx, mirror, false, topics)
}

// StartAnew is Start, but what the topics hold here is cut, all of it.
func (c Client) StartAnew(ctx context.Context, mirror string, topics ...string) error {
	return c.start(ctx, mirror, true, topics)
}

func (c Client) start(ctx context.Context, mirror string, discard bool, topics []string) error {
	req := NewStartMirrorTopicsRequest()
	req.MirrorName, req.Discard = mirror, discard
	for _, t := range topics {
		req.Topics = append(req.Topics, StartTopic{TopicName: t})
	}
	return c.topics(ctx, fmt.Sprintf("start mirror %q", mirror), req)
}

// Stop fails topics over. It returns once the stop is recorded; Describe
// shows how far it is. The error joins those of all topics.
func (c Client) Stop(ctx context.Context, mirror string, topics ...string) error {
	req := NewStopMirrorTopicsRequest()
	req.MirrorName, req.Topics = mirror, named(topics)
	return c.topics(ctx, fmt.Sprintf("stop mirror %q", mirror), req)
}

// Pause removes the fetchers of topics, which stay read-only. It returns once
// that is recorded; the error joins those of all topics.
func (c Client) Pause(ctx context.Context, mirror string, topics ...string) error {
	req := NewPauseMirrorTopicsRequest()
	req.MirrorName, req.Topics = mirror, named(topics)
	return c.topics(ctx, fmt.Sprintf("pause mirror %q", mirror), req)
}

// Resume goes on after a pause, or with partitions that FAILED. It starts nothing that
// was stopped. It returns once that is recorded; the error joins those of all topics.
func (c Client) Resume(ctx context.Context, mirror string, topics ...string) error {
	req := NewResumeMirrorTopicsRequest()
	req.MirrorName, req.Topics = mirror, named(topics)
	return c.topics(ctx, fmt.Sprintf("resume mirror %q", mirror), req)
}

// StartMatching starts the topics of the source that patterns choose, now and
// when it gets more of them; exclude stops what it matches. It returns the topics
// that are there now.
func (c Client) StartMatching(ctx context.Context, mirror string, include, exclude []string) ([]string, error) {
	req := NewStartMirrorTopicsRequest()
	req.MirrorName, req.IncludePatterns, req.ExcludePatterns = mirror, include, exclude
	return c.matching(ctx, fmt.Sprintf("start mirror %q", mirror), req)
}

// StopMatching fails over the topics that patterns match, and ends their pick-up
// at the source.
func (c Client) StopMatching(ctx context.Context, mirror string, patterns ...string) ([]string, error) {
	req := NewStopMirrorTopicsRequest()
	req.MirrorName, req.Patterns = mirror, patterns
	return c.matching(ctx, fmt.Sprintf("stop mirror %q", mirror), req)
}

// PauseMatching pauses the topics of the mirror that patterns match.
func (c Client) PauseMatching(ctx context.Context, mirror string, patterns ...string) ([]string, error) {
	req := NewPauseMirrorTopicsRequest()
	req.MirrorName, req.Patterns = mirror, patterns
	return c.matching(ctx, fmt.Sprintf("pause mirror %q", mirror), req)
}

// ResumeMatching resumes the paused topics of the mirror that patterns match.
func (c Client) ResumeMatching(ctx context.Context, mirror string, patterns ...string) ([]string, error) {
	req := NewResumeMirrorTopicsRequest()
	req.MirrorName, req.Patterns = mirror, patterns
	return c.matching(ctx, fmt.Sprintf("resume mirror %q", mirror), req)
}

// Alter changes configs of a mirror that runs; nil is back to the default.
func (c Client) Alter(ctx context.Context, mirror string, configs map[string]*string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = ResourceMirror, mirror
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		one.Name, one.Value = name, configs[name]
		if one.Value == nil {
			one.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		res.Configs = append(res.Configs, one)
	}
	req.Resources = append(req.Resources, res)
	resp, err := request[*kmsg.IncrementalAlterConfigsResponse](ctx, c, req)
	if err != nil {
		return fmt.Errorf("alter mirror %q: %w", mirror, err)
	}
	for _, r := range resp.Resources {
		if err := answered(KeyCreateClusterMirror, r.ErrorCode, r.ErrorMessage, ""); err != nil {
			return fmt.Errorf("alter mirror %q: %w", mirror, err)
		}
	}
	return nil
}

func named(topics []string) []NamedTopic {
	all := make([]NamedTopic, 0, len(topics))
	for _, t := range topics {
		all = append(all, NamedTopic{TopicName: t})
	}
	return all
}

// Delete removes a mirror all of whose topics are stopped; they stay writable.
func (c Client) Delete(ctx context.Context, mirror string) error {
	req := NewDeleteClusterMirrorRequest()
	req.MirrorName = mirror
	resp, err := request[*DeleteClusterMirrorResponse](ctx, c, req)
	if err == nil {
		err = answered(req.Key(), resp.ErrorCode, resp.ErrorMessage, "")
	}
	if err != nil {
		return fmt.Errorf("delete mirror %q: %w", mirror, err)
	}
	return nil
}

// Bump raises the leader epochs of partitions of a topic above a minimum. The
// error joins those of all partitions.
func (c Client) Bump(ctx context.Context, topicID [16]byte, above int32, partitions ...int32) error {
	req := NewBumpLeaderEpochsRequest()
	t := BumpTopic{TopicID: topicID}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, BumpPartition{PartitionIndex: p, MinLeaderEpoch: above})
	}
	req.Topics = []BumpTopic{t}
	resp, err := request[*PartitionsResponse](ctx, c, req)
	if err != nil {
		return fmt.Errorf("bump leader epochs: %w", err)
	}
	errs := []error{answered(req.Key(), resp.ErrorCode, resp.ErrorMessage, "")}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			errs = append(errs, answered(req.Key(), p.ErrorCode, p.ErrorMessage, ""))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("bump leader epochs: %w", err)
	}
	return nil
}

// ReadStates reads the states of partitions of a mirror's topic.
func (c Client) ReadStates(ctx context.Context, mirror, topic string, partitions ...int32) ([]ReadState, error) {
	req := NewReadMirrorStatesRequest()
	req.MirrorName, req.Topics = mirror, []StateTopic{{Name: topic, Partitions: partitions}}
	resp, err := request[*ReadMirrorStatesResponse](ctx, c, req)
	if err != nil {
		return nil, fmt.Errorf("read states of mirror %q: %w", mirror, err)
	}
	errs := []error{answered(req.Key(), resp.ErrorCode, resp.ErrorMessage, "")}
	var all []ReadState
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			errs = append(errs, answered(req.Key(), p.ErrorCode, p.ErrorMessage, t.Name))
			all = append(all, p)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read states of mirror %q: %w", mirror, err)
	}
	return all, nil
}

func (c Client) topics(ctx context.Context, what string, req kmsg.Request) error {
	_, err := c.matching(ctx, what, req)
	return err
}

// matching returns the topics that a request was about, in the answer's words.
func (c Client) matching(ctx context.Context, what string, req kmsg.Request) ([]string, error) {
	resp, err := request[*TopicsResponse](ctx, c, req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	var errs []error
	var topics []string
	for _, t := range resp.Topics {
		topics = append(topics, t.Name)
		if err := answered(req.Key(), t.ErrorCode, t.ErrorMessage, t.Name); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 { // the top-level error repeats the first topic's
		errs = append(errs, answered(req.Key(), resp.ErrorCode, resp.ErrorMessage, ""))
	}
	if err := errors.Join(errs...); err != nil {
		return topics, fmt.Errorf("%s: %w", what, err)
	}
	return topics, nil
}

// List lists the mirrors, with the names of their topics.
func (c Client) List(ctx context.Context) ([]ListedMirror, error) {
	req := NewListClusterMirrorsRequest()
	req.IncludeTopicNames = true
	resp, err := request[*ListClusterMirrorsResponse](ctx, c, req)
	if err != nil {
		return nil, fmt.Errorf("list mirrors: %w", err)
	}
	if err := answered(req.Key(), resp.ErrorCode, resp.ErrorMessage, ""); err != nil {
		return nil, fmt.Errorf("list mirrors: %w", err)
	}
	return resp.Mirrors, nil
}

// Describe returns the state of mirrors, of all when none is named.
func (c Client) Describe(ctx context.Context, mirrors ...string) ([]DescribedMirror, error) {
	req := NewDescribeClusterMirrorsRequest()
	req.MirrorNames = mirrors
	resp, err := request[*DescribeClusterMirrorsResponse](ctx, c, req)
	if err != nil {
		return nil, fmt.Errorf("describe mirrors: %w", err)
	}
	if err := answered(req.Key(), resp.ErrorCode, resp.ErrorMessage, ""); err != nil {
		return nil, fmt.Errorf("describe mirrors: %w", err)
	}
	for _, m := range resp.Mirrors {
		if err := answered(req.Key(), m.ErrorCode, nil, ""); err != nil {
			return nil, fmt.Errorf("describe mirror %q: %w", m.MirrorName, err)
		}
	}
	return resp.Mirrors, nil
}
