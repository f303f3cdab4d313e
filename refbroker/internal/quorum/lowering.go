package quorum

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// OffsetsTopic is the internal topic of the group coordinator; each of its
// partitions is a shard of it.
const OffsetsTopic = "__consumer_offsets"

// Lowering is what the cut of a log makes of the commits of groups: those above
// To become To, or a group that resumes here would skip what is written there
// (GRP-1). Each shard of the group coordinator does that to its own groups.
type Lowering struct {
	To int64
	// Number is the index of the record that cut the log. A shard that has done
	// one of a number has done all below it.
	Number uint64
}

// owe notes that commits above an offset are to be lowered to it by every
// shard. What all shards have done is forgotten.
func (img *Image) owe(m *MirrorPartition, to int64) {
	t := img.Topics[OffsetsTopic]
	if t == nil {
		return // nobody has ever committed
	}
	done := img.Lowered[0]
	for shard := range t.Partitions {
		done = min(done, img.Lowered[int32(shard)])
	}
	m.Lowerings = append(slices.DeleteFunc(slices.Clone(m.Lowerings), func(l Lowering) bool {
		return l.Number <= done || l.To >= to
	}), Lowering{To: to, Number: img.Index + 1})
}

// Owed says to what a shard has yet to lower the commits on a partition.
func (img *Image) Owed(shard int32, p *Partition) (to int64, owed bool) {
	for _, l := range p.Mirror.Lowerings {
		if l.Number > img.Lowered[shard] && (!owed || l.To < to) {
			to, owed = l.To, true
		}
	}
	return to, owed
}

// Owing lists the shards that have yet to lower commits on a partition.
func (img *Image) Owing(p *Partition) []int32 {
	t := img.Topics[OffsetsTopic]
	if t == nil {
		return nil
	}
	var shards []int32
	for i := range t.Partitions {
		if _, owed := img.Owed(int32(i), p); owed {
			shards = append(shards, int32(i))
		}
	}
	return shards
}

// LowerGroups records that a shard of the group coordinator has done every
// lowering up to Through. It is conditional on the shard's leader epoch: who
// leads it no longer does not know what was committed since.
type LowerGroups struct {
	Shard       int32  `json:"shard"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	Through     uint64 `json:"through"`
}

// Kind names the command.
func (LowerGroups) Kind() (string, int) { return "LowerGroups", 1 }

func (c LowerGroups) apply(img *Image) (*Image, any, error) {
	_, p, err := img.Partition(OffsetsTopic, c.Shard)
	if err != nil {
		return nil, nil, err
	}
	if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
		return nil, nil, fmt.Errorf("shard %d of the group coordinator: %w", c.Shard, err)
	}
	if c.Through > img.Index {
		return nil, nil, fmt.Errorf("lowerings up to %d, of %d records: %w", c.Through, img.Index, kerr.InvalidRequest)
	}
	if c.Through <= img.Lowered[c.Shard] {
		return img, nil, nil
	}
	next := img.clone()
	next.Lowered = maps.Clone(img.Lowered)
	if next.Lowered == nil {
		next.Lowered = map[int32]uint64{}
	}
	next.Lowered[c.Shard] = c.Through
	return next, nil, nil
}
