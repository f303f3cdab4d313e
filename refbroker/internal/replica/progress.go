package replica

import (
	"slices"
	"time"
)

// progress is what a leader knows of the other replicas in one leader epoch.
// It is pure: times are given, and compared with each other only.
type progress struct {
	self int32
	// since is the log's end when this leadership began: what a replica has up
	// to there may still have to be truncated, so only beyond it is it in sync.
	since int64
	by    map[int32]follower
}

// follower is one other replica.
type follower struct {
	// end is the log end that it fetched from, -1 while it has not fetched in
	// this leader epoch.
	end int64
	// epoch is that of the broker's run that fetched, -1 for unknown.
	epoch int64
	// caughtUp is when it last had all that the leader had.
	caughtUp time.Time
	// fetched is when it fetched last, and leaderEnd the leader's log end then.
	fetched   time.Time
	leaderEnd int64
	// start is where its log begins.
	start int64
}

// begin starts a leadership. Members of the ISR have the whole lag time to show
// themselves.
func begin(self int32, isr []int32, end int64, now time.Time) progress {
	p := progress{self: self, since: end, by: map[int32]follower{}}
	for _, id := range isr {
		if id != self {
			p.by[id] = follower{end: -1, epoch: -1, caughtUp: now}
		}
	}
	return p
}

// cut forgets the followers' ends: the log was truncated to end, and what they
// have may lie above it.
func (p *progress) cut(end int64, now time.Time) {
	p.since = min(p.since, end)
	for id, f := range p.by {
		p.by[id] = follower{end: -1, epoch: f.epoch, caughtUp: now}
	}
}

// fetch notes that a replica fetches from offset at, which means that it has
// all below it. A follower that fetches in one go all that there is, again and
// again, is caught up though more is appended meanwhile (KAFKA-1546).
func (p *progress) fetch(id int32, epoch, at, leaderEnd int64, now time.Time) {
	f, ok := p.by[id]
	if ok && epoch >= 0 && f.epoch > epoch {
		return // a request of a run that is over came late
	}
	switch {
	case at >= leaderEnd:
		f.caughtUp = now
	case !f.fetched.IsZero() && at >= f.leaderEnd && f.fetched.After(f.caughtUp):
		f.caughtUp = f.fetched
	}
	f.end, f.epoch, f.fetched, f.leaderEnd = at, epoch, now, leaderEnd
	p.by[id] = f
}

// begins notes where a replica's log begins, and says whether that is news.
func (p *progress) begins(id int32, start int64) bool {
	f, ok := p.by[id]
	if !ok || f.start == start {
		return false
	}
	f.start = start
	p.by[id] = f
	return true
}

// lowWatermark is the lowest start of the replicas that live, -1 while one is
// not known.
func (p *progress) lowWatermark(replicas []int32, own int64, may eligible) int64 {
	low := own
	for _, id := range replicas {
		if id == p.self || !may(id, -1) {
			continue
		}
		f, ok := p.by[id]
		if !ok || f.end < 0 {
			return -1
		}
		low = min(low, f.start)
	}
	return low
}

// known is a replica's log end; ok is false while it is not known.
func (p *progress) known(id int32) (end int64, ok bool) {
	f, ok := p.by[id]
	return f.end, ok && f.end >= 0
}

// behind reports whether a replica has lacked something for longer than lag.
func (p *progress) behind(id int32, leaderEnd int64, now time.Time, lag time.Duration) bool {
	f := p.by[id]
	return f.end != leaderEnd && now.Sub(f.caughtUp) > lag
}

// eligible says whether a broker may be in an ISR, by its id and the epoch of
// the run that fetched, -1 for unknown.
type eligible func(id int32, epoch int64) bool

// joins reports whether a replica that is in no ISR may join it: it has all
// that is committed, and all that the leader had when its epoch began.
func (p *progress) joins(id int32, high int64, may eligible) bool {
	end, ok := p.known(id)
	return ok && end >= high && end >= p.since && may(id, p.by[id].epoch)
}

// highWatermark is the offset below which every member of isr is known to hold
// all, -1 while one is not known. The ISR is the committed one and those that
// were proposed: any of them may be in force. Replicas that are about to join
// hold it back too, or a busy leader would run away from them for ever.
func (p *progress) highWatermark(isr []int32, end int64, now time.Time, lag time.Duration, may eligible) int64 {
	high := end
	for _, id := range isr {
		if id == p.self {
			continue
		}
		e, ok := p.known(id)
		if !ok {
			return -1
		}
		high = min(high, e)
	}
	for id, f := range p.by {
		if f.end < p.since || f.fetched.IsZero() || slices.Contains(isr, id) {
			continue
		}
		if !p.behind(id, end, now, lag) && may(id, f.epoch) {
			high = min(high, f.end)
		}
	}
	return high
}

// wanted is the ISR as it should be: without those that are behind, with those
// that may join. The leader always stays.
func (p *progress) wanted(replicas, isr []int32, end, high int64, now time.Time, lag time.Duration, may eligible) []int32 {
	var next []int32
	for _, id := range replicas {
		in := slices.Contains(isr, id)
		switch {
		case id == p.self:
			next = append(next, id)
		case in && !p.behind(id, end, now, lag), !in && p.joins(id, high, may):
			next = append(next, id)
		}
	}
	return next
}
