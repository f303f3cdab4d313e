package torture

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"watershed.example/suite/wirelog"
)

// batchesOf reads the segments of a folder.
func batchesOf(files map[string][]byte) ([]wirelog.Batch, error) {
	var out []wirelog.Batch
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		for b, err := range wirelog.Segment(name, files[name]) {
			if err != nil {
				return out, err
			}
			if !b.CRCValid {
				return out, fmt.Errorf("%s at %d: batch at offset %d has a wrong checksum", name, b.Position, b.BaseOffset)
			}
			out = append(out, b)
		}
	}
	return out, nil
}

// sameBytes compares the replicas of a partition up to an offset, from the
// latest start of their logs on, batch by batch. It says where the first
// difference is.
func sameBytes(p partition, replicas [][]wirelog.Batch, upTo int64) error {
	start := int64(0)
	for _, r := range replicas {
		if len(r) > 0 {
			start = max(start, r[0].BaseOffset)
		}
	}
	within := make([][]wirelog.Batch, len(replicas))
	for i, r := range replicas {
		for _, b := range r {
			if b.LastOffset() >= start && b.BaseOffset < upTo {
				within[i] = append(within[i], b)
			}
		}
	}
	for node := 1; node < len(within); node++ {
		a, b := within[0], within[node]
		for i := range max(len(a), len(b)) {
			switch {
			case i >= len(a):
				return fmt.Errorf("%s: node %d has a batch that node 0 lacks: %s", p, node, about(b[i]))
			case i >= len(b):
				return fmt.Errorf("%s: node 0 has a batch that node %d lacks: %s", p, node, about(a[i]))
			case !bytes.Equal(a[i].Raw, b[i].Raw):
				at := 0
				for at < min(len(a[i].Raw), len(b[i].Raw)) && a[i].Raw[at] == b[i].Raw[at] {
					at++
				}
				return fmt.Errorf("%s: nodes 0 and %d differ at offset %d, byte %d of the batch: %s; %s", p, node, a[i].BaseOffset, at, about(a[i]), about(b[i]))
			}
		}
	}
	return nil
}

func about(b wirelog.Batch) string {
	names := ""
	if entries, err := entriesIn(&b); err == nil {
		names = " " + strings.Join(textsOf(entries), " ")
	}
	return fmt.Sprintf("[%d, %d] of leader epoch %d, producer %d/%d from sequence %d, crc %08x%s",
		b.BaseOffset, b.LastOffset(), b.LeaderEpoch, b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.CRC, names)
}
