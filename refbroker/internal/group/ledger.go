package group

import (
	"cmp"
	"maps"
	"slices"
)

// Partition names a partition that offsets are committed for.
type Partition struct {
	Topic string
	Index int32
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// Commit is one committed offset.
type Commit struct {
	Offset      int64
	LeaderEpoch int32
	Metadata    string
	// At is when it was committed, in ms.
	At int64
	// ExpiresAt is when a client of old wanted it to be forgotten; -1 when it
	// left that to the broker.
	ExpiresAt int64
	// TopicID tells a topic from another of its name; zero when not known.
	TopicID [16]byte
	// Record is where the commit lies in the coordinator's log.
	Record int64
}

// Ledger is the committed offsets of one group, and those that open
// transactions hold back. It is what the log says, and changes only by the log
// being replayed.
type Ledger struct {
	commits map[Partition]Commit
	pending map[int64]map[Partition]Commit // by producer id
}

// NewLedger returns a ledger without offsets.
func NewLedger() *Ledger {
	return &Ledger{commits: map[Partition]Commit{}, pending: map[int64]map[Partition]Commit{}}
}

// Commit is a commit's record. In a transaction (producer >= 0) it waits for
// the transaction's end.
func (l *Ledger) Commit(producer int64, p Partition, c Commit) {
	if producer < 0 {
		l.commits[p] = c
		return
	}
	if l.pending[producer] == nil {
		l.pending[producer] = map[Partition]Commit{}
	}
	l.pending[producer][p] = c
}

// Delete is a tombstone: it takes pending offsets too.
func (l *Ledger) Delete(p Partition) {
	delete(l.commits, p)
	for producer, offsets := range l.pending {
		delete(offsets, p)
		if len(offsets) == 0 {
			delete(l.pending, producer)
		}
	}
}

// End is a transaction's marker. A commit that was written after the
// transaction's stays: so does compaction keep it.
func (l *Ledger) End(producer int64, commit bool) {
	for p, c := range l.pending[producer] {
		if was, ok := l.commits[p]; commit && (!ok || was.Record < c.Record) {
			l.commits[p] = c
		}
	}
	delete(l.pending, producer)
}

// Lookup returns the committed offset of a partition. It is unstable while a
// transaction may yet change it (KIP-447).
func (l *Ledger) Lookup(p Partition) (c Commit, ok, unstable bool) {
	c, ok = l.commits[p]
	for _, offsets := range l.pending {
		if _, there := offsets[p]; there {
			return c, ok, true
		}
	}
	return c, ok, false
}

// Partitions lists all that have a committed offset.
func (l *Ledger) Partitions() []Partition {
	return slices.SortedFunc(maps.Keys(l.commits), comparePartitions)
}

// All lists all that have a committed or a pending offset.
func (l *Ledger) All() []Partition {
	all := map[Partition]bool{}
	for p := range l.commits {
		all[p] = true
	}
	for _, offsets := range l.pending {
		for p := range offsets {
			all[p] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), comparePartitions)
}

// Unused reports that there is nothing in it.
func (l *Ledger) Unused() bool { return len(l.commits) == 0 && len(l.pending) == 0 }

// Producers lists those whose transactions hold offsets back.
func (l *Ledger) Producers() []int64 { return slices.Sorted(maps.Keys(l.pending)) }

// Expired lists the committed offsets whose time is over at now (ms), with
// each kept for retention (ms): counted from when the group became empty, or
// from the commit if it has members, or never had any, and nobody in it
// consumes the topic (KIP-211).
func (l *Ledger) Expired(g *Group, now, retention int64) []Partition {
	var gone []Partition
	for _, p := range l.Partitions() {
		c, _, unstable := l.Lookup(p)
		from := c.At
		switch {
		case unstable, g.State == Dead:
			continue
		case g.State != Empty && (g.ProtocolType != consumerType || g.Subscribes(p.Topic)):
			continue
		case g.State == Empty && g.Used() && g.Since >= 0:
			from = max(from, g.Since)
		}
		over := now-from >= retention
		if c.ExpiresAt >= 0 {
			over = now >= c.ExpiresAt
		}
		if over {
			gone = append(gone, p)
		}
	}
	return gone
}
