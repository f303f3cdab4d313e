package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// StartMirrorTopics (key 95), version 0. A topic that is not here yet is made
// with the source's topic id and partition count; when the request doesn't say
// them the source is asked. The topics are read-only from the record of the
// start on, before anything is mirrored (RO-1), and so before the answer:
// Quorum.Apply returns once its record is in force on this node. Patterns choose
// among the topics that the source has now, and are kept for those that it gets.
func startMirrorTopics(e *env.Env) wire.API {
	return wire.Of("StartMirrorTopics", 0, 0, func(ctx context.Context, req *wire.Request, r *mirrorrpc.StartMirrorTopicsRequest) (wire.Response, error) {
		resp, ok := req.Response().(*mirrorrpc.TopicsResponse)
		if !ok {
			return nil, fmt.Errorf("response of StartMirrorTopics is %T", req.Response())
		}
		m, found := e.Quorum.Image().Mirrors[r.MirrorName]
		if !found {
			resp.ErrorCode, resp.ErrorMessage = mirrorError(fmt.Errorf("mirror %q: %w", r.MirrorName, quorum.ErrNoMirror))
			return resp, nil
		}
		topics, err := startPatterns(ctx, e, m, r)
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage = mirrorError(fmt.Errorf("mirror %q: %w", r.MirrorName, err))
			return resp, nil
		}
		s := starter{e: e, mirror: m, discard: r.Discard}
		for i, err := range s.start(ctx, topics) {
			res := mirrorrpc.TopicResult{Name: topics[i].TopicName}
			res.ErrorCode, res.ErrorMessage = mirrorError(err)
			if resp.ErrorCode == 0 {
				resp.ErrorCode, resp.ErrorMessage = res.ErrorCode, res.ErrorMessage
			}
			resp.Topics = append(resp.Topics, res)
		}
		return resp, nil
	})
}

type starter struct {
	e       *env.Env
	mirror  *quorum.Mirror
	discard bool
}

// start starts topics and returns an error for each, nil where it went well.
func (s *starter) start(ctx context.Context, topics []mirrorrpc.StartTopic) []error {
	errs := make([]error, len(topics))
	img := s.e.Quorum.Image()
	// A client that gives a topic's id has asked the source itself.
	var named, here []string
	for _, t := range topics {
		h, ok := img.Topics[t.TopicName]
		switch {
		case ok && h.Mirror == s.mirror.Name && h.Desired == quorum.Mirroring:
			continue // it is started already
		case ok && h.Mirror != "" && h.Mirror != s.mirror.Name && h.Desired != quorum.Stopped:
			continue // another mirror has it: the record refuses it
		}
		if ok {
			here = append(here, t.TopicName)
		}
		if t.TopicID == [16]byte{} {
			named = append(named, t.TopicName)
		}
	}
	source := map[string]kmsg.MetadataResponseTopic{}
	var sourceErr error
	if len(named) > 0 {
		source, sourceErr = s.ask(ctx, named)
	}
	var known mirror.Source
	if sourceErr == nil && len(here) > 0 {
		known = s.look(ctx, here)
	}
	var ready []string
	for i, t := range topics {
		if found, ok := source[t.TopicName]; ok {
			if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
				errs[i] = fmt.Errorf("topic %q on the source: %w", t.TopicName, err)
				continue
			}
			t.TopicID, t.NumPartitions = found.TopicID, int32(len(found.Partitions))
		}
		if up := known.Upstream(t.TopicName); slices.Contains(up, s.e.ClusterID) {
			errs[i] = fmt.Errorf("topic %q: the source is mirrored from this cluster, a loop: %s: %w", t.TopicName, strings.Join(up, ", "), kerr.InvalidRequest)
			continue
		}
		if h, ok := img.Topics[t.TopicName]; ok && !s.discard {
			if errs[i] = known.Unrelated(img, h, s.e.Replicas); errs[i] != nil {
				errs[i] = fmt.Errorf("topic %q: %w; it can be copied anew if what it holds is discarded: %w", t.TopicName, errs[i], kerr.InvalidRequest)
				continue
			}
		}
		if errs[i] = s.prepare(ctx, t, sourceErr); errs[i] == nil {
			ready = append(ready, t.TopicName)
		}
	}
	if len(ready) == 0 {
		return errs
	}
	// One record for all; when it is refused, one for each shows who is to blame.
	if _, err := s.e.Quorum.Apply(ctx, s.record(ready...)); err != nil {
		for i, t := range topics {
			if errs[i] == nil {
				_, errs[i] = s.e.Quorum.Apply(ctx, s.record(t.TopicName))
			}
		}
	}
	return errs
}

func (s *starter) record(topics ...string) quorum.SetMirrorTopics {
	return quorum.SetMirrorTopics{Mirror: s.mirror.Name, Topics: topics, Desired: quorum.Mirroring, Discard: s.discard, TakeOver: s.e.Defects.Has(defect.SameTopicTwoSources)}
}

// ask asks the source for topics.
func (s *starter) ask(ctx context.Context, topics []string) (map[string]kmsg.MetadataResponseTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	meta, err := mirror.AskCluster(ctx, mirror.WayTo(s.e.Host, s.mirror.Configs), s.mirror.Bootstrap, mirror.ExpectedCluster(s.e.Defects, s.mirror.SourceClusterID), topics...)
	if err != nil {
		if errors.Is(err, mirror.ErrOtherCluster) {
			if strings.Contains(err.Error(), s.e.ClusterID) {
				err = fmt.Errorf("%w, which is this cluster itself", err)
			}
			return nil, fmt.Errorf("%w: %w", err, kerr.InconsistentClusterID)
		}
		return nil, fmt.Errorf("ask the source: %w: %w", err, kerr.BrokerNotAvailable)
	}
	found := map[string]kmsg.MetadataResponseTopic{}
	for _, t := range meta.Topics {
		if t.Topic != nil {
			found[*t.Topic] = t
		}
	}
	return found, nil
}

// look asks the source what it tells of topics that are here, before they are
// made read-only for nothing: one that comes from this cluster, directly or not,
// is refused (CH-4), and so is one whose log has nothing to do with the one here.
// A source that does not answer is no obstacle: the mirror looks again before it
// aligns.
func (s *starter) look(ctx context.Context, here []string) mirror.Source {
	ctx, cancel := context.WithTimeout(ctx, loopTimeout)
	defer cancel()
	known, err := mirror.AskSource(ctx, s.e.Host, s.e.ClusterID, s.mirror, here)
	if err != nil {
		s.e.Log.Warn("the source does not tell what it mirrors itself", "mirror", s.mirror.Name, "error", err)
	}
	return known
}

// loopTimeout bounds how long a start looks at what is here already.
const loopTimeout = 3 * time.Second

// prepare checks the topic that is here, or makes it.
func (s *starter) prepare(ctx context.Context, t mirrorrpc.StartTopic, sourceErr error) error {
	here, ok := s.e.Quorum.Image().Topics[t.TopicName]
	switch {
	case ok && here.Internal:
		return fmt.Errorf("topic %q is internal: %w", t.TopicName, kerr.InvalidTopicException)
	case ok && t.TopicID != [16]byte{} && t.TopicID != here.ID:
		return fmt.Errorf("topic %q has id %x on the source and %x here: %w", t.TopicName, t.TopicID, here.ID, kerr.InconsistentTopicID)
	case ok && t.NumPartitions > 0 && int(t.NumPartitions) < len(here.Partitions):
		return fmt.Errorf("topic %q has %d partitions here, and %d on the source: %w", t.TopicName, len(here.Partitions), t.NumPartitions, kerr.InvalidPartitions)
	case ok && errors.Is(sourceErr, mirror.ErrOtherCluster):
		return fmt.Errorf("topic %q: %w", t.TopicName, sourceErr)
	case ok && here.Mirror != "":
		return nil // its id was the source's when it was first started, and that may be dead
	case t.TopicID == [16]byte{} && sourceErr != nil:
		return fmt.Errorf("topic %q: %w", t.TopicName, sourceErr)
	case t.TopicID == [16]byte{}:
		return fmt.Errorf("topic %q on the source: %w", t.TopicName, kerr.UnknownTopicOrPartition)
	case ok:
		return nil
	}
	_, err := s.e.Topics.CreateTopic(ctx, env.NewTopic{Name: t.TopicName, ID: t.TopicID, Partitions: t.NumPartitions, Replication: -1})
	if errors.Is(err, kerr.TopicAlreadyExists) {
		// A client whose patience ended repeats what is still under way: a
		// thousand logs are made.
		if made, ok := s.e.Quorum.Image().Topics[t.TopicName]; ok && made.ID == t.TopicID {
			return nil
		}
	}
	return err
}
