package quorum

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
)

// Profile is the text of KIP-1279 that a cluster follows. All of its nodes
// follow the same one, for good: what a replica makes of a log depends on it.
type Profile string

// The profiles. V42 is that of clusters from before there was a choice.
const (
	V42    Profile = "kip1279-v42"
	Latest Profile = "kip1279-latest"
)

// Profiles lists them, the default first.
func Profiles() []Profile { return []Profile{V42, Latest} }

// ParseProfile reads a profile's name.
func ParseProfile(name string) (Profile, error) {
	if p := Profile(name); slices.Contains(Profiles(), p) {
		return p, nil
	}
	return "", fmt.Errorf("profile %q: want one of %v", name, Profiles())
}

// CutsAtStop says whether a stop cuts the log to its last stable offset. The
// other text has it end with ABORT markers for what is open.
func (p Profile) CutsAtStop() bool { return p != Latest }

// AnyBarrierExpires says whether inherited barriers expire producers as own
// ones do.
func (p Profile) AnyBarrierExpires() bool { return p == Latest }

// joins refuses a broker that follows another text than the cluster.
func (img *Image) joins(id int32, p Profile) (Profile, error) {
	p = cmp.Or(p, V42)
	if now := cmp.Or(img.Profile, V42); len(img.Brokers) > 0 && p != now {
		return now, fmt.Errorf("the cluster follows profile %s, and node %d was started with %s: a cluster's profile can't be changed: %w", now, id, p, kerr.InvalidRequest)
	}
	return p, nil
}

// MoveBarrier moves the place of a stop's barrier that is not written yet
// (profile kip1279-latest): a leader that knows of more or fewer open
// transactions than the one that recorded the stop writes as many markers. A
// replica that came later does not know of one all of whose records lie below
// the log's start. It begins a new leader epoch, so that no replica takes the
// barrier before it knows of the new place.
type MoveBarrier struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	// Markers is how many ABORT markers lie between L and the barrier.
	Markers int64 `json:"markers"`
}

// Kind names the command.
func (MoveBarrier) Kind() (string, int) { return "MoveBarrier", 1 }

func (c MoveBarrier) apply(img *Image) (*Image, any, error) { return applyEdit(c, img) }

func (c MoveBarrier) edits(*Image) (string, int32, func(*Partition) error) {
	return c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		m := &p.Mirror
		n := len(m.Stops)
		if m.Current == nil || n == 0 || m.Stops[n-1] != m.Current.Stop() {
			return fmt.Errorf("move a barrier where no stop is under way: %w", kerr.InvalidUpdateVersion)
		}
		current := *m.Current
		current.Markers = c.Markers
		m.Current = &current
		m.Stops = append(slices.Clone(m.Stops[:n-1]), current.Stop())
		p.LeaderEpoch++
		return nil
	}
}

// Stop is the stop as replicas know it.
func (r *StopRecord) Stop() psm.Stop {
	return psm.Stop{L: r.L, BarrierOffset: r.L + r.Markers, Epoch: r.Epoch, SourceClusterID: r.SourceClusterID}
}
