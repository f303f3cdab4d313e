package broker

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/wire"
)

// DescribeLogDirs (key 35), versions 1 to 5: one folder, with the sizes of its
// logs. Its error is KAFKA_STORAGE_ERROR when a log in it is offline. How large the
// volume is, from 4 on, is not known (-1); it is never cordoned (from 5 on).
func describeLogDirs(replicas *replica.Manager) wire.API {
	return wire.Of("DescribeLogDirs", 1, 5, func(_ context.Context, req *wire.Request, r *kmsg.DescribeLogDirsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrDescribeLogDirsResponse()
		resp.Version = req.Version
		var wanted map[string][]int32 // nil for all
		if r.Topics != nil {
			wanted = map[string][]int32{}
			for _, t := range r.Topics {
				wanted[t.Topic] = append(wanted[t.Topic], t.Partitions...)
			}
		}
		dir := kmsg.NewDescribeLogDirsResponseDir()
		topics := map[string]*kmsg.DescribeLogDirsResponseDirTopic{}
		for _, p := range replicas.All() {
			if wanted != nil && !slices.Contains(wanted[p.Topic()], p.Index()) {
				continue
			}
			if p.Failure() != nil {
				dir.ErrorCode = kerr.KafkaStorageError.Code
			}
			t, ok := topics[p.Topic()]
			if !ok {
				made := kmsg.NewDescribeLogDirsResponseDirTopic()
				made.Topic = p.Topic()
				t = &made
				topics[p.Topic()] = t
			}
			out := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			o := p.Offsets()
			out.Partition, out.Size, out.OffsetLag = p.Index(), p.Size(), max(o.HighWatermark-o.LogEnd, 0)
			t.Partitions = append(t.Partitions, out)
		}
		dir.Dir, dir.TotalBytes, dir.UsableBytes = replicas.Dir(), -1, -1
		for _, name := range slices.Sorted(maps.Keys(topics)) {
			dir.Topics = append(dir.Topics, *topics[name])
		}
		resp.Dirs = append(resp.Dirs, dir)
		return resp, nil
	})
}
