package broker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// topicConfigs are Kafka's topic configs that can be given, each with what its
// value must be. Those that this broker does not act on yet are kept and told.
func topicConfigs() map[string]func(string) error {
	return map[string]func(string) error{
		"cleanup.policy":                          oneOf("delete", "compact", "compact,delete", "delete,compact"),
		"compression.type":                        oneOf("producer"),
		"delete.retention.ms":                     atLeast(0),
		"file.delete.delay.ms":                    atLeast(0),
		"flush.messages":                          atLeast(1),
		"flush.ms":                                atLeast(0),
		"index.interval.bytes":                    atLeast(0),
		"max.compaction.lag.ms":                   atLeast(1),
		"max.message.bytes":                       atLeast(0),
		"message.timestamp.after.max.ms":          atLeast(0),
		"message.timestamp.before.max.ms":         atLeast(0),
		"message.timestamp.type":                  oneOf("CreateTime", "LogAppendTime"),
		"min.cleanable.dirty.ratio":               ratio,
		"min.compaction.lag.ms":                   atLeast(0),
		"min.insync.replicas":                     atLeast(1),
		"preallocate":                             oneOf("true", "false"),
		"producer.id.expiration.ms":               atLeast(1),
		"retention.bytes":                         atLeast(-1),
		"retention.ms":                            atLeast(-1),
		"segment.bytes":                           atLeast(1024),
		"segment.index.bytes":                     atLeast(4),
		"segment.jitter.ms":                       atLeast(0),
		"segment.ms":                              atLeast(1),
		"unclean.leader.election.enable":          oneOf("true", "false"),
		"follower.replication.throttled.replicas": anything,
		"leader.replication.throttled.replicas":   anything,
	}
}

// CheckTopicConfigs refuses unknown names and bad values with INVALID_CONFIG.
func CheckTopicConfigs(configs map[string]string) error {
	known := topicConfigs()
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		check, ok := known[name]
		if !ok {
			return fmt.Errorf("unknown topic config %q: %w", name, kerr.InvalidConfig)
		}
		if err := check(configs[name]); err != nil {
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
