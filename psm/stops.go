package psm

import "slices"

// Stop is one stop of mirroring on a partition: where it cut, where its
// barrier lies, and in which leader epoch. A barrier is a partition's own iff
// a stop has its offset and source cluster id, and the barrier's leader epoch
// is at or above the stop's.
type Stop struct {
	// L is the first offset that the cluster itself wrote.
	L int64
	// BarrierOffset is where the barrier lies: L, or behind the ABORT
	// markers that begin at L (profile kip1279-latest).
	BarrierOffset   int64
	Epoch           int32
	SourceClusterID string
}

// CutStops gives the stops that a truncation to offset leaves: those below.
func CutStops(stops []Stop, offset int64) []Stop {
	return slices.DeleteFunc(slices.Clone(stops), func(s Stop) bool { return s.BarrierOffset >= offset })
}

// owns says whether b, a barrier, is one of stops'.
func owns(stops []Stop, b *Batch) bool {
	for i := range stops {
		s := &stops[i]
		if s.BarrierOffset == b.BaseOffset && b.LeaderEpoch >= s.Epoch && s.SourceClusterID == b.Control.SourceClusterID {
			return true
		}
	}
	return false
}
