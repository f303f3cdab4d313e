package metrics

import (
	"strconv"

	"watershed.example/refbroker/internal/quorum"
)

// states are those of a mirror partition, as labels.
var states = map[quorum.MirrorState]string{
	quorum.LogTruncation: "LOG_TRUNCATION", quorum.EpochFencing: "EPOCH_FENCING", quorum.Mirroring: "MIRRORING",
	quorum.Pausing: "PAUSING", quorum.Paused: "PAUSED", quorum.Stopping: "STOPPING", quorum.Stopped: "STOPPED",
	quorum.Failed: "FAILED", quorum.Unknown: "UNKNOWN",
}

func mirrorMetrics() []metric {
	of := []string{"mirror", "topic", "partition"}
	return []metric{
		gauge("refbroker_mirror_partitions", "Mirror partitions that this node leads, by state; each state is there for each mirror.", "mirror", "state"),
		gauge("refbroker_mirror_partition_state", "State of a mirror partition that this node leads, numbered as on the wire: 0 LOG_TRUNCATION, 1 EPOCH_FENCING, 2 MIRRORING, 3 PAUSING, 4 PAUSED, 5 STOPPING, 6 STOPPED, 7 FAILED, -1 UNKNOWN.", of...),
		gauge("refbroker_mirror_lag_records", "High watermark of the source less log end, of a partition that mirrors and that this node leads; there once the source has answered.", of...),
		gauge("refbroker_mirror_failed_attempts", "Tries since the last success, of a mirror partition that this node leads.", of...),
		histogram("refbroker_mirror_stop_seconds", "From a stop requested to STOPPED, the barrier appended and committed in between, as seen by this node, of partitions that it leads at the end."),
	}
}

func (p Parts) mirrors(s *sink) {
	img := p.Quorum.Image()
	counts := map[string]map[quorum.MirrorState]int{}
	for name := range img.Mirrors {
		counts[name] = map[quorum.MirrorState]int{}
	}
	for _, t := range img.Topics {
		if t.Mirror == "" {
			continue
		}
		for i, part := range t.Partitions {
			if part.Leader != p.Node {
				continue
			}
			if counts[t.Mirror] == nil {
				counts[t.Mirror] = map[quorum.MirrorState]int{}
			}
			counts[t.Mirror][part.Mirror.State]++
			of := []string{t.Mirror, t.Name, strconv.Itoa(i)}
			s.set("refbroker_mirror_partition_state", float64(part.Mirror.State), of...)
			p.mirrored(s, t, int32(i), part, of)
		}
	}
	for mirror, by := range counts {
		for state, label := range states {
			s.set("refbroker_mirror_partitions", float64(by[state]), mirror, label)
		}
	}
	if p.Watch != nil {
		count, sum, buckets := p.Watch.stops()
		s.histogram("refbroker_mirror_stop_seconds", count, sum, buckets)
	}
}

// mirrored tells what only the node that drives a partition knows of it.
func (p Parts) mirrored(s *sink, t *quorum.Topic, index int32, part *quorum.Partition, of []string) {
	status, ok := p.Mirrors.Status(t.Name, t.ID, index)
	if !ok {
		return
	}
	s.set("refbroker_mirror_failed_attempts", float64(status.Attempts), of...)
	local, ok := p.Replicas.Get(t.Name, index)
	if !ok || status.SourceHighWatermark < 0 || part.Mirror.State != quorum.Mirroring {
		return
	}
	// The source may have gone on since it was asked, and this log with it.
	s.set("refbroker_mirror_lag_records", float64(max(0, status.SourceHighWatermark-local.Offsets().LogEnd)), of...)
}
