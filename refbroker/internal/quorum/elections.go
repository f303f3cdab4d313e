package quorum

import (
	"maps"
	"slices"
)

// live reports whether a broker can lead.
func (img *Image) live(id int32) bool {
	b, ok := img.Brokers[id]
	return ok && !b.Fenced
}

// election is who may lead a topic's partitions.
type election struct {
	live func(int32) bool
	// unclean lets a replica lead that is not in sync, where none that is lives
	// (unclean.leader.election.enable): acknowledged records are lost then.
	unclean bool
}

func (img *Image) electionOf(t *Topic) election {
	return election{live: img.live, unclean: t.Configs[configUnclean] == "true"}
}

const configUnclean = "unclean.leader.election.enable"

// elect gives p a leader: the first replica, in the order of preference, that
// is in sync and lives. Without one p has no leader. It begins a new leader
// epoch in any case.
func (p *Partition) elect(e election) {
	p.Leader = -1
	p.LeaderEpoch++
	for _, r := range p.Replicas {
		if slices.Contains(p.ISR, r) && e.live(r) {
			p.Leader = r
			return
		}
	}
	if !e.unclean {
		return
	}
	for _, r := range p.Replicas {
		if e.live(r) {
			p.Leader, p.ISR = r, []int32{r}
			return
		}
	}
}

// electable reports whether elect would find a leader.
func (p *Partition) electable(e election) bool {
	q := *p
	q.elect(e)
	return q.Leader >= 0
}

// leave takes a replica out of the ISR, unless it is the last member: what it
// holds is all that is known to be committed.
func (p *Partition) leave(id int32) bool {
	if len(p.ISR) < 2 || !slices.Contains(p.ISR, id) {
		return false
	}
	p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(r int32) bool { return r == id })
	return true
}

// restarted is p once broker id has a new incarnation. It says whether
// anything changed.
func (p *Partition) restarted(id int32, clean bool, e election) bool {
	changed := !clean && p.leave(id)
	if p.Leader == id || p.Leader < 0 && p.electable(e) {
		p.elect(e)
		return true
	}
	return changed
}

// gone is p once broker id was fenced.
func (p *Partition) gone(id int32, e election) bool {
	changed := p.leave(id)
	if p.Leader == id {
		p.elect(e)
		return true
	}
	return changed
}

// back is p once a broker was unfenced.
func (p *Partition) back(e election) bool {
	if p.Leader >= 0 || !p.electable(e) {
		return false
	}
	p.elect(e)
	return true
}

// editReplicas changes the partitions that have a replica on broker id, by
// edit, which says whether it did anything.
func (img *Image) editReplicas(id int32, edit func(*Image, *Topic, *Partition) bool) *Image {
	next := img
	for _, name := range slices.Sorted(maps.Keys(img.Topics)) {
		t := img.Topics[name]
		var edited []*Partition
		for i, p := range t.Partitions {
			if !slices.Contains(p.Replicas, id) {
				continue
			}
			q := *p
			if !edit(img, t, &q) {
				continue
			}
			q.reassigned(img.electionOf(t))
			q.PartitionEpoch++
			if edited == nil {
				edited = slices.Clone(t.Partitions)
			}
			edited[i] = &q
		}
		if edited == nil {
			continue
		}
		if next == img {
			next = img.clone()
			next.Topics = maps.Clone(img.Topics)
		}
		nt := *t
		nt.Partitions = edited
		next.Topics[name] = &nt
	}
	return next
}
