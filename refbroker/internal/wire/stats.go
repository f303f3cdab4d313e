package wire

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// Stats counts what a server does. It is read while it counts.
type Stats struct {
	// In and Out are bytes of whole requests and responses.
	In, Out atomic.Int64
	// Accepted counts connections that were served, Refused those that were
	// not, there being too many.
	Accepted, Refused atomic.Int64
	// Malformed counts requests that could not be read or are not served, Slow
	// those whose client took too long to send them or to take their response.
	// Each ended its connection.
	Malformed, Slow atomic.Int64
	apis            map[int16]*APIStats
}

// broken notes a request that was not read to its end.
func (s *Stats) broken(err error) {
	if timedOut(err) {
		s.Slow.Add(1)
		return
	}
	s.Malformed.Add(1)
}

func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// APIStats counts the requests of one API.
type APIStats struct {
	Name string
	// Served counts requests that were answered, Failed those whose handler
	// ended the connection.
	Served, Failed atomic.Int64
	// nanos is the time of all served requests.
	nanos atomic.Int64
	under [len(latencyBounds)]atomic.Int64
}

// latencyBounds are the upper ends of the buckets of request times: a request
// from a connection's buffer, a disk's sync, a long poll.
var latencyBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

func newStats(t *Table) *Stats {
	s := &Stats{apis: map[int16]*APIStats{}}
	for key, a := range t.apis {
		s.apis[key] = &APIStats{Name: a.Name}
	}
	return s
}

// served notes a request that took d.
func (a *APIStats) served(d time.Duration) {
	a.Served.Add(1)
	a.nanos.Add(int64(d))
	for i, bound := range latencyBounds {
		if d <= bound {
			a.under[i].Add(1)
			break
		}
	}
}

// Latency is a histogram of the times of the served requests: their number, the
// sum in seconds, and for each upper bound in seconds how many took no longer.
// A request counts from its last byte read to its last byte written.
func (a *APIStats) Latency() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(latencyBounds))
	var below uint64
	for i, bound := range latencyBounds {
		below += uint64(a.under[i].Load())
		buckets[bound.Seconds()] = below
	}
	// Read last, so that no bucket has more than the whole.
	return max(uint64(a.Served.Load()), below), time.Duration(a.nanos.Load()).Seconds(), buckets
}

// APIs are the counters of all served APIs.
func (s *Stats) APIs() []*APIStats {
	all := make([]*APIStats, 0, len(s.apis))
	for _, a := range s.apis {
		all = append(all, a)
	}
	return all
}

// Stats are the server's counters.
func (s *Server) Stats() *Stats { return s.stats }

// Connections is how many connections are open, and Queued how many bytes of
// requests are held in memory beyond what is free to each.
func (s *Server) Connections() (open int, queued int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns), s.cfg.MaxQueued - s.memory.left()
}
