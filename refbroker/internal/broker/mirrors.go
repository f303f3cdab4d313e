package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// mirrorAPIs are the APIs of KIP-1279's control plane.
func mirrorAPIs(e *env.Env, m *mirror.Manager) []wire.API {
	return append(inStep(e,
		createClusterMirror(e),
		startMirrorTopics(e),
		stopMirrorTopics(e),
		pauseMirrorTopics(e),
		resumeMirrorTopics(e),
		deleteClusterMirror(e),
		bumpLeaderEpochs(e),
	),
		listClusterMirrors(e),
		describeClusterMirrors(e, m),
		describeLed(e, m),
		readMirrorStates(e),
	)
}

// catchUpTimeout bounds the wait for a quorum that may have no leader: the
// request itself then says so.
const catchUpTimeout = 2 * time.Second

// inStep has requests wait for what the quorum had before them. Operators go
// from one to the next over whichever node; Kafka sends such requests on to the
// controller.
func inStep(e *env.Env, apis ...wire.API) []wire.API {
	for i, a := range apis {
		apis[i].Handle = func(ctx context.Context, req *wire.Request) (wire.Response, error) {
			wait, cancel := context.WithTimeout(ctx, catchUpTimeout)
			if err := e.Quorum.CatchUp(wait); err != nil {
				e.Log.Warn("this node may not know the newest metadata", "request", a.Name, "error", err)
			}
			cancel()
			return a.Handle(ctx, req)
		}
	}
	return apis
}

// notServed is an API of KIP-1279 that this broker leaves out, and why.
type notServed struct {
	key       int16
	name, why string
}

// mirrorAPIsNotServed are the rest of them.
func mirrorAPIsNotServed() []notServed { return []notServed{writeMirrorStates} }

// desireTopics gives topics of a mirror the desired state of the record, and
// answers once that is recorded, topic by topic: the top level has an error
// only when it is about the mirror.
func desireTopics(ctx context.Context, e *env.Env, req *wire.Request, topics []mirrorrpc.NamedTopic, record quorum.SetMirrorTopics) (wire.Response, error) {
	resp, ok := req.Response().(*mirrorrpc.TopicsResponse)
	if !ok {
		return nil, fmt.Errorf("response with api key %d is %T", req.Key, req.Response())
	}
	img := e.Quorum.Image()
	if _, found := img.Mirrors[record.Mirror]; !found {
		resp.ErrorCode, resp.ErrorMessage = mirrorError(fmt.Errorf("mirror %q: %w", record.Mirror, quorum.ErrNoMirror))
		return resp, nil
	}
	errs := make([]error, len(topics))
	for i, t := range topics {
		if _, errs[i] = mirrorTopic(img, record.Mirror, t.TopicName); errs[i] == nil {
			record.Topics = append(record.Topics, t.TopicName)
		}
	}
	if len(record.Topics) > 0 {
		// One record for all; when it is refused, one for each shows who is to blame.
		if _, err := e.Quorum.Apply(ctx, record); err != nil {
			for i, t := range topics {
				if errs[i] == nil {
					record.Topics = []string{t.TopicName}
					_, errs[i] = e.Quorum.Apply(ctx, record)
				}
			}
		}
	}
	for i, t := range topics {
		res := mirrorrpc.TopicResult{Name: t.TopicName}
		res.ErrorCode, res.ErrorMessage = mirrorError(errs[i])
		resp.Topics = append(resp.Topics, res)
	}
	return resp, nil
}

// refusedAll is the answer of a request about topics that is refused whole.
func refusedAll(req *wire.Request, err error) (wire.Response, error) {
	resp, ok := req.Response().(*mirrorrpc.TopicsResponse)
	if !ok {
		return nil, fmt.Errorf("response with api key %d is %T", req.Key, req.Response())
	}
	resp.ErrorCode, resp.ErrorMessage = mirrorError(err)
	return resp, nil
}

// notStopped says whether a topic is one that a pattern of a pause or a resume means:
// one that is stopped would be refused.
func notStopped(t *quorum.Topic) bool {
	return t.Desired == quorum.Mirroring || t.Desired == quorum.Paused
}

// mirrorTopic finds a topic of a mirror.
func mirrorTopic(img *quorum.Image, mirror, topic string) (*quorum.Topic, error) {
	t, err := img.Topic(topic)
	if err != nil {
		return nil, err
	}
	if t.Mirror != mirror {
		return nil, fmt.Errorf("topic %q: %w %q", topic, quorum.ErrTopicNotInMirror, mirror)
	}
	return t, nil
}

// mirrorError is an error as a response carries it: the code, and always a
// message, since clients know the codes from 134 on under other names.
func mirrorError(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	message := err.Error()
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Code, &message
	}
	return kerr.UnknownServerError.Code, &message
}
