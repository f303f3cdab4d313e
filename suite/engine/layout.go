package engine

import (
	"fmt"

	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// layout says what each partition of the mirrored topics is for.
type layout struct {
	// All partitions of all mirrored topics.
	All []traffic.Partition
	// Written partitions get the source's traffic; the others stay empty until
	// the destination is promoted: they need a barrier too.
	Written []traffic.Partition
	// Mixed partitions, all written ones but one, get idempotent and transactional
	// records once the destination is promoted. That one gets plain records only,
	// so that its producer state stays as empty as the barrier made it (PSM-9).
	Mixed []traffic.Partition
	// Spanned partitions hold the transaction that is open at STOPPING.
	Spanned []traffic.Partition
	// Probed partitions are written to all through the read-only window.
	Probed []traffic.Partition
	// Forge is where the forged batches meet mirrored ones. It is not spanned:
	// what they meet must survive the truncation.
	Forge traffic.Partition
}

// layOut gives the partitions of a mirror's topics their parts: the open
// transaction spans the first topic that is written, forged batches go to the
// next one.
func layOut(t topologies.Topology, m topologies.Mirror) (layout, error) {
	var l layout
	var written int
	for _, name := range m.Topics {
		topic, ok := t.Topic(name)
		if !ok {
			return l, fmt.Errorf("mirror %s: topology %s has no topic %q", m.Name, t.Name, name)
		}
		for n := range topic.Partitions {
			p := traffic.Partition{Topic: name, Index: int32(n)}
			l.All = append(l.All, p)
			switch {
			case topic.Empty:
				continue
			case written == 0:
				l.Spanned = append(l.Spanned, p)
			case written == 1 && n == 0:
				l.Forge = p
			}
			l.Written = append(l.Written, p)
		}
		if !topic.Empty {
			written++
		}
	}
	if written < 2 || written == len(m.Topics) {
		return l, fmt.Errorf("mirror %s: a run needs two topics that are written and one that stays empty", m.Name)
	}
	if len(l.Spanned) < 2 || l.Written[len(l.Written)-1] == l.Forge {
		return l, fmt.Errorf("mirror %s: the topics that are written need two partitions each", m.Name)
	}
	l.Mixed = l.Written[:len(l.Written)-1]
	// One partition that is cut and the one where the forgeries go; the others
	// keep the barrier as their last batch until the promoted traffic starts.
	l.Probed = []traffic.Partition{l.Spanned[0], l.Forge}
	return l, nil
}
