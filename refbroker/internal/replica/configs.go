package replica

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"watershed.example/refbroker/internal/storage"
)

// topicConfig is what a log takes from a topic's configs.
type topicConfig struct {
	segmentBytes, segmentMs                    int64
	indexInterval, indexBytes, maxMessageBytes int
	minISR                                     int
	flushMessages, flushMs                     int64
	logAppendTime                              bool
	// deletes: cleanup.policy has "delete".
	deletes                     bool
	retentionMs, retentionBytes int64
	// compacts: it has "compact".
	compacts   bool
	compaction storage.Compaction
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
	c.compaction = storage.Compaction{DirtyRatio: 0.5, DeleteRetentionMs: 24 * 60 * 60 * 1000}
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
	number("flush.messages", 1, func(n int64) { c.flushMessages = unlessNever(n) })
	number("flush.ms", 0, func(n int64) { c.flushMs = unlessNever(max(n, 1)) })
	number("min.insync.replicas", 1, func(n int64) { c.minISR = int(n) })
	number("retention.ms", -1, func(n int64) { c.retentionMs = n })
	number("retention.bytes", -1, func(n int64) { c.retentionBytes = n })
	number("delete.retention.ms", 0, func(n int64) { c.compaction.DeleteRetentionMs = n })
	number("min.compaction.lag.ms", 0, func(n int64) { c.compaction.MinLagMs = n })
	number("max.compaction.lag.ms", 1, func(n int64) { c.compaction.MaxLagMs = unlessNever(n) })
	if v, ok := get("min.cleanable.dirty.ratio"); ok && err == nil {
		ratio, perr := strconv.ParseFloat(v, 64)
		if perr != nil || !(ratio >= 0 && ratio <= 1) {
			err = fmt.Errorf("topic config min.cleanable.dirty.ratio=%q: want a number from 0 to 1", v)
		}
		c.compaction.DirtyRatio = ratio
	}
	if v, ok := get("cleanup.policy"); ok {
		policies := strings.Split(v, ",")
		c.deletes, c.compacts = slices.Contains(policies, "delete"), slices.Contains(policies, "compact")
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
	if lag := c.compaction.MaxLagMs; c.compacts && lag > 0 {
		// The active segment is never compacted: so it must not live longer.
		c.segmentMs = min(cmp.Or(c.segmentMs, 7*24*60*60*1000), lag)
	}
	return c, err
}

// unlessNever is 0 for the highest number, by which Kafka says never.
func unlessNever(n int64) int64 {
	if n == math.MaxInt64 {
		return 0
	}
	return n
}
