package replica

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// ErrUncut says that a leader serves nothing yet, since its log still holds what a stop or
// an alignment has cut off. To clients it is NOT_LEADER_OR_FOLLOWER.
var ErrUncut = fmt.Errorf("the leader has yet to cut its log: %w", kerr.NotLeaderForPartition)

// Read implements [API].
func (p *Partition) Read(o ReadOptions) (ReadResult, error) {
	r, err := p.leading(o.CurrentLeaderEpoch)
	if err != nil {
		return ReadResult{}, err
	}
	if p.uncut(r) {
		return ReadResult{}, fmt.Errorf("%s, epoch %d: %w", p.Name(), r.epoch, ErrUncut)
	}
	res := ReadResult{DivergingEpoch: -1, DivergingEnd: -1}
	if o.LastFetchedEpoch >= 0 {
		if diverges, err := p.diverging(o, r.epoch, &res); err != nil || diverges {
			return res, err
		}
	}
	if o.ReplicaID >= 0 {
		m := p.log.Marks()
		if o.Offset >= m.LogStart && o.Offset <= m.LogEnd {
			if err := p.followed(o, r.epoch, m.LogEnd); err != nil {
				return ReadResult{}, err
			}
		}
	}
	m := p.log.Marks()
	if p.defects.Has(defect.UnstableRecordsShown) && o.ReplicaID < 0 {
		m.LastStable = m.HighWatermark
	}
	res.HighWatermark, res.LastStableOffset, res.LogStartOffset = m.HighWatermark, m.LastStable, m.LogStart
	upper := m.HighWatermark
	switch {
	case o.ReplicaID >= 0:
		upper = m.LogEnd
	case o.ReadCommitted:
		upper = m.LastStable
	}
	if o.Lend && o.ReplicaID < 0 && r.lends() {
		res.Section, err = p.log.Section(o.Offset, upper, o.MaxBytes, o.MinOne)
	}
	if err == nil && res.Section == nil {
		res.Raw, err = p.log.Read(o.Offset, upper, o.MaxBytes, o.MinOne)
	}
	if err != nil {
		return ReadResult{HighWatermark: m.HighWatermark, LastStableOffset: m.LastStable, LogStartOffset: m.LogStart, DivergingEpoch: -1, DivergingEnd: -1}, storageError(err)
	}
	if o.ReadCommitted && o.ReplicaID < 0 {
		end := endOf(o.Offset, res.Raw)
		if res.Section != nil {
			end = res.Section.Next()
		}
		res.Aborted = p.aborted(o.Offset, end)
	}
	return res, nil
}

// lends reports whether consumers may be sent the file's own pages. What they
// read is not cut, unless a mirror's stop or alignment does: then bytes that are
// on their way would change.
func (r *role) lends() bool { return !r.readOnly && !r.stopping && len(r.cuts) == 0 }

// uncut reports whether the log still holds what a quorum record of a stop
// or an alignment cut off: then the leader serves nothing in the new epoch
// before it has cut.
func (p *Partition) uncut(r role) bool {
	if r.cut == nil {
		return false
	}
	if m := p.log.Marks(); r.cut.anew {
		// Nothing is appended before the quorum knows that it is cut.
		return m.LogStart != r.cut.at || m.LogEnd != r.cut.at
	}
	_, end := p.log.EndOffsetForEpoch(r.cut.epoch - 1)
	if m := p.log.Marks(); m.Epoch < r.cut.epoch {
		end = m.LogEnd
	}
	return end > r.cut.at
}

// diverging compares the fetcher's last batch with this log. If they differ it
// fills in where (KIP-595).
func (p *Partition) diverging(o ReadOptions, leaderEpoch int32, res *ReadResult) (bool, error) {
	epoch, end := p.endOffsetForEpoch(o.LastFetchedEpoch, leaderEpoch)
	if epoch < 0 {
		return false, fmt.Errorf("%s: last fetched epoch %d is not known here: %w", p.Name(), o.LastFetchedEpoch, kerr.OffsetOutOfRange)
	}
	if epoch == o.LastFetchedEpoch && end >= o.Offset {
		return false, nil
	}
	m := p.log.Marks()
	res.HighWatermark, res.LastStableOffset, res.LogStartOffset = m.HighWatermark, m.LastStable, m.LogStart
	res.DivergingEpoch, res.DivergingEnd = epoch, end
	if !(o.ReadCommitted && o.ReplicaID < 0) {
		return true, nil
	}
	res.Aborted = []AbortedTxn{}
	return true, nil
}

// endOf is the offset behind the last whole batch of raw, which was read from
// offset.
func endOf(offset int64, raw []byte) int64 {
	for rest := raw; len(rest) > 0; {
		b, err := psm.DecodeHeader(rest)
		if err != nil || b.Size > len(rest) {
			break
		}
		offset = b.LastOffset + 1
		rest = rest[b.Size:]
	}
	return offset
}

// aborted lists the aborted transactions that a reader of [offset, end) has to
// know.
func (p *Partition) aborted(offset, end int64) []AbortedTxn {
	out := []AbortedTxn{}
	if end <= offset {
		return out
	}
	for _, a := range p.log.Aborted(nil, offset, end) {
		out = append(out, AbortedTxn{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
	}
	return out
}
