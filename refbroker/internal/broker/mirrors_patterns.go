package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/auth"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
)

// configOf is a mirror's config, or its default.
func configOf(m *quorum.Mirror, name string) string {
	if v, ok := m.Configs[name]; ok {
		return v
	}
	return mirror.Defaults()[name]
}

// alterPatterns changes a mirror's lists of topic patterns, and returns the mirror
// as it is then. A pattern that is put into one list leaves the other.
func alterPatterns(ctx context.Context, e *env.Env, m *quorum.Mirror, change func(include, exclude []string) ([]string, []string)) (*quorum.Mirror, error) {
	include := mirror.SplitPatterns(configOf(m, mirrorrpc.ConfigTopicsInclude))
	exclude := mirror.SplitPatterns(configOf(m, mirrorrpc.ConfigTopicsExclude))
	include, exclude = change(include, exclude)
	_, err := e.Quorum.Apply(ctx, quorum.AlterMirror{Name: m.Name, Set: map[string]string{
		mirrorrpc.ConfigTopicsInclude: mirror.JoinPatterns(include),
		mirrorrpc.ConfigTopicsExclude: mirror.JoinPatterns(exclude),
	}})
	if err != nil {
		return nil, err
	}
	next, ok := e.Quorum.Image().Mirrors[m.Name]
	if !ok {
		return nil, fmt.Errorf("mirror %q: %w", m.Name, quorum.ErrNoMirror)
	}
	return next, nil
}

func without(all, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(gone, p) })
}

// matching are the topics of a mirror that patterns match, by name.
func matching(img *quorum.Image, name string, patterns []*regexp.Regexp) []string {
	return slices.DeleteFunc(mirrorTopics(img, name), func(topic string) bool {
		return !slices.ContainsFunc(patterns, func(r *regexp.Regexp) bool { return r.MatchString(topic) })
	})
}

// matched adds to the topics that a request names those of the mirror that its
// patterns match, if keep wants them.
func matched(e *env.Env, mirrorName string, topics []mirrorrpc.NamedTopic, patterns []string, keep func(*quorum.Topic) bool) ([]mirrorrpc.NamedTopic, error) {
	compiled, err := mirror.Patterns(patterns)
	if err != nil {
		return nil, err
	}
	img := e.Quorum.Image()
	for _, name := range matching(img, mirrorName, compiled) {
		if !slices.Contains(topics, mirrorrpc.NamedTopic{TopicName: name}) && keep(img.Topics[name]) {
			topics = append(topics, mirrorrpc.NamedTopic{TopicName: name})
		}
	}
	return topics, nil
}

// startPatterns records the patterns of a start, stops what is excluded now, and
// returns the topics to start: those named, and those that the source has now.
func startPatterns(ctx context.Context, e *env.Env, m *quorum.Mirror, r *mirrorrpc.StartMirrorTopicsRequest) ([]mirrorrpc.StartTopic, error) {
	if _, err := mirror.Patterns(r.IncludePatterns); err != nil {
		return nil, err
	}
	excluded, err := mirror.Patterns(r.ExcludePatterns)
	if err != nil {
		return nil, err
	}
	if len(r.IncludePatterns)+len(r.ExcludePatterns) > 0 {
		m, err = alterPatterns(ctx, e, m, func(include, exclude []string) ([]string, []string) {
			return append(without(include, r.ExcludePatterns), r.IncludePatterns...), append(without(exclude, r.IncludePatterns), r.ExcludePatterns...)
		})
		if err != nil {
			return nil, err
		}
	}
	settings, err := mirror.ReadSettings(m.Configs)
	if err != nil {
		return nil, err
	}
	topics := slices.Clone(r.Topics)
	for _, t := range topics {
		if settings.Topics.Excludes(t.TopicName) {
			return nil, fmt.Errorf("topic %q is excluded by %s of mirror %q: %w", t.TopicName, mirrorrpc.ConfigTopicsExclude, m.Name, kerr.InvalidRequest)
		}
	}
	if gone := matching(e.Quorum.Image(), m.Name, excluded); len(gone) > 0 {
		if _, err := e.Quorum.Apply(ctx, quorum.SetMirrorTopics{Mirror: m.Name, Topics: gone, Desired: quorum.Stopped}); err != nil {
			return nil, err
		}
	}
	if len(r.IncludePatterns) == 0 {
		return topics, nil
	}
	wanted, err := mirror.Patterns(r.IncludePatterns)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	found, err := mirror.FindTopics(ctx, mirror.WayTo(e.Host, m.Configs), m.Bootstrap, mirror.ExpectedCluster(e.Defects, m.SourceClusterID), func(name string) bool {
		return settings.Topics.Has(name) && slices.ContainsFunc(wanted, func(r *regexp.Regexp) bool { return r.MatchString(name) })
	})
	switch {
	case errors.Is(err, mirror.ErrOtherCluster):
		return nil, fmt.Errorf("%w: %w", err, kerr.InconsistentClusterID)
	case err != nil:
		// The patterns are recorded: they are looked for until the source answers.
		e.Log.Warn("the source does not tell its topics yet", "mirror", m.Name, "error", err)
	}
	for _, t := range found {
		if !slices.ContainsFunc(topics, func(n mirrorrpc.StartTopic) bool { return n.TopicName == t.Name }) {
			topics = append(topics, mirrorrpc.StartTopic{TopicName: t.Name})
		}
	}
	return topics, nil
}

// stopPatterns ends the pick-up of what patterns match: one that was included is
// so no more, any other is excluded from now on.
func stopPatterns(ctx context.Context, e *env.Env, mirrorName string, patterns []string) error {
	m, ok := e.Quorum.Image().Mirrors[mirrorName]
	if !ok || len(patterns) == 0 {
		return nil // the stop itself tells
	}
	if _, err := mirror.Patterns(patterns); err != nil {
		return err
	}
	_, err := alterPatterns(ctx, e, m, func(include, exclude []string) ([]string, []string) {
		return without(include, patterns), append(exclude, without(patterns, include)...)
	})
	return err
}

// ofMirror are a mirror's configs as DescribeConfigs tells them: what may be
// changed, and where its source is.
func (c *configs) ofMirror(m *quorum.Mirror) []kmsg.DescribeConfigsResponseResourceConfig {
	const dynamic, fallback = kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigSourceDefaultConfig
	defaults := mirror.Defaults()
	all := maps.Clone(defaults)
	maps.Copy(all, m.Configs)
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := kmsg.NewDescribeConfigsResponseResourceConfig()
		value := all[name]
		one.Name, one.Value, one.ConfigType = name, &value, kmsg.ConfigTypeString
		_, known := defaults[name]
		one.ReadOnly = !known && !auth.Known(name)
		if auth.Secret(name) {
			one.Value, one.IsSensitive = nil, true
		}
		one.Source = fallback
		if _, set := m.Configs[name]; set {
			one.Source = dynamic
		}
		one.IsDefault = one.Source == fallback
		out = append(out, one)
	}
	return out
}

// alterMirror changes a mirror's configs while it runs.
func (c *configs) alterMirror(ctx context.Context, name string, changes []quorum.ConfigChange, validateOnly bool) error {
	m, ok := c.quorum.Image().Mirrors[name]
	if !ok {
		return fmt.Errorf("mirror %q: %w", name, quorum.ErrNoMirror)
	}
	command := quorum.AlterMirror{Name: name, Set: map[string]string{}}
	defaults := mirror.Defaults()
	for _, change := range changes {
		if _, ok := defaults[change.Name]; !ok && !auth.Known(change.Name) {
			return fmt.Errorf("mirror %q: config %q can't be changed while it runs: %w", name, change.Name, kerr.InvalidConfig)
		}
		switch change.Op {
		case quorum.SetConfig:
			command.Set[change.Name] = change.Value
		case quorum.DeleteConfig:
			command.Unset = append(command.Unset, change.Name)
		default:
			return fmt.Errorf("mirror %q: config %q can only be set or deleted: %w", name, change.Name, kerr.InvalidRequest)
		}
	}
	after := command.After(m.Configs)
	if _, err := mirror.ReadSettings(after); err != nil {
		return fmt.Errorf("mirror %q: %w", name, err)
	}
	if err := mirror.CheckWay(after); err != nil {
		return fmt.Errorf("mirror %q: %w", name, err)
	}
	if validateOnly {
		return nil
	}
	_, err := c.quorum.Apply(ctx, command)
	return err
}

// settingsOf are the configs that describe shows.
func settingsOf(m *quorum.Mirror) []mirrorrpc.Config {
	var all []mirrorrpc.Config
	for _, name := range slices.Sorted(maps.Keys(mirror.Defaults())) {
		value := configOf(m, name)
		all = append(all, mirrorrpc.Config{Name: name, Value: &value})
	}
	return all
}
