package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
)

// FoundTopic is a topic of a source.
type FoundTopic struct {
	Name       string
	ID         [16]byte
	Partitions int32
}

// FindTopics asks a mirror's source for its topics that keep wants. Internal ones
// are left out: a cluster's coordinators are its own.
func FindTopics(ctx context.Context, w Way, bootstrap []string, clusterID string, keep func(string) bool) ([]FoundTopic, error) {
	var errs []error
	for _, addr := range bootstrap {
		found, err := findTopics(ctx, w, addr, clusterID, keep)
		if err == nil {
			return found, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func findTopics(ctx context.Context, w Way, addr, clusterID string, keep func(string) bool) ([]FoundTopic, error) {
	c, _, err := dial(ctx, w, addr, clusterID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	meta, err := c.allTopics(ctx)
	if err != nil {
		return nil, err
	}
	var found []FoundTopic
	for _, t := range meta.Topics {
		if t.Topic != nil && t.ErrorCode == 0 && !t.IsInternal && keep(*t.Topic) {
			found = append(found, FoundTopic{*t.Topic, t.TopicID, int32(len(t.Partitions))})
		}
	}
	slices.SortFunc(found, func(a, b FoundTopic) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// discover starts to mirror topics that the source has got and the mirror's
// patterns choose, one node for all. What is here already is the operator's to
// start: it may have been stopped, or be this cluster's own (OPS-5).
func (s *groupSync) discover(ctx context.Context) error {
	settings, err := s.settings()
	img := s.m.quorum.Image()
	if err != nil || settings.Topics.None() || s.m.create == nil || s.m.node != firstBroker(img) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := FindTopics(ctx, WayTo(s.m.host, s.mirror.Configs), s.mirror.Bootstrap, ExpectedCluster(s.m.defects, s.mirror.SourceClusterID), settings.Topics.Has)
	if err != nil {
		return fmt.Errorf("topics of the source: %w", err)
	}
	var errs []error
	for _, t := range found {
		if here := img.Topics[t.Name]; here != nil && !begun(here, t) {
			continue
		}
		if err := s.startFound(ctx, t); err != nil {
			errs = append(errs, fmt.Errorf("start to mirror topic %q, which the source has got: %w", t.Name, err))
		}
	}
	return errors.Join(errs...)
}

// begun says whether a topic that is here was made by a start that did not come
// to its second record.
func begun(here *quorum.Topic, t FoundTopic) bool {
	return here.ID == t.ID && here.Mirror == "" && !slices.ContainsFunc(here.Partitions, func(p *quorum.Partition) bool {
		return p.Mirror.State != quorum.Unknown
	})
}

func (s *groupSync) startFound(ctx context.Context, t FoundTopic) error {
	if s.m.quorum.Image().Topics[t.Name] == nil {
		_, err := s.m.create(ctx, env.NewTopic{Name: t.Name, ID: t.ID, Partitions: t.Partitions, Replication: -1})
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
	}
	_, err := s.m.quorum.Apply(ctx, quorum.SetMirrorTopics{Mirror: s.mirror.Name, Topics: []string{t.Name}, Desired: quorum.Mirroring})
	if err == nil {
		s.m.log.Info("the source has got a topic that is mirrored", "mirror", s.mirror.Name, "topic", t.Name)
	}
	return err
}
