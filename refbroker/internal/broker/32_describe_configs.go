package broker

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// DescribeConfigs (key 32), versions 1 to 4: from 3 on configs have types. It
// is served for topics, for mirrors (resource type 64), and for this broker, all of whose configs were given at
// its start. Documentation is left to Kafka's.
func describeConfigs(c *configs) wire.API {
	return wire.Of("DescribeConfigs", 1, 4, func(_ context.Context, req *wire.Request, r *kmsg.DescribeConfigsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrDescribeConfigsResponse()
		resp.Version = req.Version
		for _, want := range r.Resources {
			out := kmsg.NewDescribeConfigsResponseResource()
			out.ResourceType, out.ResourceName = want.ResourceType, want.ResourceName
			all, err := c.describe(want.ResourceType, want.ResourceName)
			out.ErrorCode, out.ErrorMessage = errorOf(err)
			for _, one := range all {
				if want.ConfigNames != nil && !slices.Contains(want.ConfigNames, one.Name) {
					continue
				}
				if !r.IncludeSynonyms {
					one.ConfigSynonyms = nil
				}
				out.Configs = append(out.Configs, one)
			}
			resp.Resources = append(resp.Resources, out)
		}
		return resp, nil
	})
}

// configs tells and changes the configs of topics.
type configs struct {
	node int32
	// defaults are the node's, for topics that don't set them; static is what
	// the node was started with, for DescribeConfigs.
	defaults, static map[string]string
	quorum           *quorum.Node
}

func (c *configs) describe(kind kmsg.ConfigResourceType, name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		t, err := c.quorum.Image().Topic(name)
		if err != nil {
			return nil, err
		}
		return c.ofTopic(t), nil
	case mirrorrpc.ResourceMirror:
		m, ok := c.quorum.Image().Mirrors[name]
		if !ok {
			return nil, fmt.Errorf("mirror %q: %w", name, quorum.ErrNoMirror)
		}
		return c.ofMirror(m), nil
	case kmsg.ConfigResourceTypeBroker:
		if name == "" { // cluster-wide dynamic configs: there are none
			return nil, nil
		}
		if name != strconv.Itoa(int(c.node)) {
			return nil, fmt.Errorf("broker %q: this is broker %d, which knows its own configs only: %w", name, c.node, kerr.InvalidRequest)
		}
		return c.ofBroker(), nil
	}
	return nil, fmt.Errorf("resource type %d: configs of topics, mirrors and brokers are served only: %w", kind, kerr.InvalidRequest)
}

func (c *configs) ofTopic(t *quorum.Topic) []kmsg.DescribeConfigsResponseResourceConfig {
	var all []kmsg.DescribeConfigsResponseResourceConfig
	known := topicConfigs()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		out := kmsg.NewDescribeConfigsResponseResourceConfig()
		out.Name, out.ConfigType = name, known[name].Type
		for _, from := range []struct {
			values map[string]string
			source kmsg.ConfigSource
		}{
			{t.Configs, kmsg.ConfigSourceDynamicTopicConfig},
			{c.defaults, kmsg.ConfigSourceStaticBrokerConfig},
			{map[string]string{name: known[name].Default}, kmsg.ConfigSourceDefaultConfig},
		} {
			value, ok := from.values[name]
			if !ok {
				continue
			}
			if out.Value == nil {
				out.Value, out.Source = &value, from.source
			}
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = name, &value, from.source
			if from.source != kmsg.ConfigSourceDynamicTopicConfig {
				s.Name = brokerConfig(name)
			}
			if s.Name == "" || from.source == kmsg.ConfigSourceDefaultConfig && defaultElsewhere(name) {
				continue
			}
			out.ConfigSynonyms = append(out.ConfigSynonyms, s)
		}
		all = append(all, out)
	}
	return all
}

func (c *configs) ofBroker() []kmsg.DescribeConfigsResponseResourceConfig {
	var all []kmsg.DescribeConfigsResponseResourceConfig
	for _, name := range slices.Sorted(maps.Keys(c.static)) {
		out := kmsg.NewDescribeConfigsResponseResourceConfig()
		value := c.static[name]
		out.Name, out.Value, out.ReadOnly = name, &value, true
		out.Source, out.ConfigType = kmsg.ConfigSourceStaticBrokerConfig, kmsg.ConfigTypeString
		all = append(all, out)
	}
	return all
}

// static is what a node was started with, under Kafka's names.
func (c *Config) static() map[string]string {
	all := map[string]string{
		"log.dirs": filepath.Join(c.DataDir, "logs"), "node.id": strconv.Itoa(int(c.NodeID)), "auto.create.topics.enable": "false",
	}
	var listen, advertise []string
	for _, l := range c.Listeners {
		listen = append(listen, l.Name+"://"+l.Listen)
		if l.Advertise != "" {
			advertise = append(advertise, l.Name+"://"+l.Advertise)
		}
	}
	all["listeners"], all["advertised.listeners"] = strings.Join(listen, ","), strings.Join(advertise, ",")
	return all
}
