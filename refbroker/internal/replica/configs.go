package replica

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// topicConfig is what a log takes from a topic's configs.
type topicConfig struct {
	segmentBytes, segmentMs                    int64
	indexInterval, indexBytes, maxMessageBytes int
	minISR                                     int
	logAppendTime                              bool
	// deletes: cleanup.policy has "delete".
	deletes                     bool
	retentionMs, retentionBytes int64
}

// ValidateTopicConfigs checks the values of the topic configs that logs use;
// others are passed over.
func ValidateTopicConfigs(configs map[string]string) error {
	_, err := parseTopicConfigs(configs, nil)
	return err
}

// parseTopicConfigs reads a topic's configs over the node's defaults.
func parseTopicConfigs(configs, defaults map[string]string) (topicConfig, error) {
	c := topicConfig{minISR: 1, deletes: true, retentionMs: 7 * 24 * 60 * 60 * 1000, retentionBytes: -1}
	get := func(name string) (string, bool) {
		if v, ok := configs[name]; ok {
			return v, true
		}
		v, ok := defaults[name]
		return v, ok
	}
	var err error
	number := func(name string, least int64, set func(int64)) {
		v, ok := get(name)
		if !ok || err != nil {
			return
		}
		n, perr := strconv.ParseInt(v, 10, 64)
		if perr != nil || n < least {
			err = fmt.Errorf("topic config %s=%q: want a number of at least %d", name, v, least)
			return
		}
		set(n)
	}
	number("segment.bytes", 14, func(n int64) { c.segmentBytes = n })
	number("segment.ms", 1, func(n int64) { c.segmentMs = n })
	number("index.interval.bytes", 0, func(n int64) { c.indexInterval = max(int(n), 1) })
	number("segment.index.bytes", 4, func(n int64) { c.indexBytes = int(n) })
	number("max.message.bytes", 0, func(n int64) { c.maxMessageBytes = max(int(n), 1) })
	number("min.insync.replicas", 1, func(n int64) { c.minISR = int(n) })
	number("retention.ms", -1, func(n int64) { c.retentionMs = n })
	number("retention.bytes", -1, func(n int64) { c.retentionBytes = n })
	if v, ok := get("cleanup.policy"); ok {
		c.deletes = slices.Contains(strings.Split(v, ","), "delete")
	}
	if v, ok := get("message.timestamp.type"); ok && err == nil {
		switch v {
		case "LogAppendTime":
			c.logAppendTime = true
		case "CreateTime":
		default:
			err = fmt.Errorf("topic config message.timestamp.type=%q: want CreateTime or LogAppendTime", v)
		}
	}
	return c, err
}
