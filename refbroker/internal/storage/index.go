package storage

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"
)

// offsetEntry says that the batch that ends with offset base+rel lies at
// position pos of the segment's log file (Kafka's .index).
type offsetEntry struct{ rel, pos uint32 }

// timeEntry says that ts is the highest timestamp up to and with the batch
// that ends with offset base+rel (Kafka's .timeindex).
type timeEntry struct {
	ts  int64
	rel uint32
}

const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

func encodeOffsetIndex(entries []offsetEntry) []byte {
	out := make([]byte, 0, len(entries)*offsetEntrySize)
	for _, e := range entries {
		out = binary.BigEndian.AppendUint32(out, e.rel)
		out = binary.BigEndian.AppendUint32(out, e.pos)
	}
	return out
}

// decodeOffsetIndex reads an .index file of a segment whose log has logSize
// bytes. Preallocated zeros at its end, as Kafka's unclean stops leave them,
// are an error: the index is then made anew.
func decodeOffsetIndex(raw []byte, logSize int64) ([]offsetEntry, error) {
	if len(raw)%offsetEntrySize != 0 {
		return nil, fmt.Errorf("offset index: %d bytes are no whole entries", len(raw))
	}
	out := make([]offsetEntry, 0, len(raw)/offsetEntrySize)
	for ; len(raw) > 0; raw = raw[offsetEntrySize:] {
		e := offsetEntry{binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:])}
		if e.rel > math.MaxInt32 || int64(e.pos) >= logSize {
			return nil, fmt.Errorf("offset index: entry (%d, %d) is outside the log of %d bytes", e.rel, e.pos, logSize)
		}
		if n := len(out); n > 0 && (e.rel <= out[n-1].rel || e.pos <= out[n-1].pos) {
			return nil, fmt.Errorf("offset index: entry (%d, %d) does not rise", e.rel, e.pos)
		}
		out = append(out, e)
	}
	return out, nil
}

// positionFor is the position from which on to look for offset base+rel.
func positionFor(entries []offsetEntry, rel int64) int64 {
	i := sort.Search(len(entries), func(i int) bool { return int64(entries[i].rel) > rel })
	if i == 0 {
		return 0
	}
	return int64(entries[i-1].pos)
}

func encodeTimeIndex(entries []timeEntry) []byte {
	out := make([]byte, 0, len(entries)*timeEntrySize)
	for _, e := range entries {
		out = binary.BigEndian.AppendUint64(out, uint64(e.ts))
		out = binary.BigEndian.AppendUint32(out, e.rel)
	}
	return out
}

func decodeTimeIndex(raw []byte) ([]timeEntry, error) {
	if len(raw)%timeEntrySize != 0 {
		return nil, fmt.Errorf("time index: %d bytes are no whole entries", len(raw))
	}
	out := make([]timeEntry, 0, len(raw)/timeEntrySize)
	for ; len(raw) > 0; raw = raw[timeEntrySize:] {
		e := timeEntry{int64(binary.BigEndian.Uint64(raw)), binary.BigEndian.Uint32(raw[8:])}
		if n := len(out); e.rel > math.MaxInt32 || n > 0 && (e.ts <= out[n-1].ts || e.rel < out[n-1].rel) {
			return nil, fmt.Errorf("time index: entry (%d, %d) does not rise", e.ts, e.rel)
		}
		out = append(out, e)
	}
	return out, nil
}
