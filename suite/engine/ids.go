package engine

import (
	"context"

	"watershed.example/suite/traffic"
)

const (
	// transactionalBase is the distance from the ids that were handed out to those
	// of the source's transactional producers. It leaves the ids between to the
	// destination's own first producers, so that the destination can still hand
	// these out after its stop.
	transactionalBase = 30

	// metIDs is how many ids from an episode's base on its collisions use up.
	metIDs = 10

	// pidBlock is how many producer ids a broker takes at a time; after a restart
	// it goes on with the next block.
	pidBlock = 1000
)

// producerIDs says where the clusters are in handing out producer ids, so that
// those of a source can be met on its destination.
type producerIDs struct {
	used map[string]bool  // by cluster: a producer asked there
	next map[string]int64 // by cluster: ids from here on nobody means to meet there
	met  map[string]int64 // by cluster: ids below were met there
}

func newProducerIDs() producerIDs {
	return producerIDs{used: map[string]bool{}, next: map[string]int64{}, met: map[string]int64{}}
}

// pass makes sure that the next producer of a cluster gets no id under which
// somebody else was forged there: it would be taken for that one.
func (ids producerIDs) pass(ctx context.Context, cluster string, raw *traffic.Raw) error {
	if !ids.used[cluster] {
		if err := raw.ClaimProducerIDs(ctx); err != nil {
			return err
		}
	}
	ids.used[cluster] = true
	if ids.met[cluster] == 0 {
		return nil
	}
	_, err := traffic.BurnProducerIDs(ctx, raw, ids.met[cluster])
	return err
}

// meet says that the episode's producers have been met on its destination.
func (ids producerIDs) meet(e *episode) {
	if e.base > 0 {
		ids.met[e.Mirror.To] = max(ids.met[e.Mirror.To], e.base+metIDs)
	}
}

// choose sets the first id that the episode's transactional producers are to have
// on the source: one that neither cluster has handed out, nor will have, when
// it is to be met on the destination, which restarts so often until then.
func (ids producerIDs) choose(ctx context.Context, e *episode, source *traffic.Raw, restarts int64) (int64, error) {
	next := max(ids.next[e.Mirror.From], ids.next[e.Mirror.To])
	ask := func(cluster string, raw *traffic.Raw) error {
		// A lone broker's first id is for an ordinary producer. Of several brokers
		// the issuer is to have the first block.
		if !ids.used[cluster] && e.story.nodes(cluster) == 1 && !e.story.outside() {
			return nil
		}
		id, _, err := raw.InitProducerID(ctx, "")
		next = max(next, id+1)
		return err
	}
	if err := ask(e.Mirror.From, source); err != nil {
		return 0, err
	}
	destination, err := traffic.NewRaw(ctx, e.rec, e.story.world.cluster(e.Mirror.To), prefix(e.Mirror.To, e.Number)+"ids")
	if err != nil {
		return 0, err
	}
	defer destination.Close()
	if err := ask(e.Mirror.To, destination); err != nil {
		return 0, err
	}
	if restarts > 0 && e.story.nodes(e.Mirror.To) == 1 {
		next = (next/pidBlock + restarts) * pidBlock
	}
	e.base = next + transactionalBase
	ids.next[e.Mirror.To] = e.base + metIDs
	return e.base, ids.pass(ctx, e.Mirror.From, source)
}
