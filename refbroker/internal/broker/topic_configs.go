package broker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicConfig is one of Kafka's topic configs.
type topicConfig struct {
	// Default is what holds where neither the topic nor the node says.
	Default string
	Type    kmsg.ConfigType
	check   func(string) error
}

// topicConfigs are Kafka's topic configs that can be given. Those that this
// broker does not act on yet are kept and told.
func topicConfigs() map[string]topicConfig {
	const (
		list, word, flag   = kmsg.ConfigTypeList, kmsg.ConfigTypeString, kmsg.ConfigTypeBoolean
		whole, long, float = kmsg.ConfigTypeInt, kmsg.ConfigTypeLong, kmsg.ConfigTypeDouble
		never              = "9223372036854775807"
	)
	return map[string]topicConfig{
		"cleanup.policy":                          {"delete", list, oneOf("delete", "compact", "compact,delete", "delete,compact")},
		"compression.gzip.level":                  {"-1", whole, atLeast(-1)},
		"compression.lz4.level":                   {"9", whole, atLeast(1)},
		"compression.type":                        {"producer", word, oneOf("producer")},
		"compression.zstd.level":                  {"3", whole, anything},
		"delete.retention.ms":                     {"86400000", long, atLeast(0)},
		"errors.deadletterqueue.group.enable":     {"false", flag, oneOf("false")},
		"file.delete.delay.ms":                    {"60000", long, atLeast(0)},
		"flush.messages":                          {never, long, atLeast(1)},
		"flush.ms":                                {never, long, atLeast(0)},
		"follower.replication.throttled.replicas": {"", list, anything},
		"index.interval.bytes":                    {"4096", whole, atLeast(0)},
		"leader.replication.throttled.replicas":   {"", list, anything},
		"local.retention.bytes":                   {"-2", long, atLeast(-2)},
		"local.retention.ms":                      {"-2", long, atLeast(-2)},
		"max.compaction.lag.ms":                   {never, long, atLeast(1)},
		"max.decompressed.message.bytes":          {"2147483639", whole, atLeast(0)},
		"max.message.bytes":                       {"1048588", whole, atLeast(0)},
		"message.timestamp.after.max.ms":          {"3600000", long, atLeast(0)},
		"message.timestamp.before.max.ms":         {never, long, atLeast(0)},
		"message.timestamp.type":                  {"CreateTime", word, oneOf("CreateTime", "LogAppendTime")},
		"min.cleanable.dirty.ratio":               {"0.5", float, ratio},
		"min.compaction.lag.ms":                   {"0", long, atLeast(0)},
		"min.insync.replicas":                     {"1", whole, atLeast(1)},
		"preallocate":                             {"false", flag, oneOf("true", "false")},
		"producer.id.expiration.ms":               {"86400000", long, atLeast(1)},
		"remote.copy.lag.bytes":                   {"-1", long, atLeast(-1)},
		"remote.copy.lag.ms":                      {"0", long, atLeast(-1)},
		"remote.log.copy.disable":                 {"false", flag, oneOf("true", "false")},
		"remote.log.delete.on.disable":            {"false", flag, oneOf("true", "false")},
		"remote.storage.enable":                   {"false", flag, oneOf("false")}, // there is no tiered storage
		"retention.bytes":                         {"-1", long, atLeast(-1)},
		"retention.ms":                            {"604800000", long, atLeast(-1)},
		"segment.bytes":                           {"1073741824", whole, atLeast(1024)},
		"segment.index.bytes":                     {"10485760", whole, atLeast(4)},
		"segment.jitter.ms":                       {"0", long, atLeast(0)},
		"segment.ms":                              {"604800000", long, atLeast(1)},
		"unclean.leader.election.enable":          {"false", flag, oneOf("true", "false")},
	}
}

// brokerConfig is the name of the broker's config that is a topic config's
// default, "" where there is none.
func brokerConfig(topicConfig string) string {
	switch topicConfig {
	case "follower.replication.throttled.replicas", "leader.replication.throttled.replicas", "remote.storage.enable",
		"remote.log.copy.disable", "remote.log.delete.on.disable", "errors.deadletterqueue.group.enable":
		return ""
	case "min.insync.replicas", "compression.type", "unclean.leader.election.enable", "compression.gzip.level",
		"compression.lz4.level", "compression.zstd.level", "max.decompressed.message.bytes", "producer.id.expiration.ms":
		return topicConfig
	case "max.message.bytes":
		return "message.max.bytes"
	case "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms":
		return "log.cleaner." + topicConfig
	case "min.cleanable.dirty.ratio":
		return "log.cleaner.min.cleanable.ratio"
	case "file.delete.delay.ms":
		return "log.segment.delete.delay.ms"
	case "flush.messages", "flush.ms":
		return strings.Replace(topicConfig, "flush.", "log.flush.interval.", 1)
	case "segment.ms", "segment.jitter.ms":
		return strings.Replace(topicConfig, "segment.", "log.roll.", 1)
	case "segment.index.bytes":
		return "log.index.size.max.bytes"
	}
	return "log." + topicConfig
}

// defaultElsewhere says that the broker's config has no default: another one in
// a larger unit (log.retention.hours), or none, holds then.
func defaultElsewhere(topicConfig string) bool {
	return slices.Contains([]string{"retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms"}, topicConfig)
}

// CheckTopicConfigs refuses unknown names and bad values with INVALID_CONFIG.
func CheckTopicConfigs(configs map[string]string) error {
	known := topicConfigs()
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		c, ok := known[name]
		if !ok {
			return fmt.Errorf("unknown topic config %q: %w", name, kerr.InvalidConfig)
		}
		if err := c.check(configs[name]); err != nil {
			return fmt.Errorf("topic config %s=%q: %w: %w", name, configs[name], err, kerr.InvalidConfig)
		}
	}
	return nil
}

func anything(string) error { return nil }

func atLeast(lowest int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < lowest {
			return fmt.Errorf("want a whole number of at least %d", lowest)
		}
		return nil
	}
}

func oneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("want %s", strings.Join(values, " or "))
		}
		return nil
	}
}

func ratio(v string) error {
	if f, err := strconv.ParseFloat(v, 64); err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("want a number from 0 to 1")
	}
	return nil
}
