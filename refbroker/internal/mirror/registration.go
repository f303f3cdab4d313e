package mirror

import (
	"watershed.example/psm"
	"watershed.example/refbroker/internal/replica"
)

// outcome is why a fetcher gave a partition back to its driver.
type outcome struct {
	err error
	// diverged is set with the epoch and end offset where the source's log
	// parts from this one.
	diverged bool
	epoch    int32
	end      int64
	// unlisted: there is a barrier of which the source has not told who wrote it.
	unlisted bool
}

// registration is one partition that a fetcher fetches, in one session.
type registration struct {
	f       *fetcher
	topic   string
	id      [16]byte
	index   int32
	part    replica.API
	session uint64
	epoch   int32 // the source's leader epoch, -1 for unknown
	lineage *lineage
	// from is where a defect has it begin, above the log's end.
	from int64
	// seen is told the source's high watermark, or why there is none.
	seen func(highWatermark int64, err error)
	// waiting is told what an answer that is late is waited for.
	waiting func(error)
	out     chan outcome // holds one

	// gone and idle are guarded by the fetcher's mu. An idle one is not
	// fetched until its driver has dealt with its outcome.
	gone, idle bool
}

// remove ends the fetching of a partition, and with it the connection on which
// a response for it may be in flight. Those that stay are fetched over a new
// one.
func (r *registration) remove() {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.gone {
		return
	}
	r.gone = true
	for i, o := range f.regs {
		if o == r {
			f.regs = append(f.regs[:i:i], f.regs[i+1:]...)
			break
		}
	}
	if f.cancel != nil && !f.keepLate {
		f.cancel(errRemoved)
	}
}

// yield gives the partition back to its driver.
func (r *registration) yield(o outcome) {
	r.f.mu.Lock()
	r.idle = true
	r.f.mu.Unlock()
	select {
	case r.out <- o:
	default:
	}
}

// unlisted says whether raw holds a barrier that is not in the source's list as
// this session knows it: it came after that was asked for.
func (r *registration) unlisted(raw []byte) bool {
	if r.lineage == nil {
		return false
	}
	for len(raw) > 0 {
		b, err := psm.DecodeHeader(raw)
		if err != nil || b.Size > len(raw) {
			return false // for the log to refuse
		}
		if b.IsControl() {
			b, err = psm.DecodeBatch(raw)
			if err == nil && b.IsBarrier() && !r.lineage.lists(replica.Barrier{
				Offset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.Control.SourceClusterID,
			}) {
				return true
			}
		}
		raw = raw[b.Size:]
	}
	return false
}
