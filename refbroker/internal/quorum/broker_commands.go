package quorum

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// RegisterBroker says that a broker's process has started and serves. A new
// incarnation begins a new leadership of what the broker led.
type RegisterBroker struct {
	ID          int32             `json:"id"`
	Incarnation string            `json:"incarnation"`
	Listeners   map[string]string `json:"listeners"`
	// Clean is set when the broker's last stop was clean. One that comes back
	// from an unclean stop may have lost acknowledged records: it leaves every
	// ISR that has another member (KIP-966).
	Clean bool `json:"clean"`
}

// Kind names the command.
func (RegisterBroker) Kind() (string, int) { return "RegisterBroker", 1 }

func (c RegisterBroker) apply(img *Image) (*Image, any, error) {
	if c.ID < 0 {
		return nil, nil, fmt.Errorf("broker id %d: %w", c.ID, kerr.InvalidRequest)
	}
	old := img.Brokers[c.ID]
	next := img.withBroker(&Broker{ID: c.ID, Incarnation: c.Incarnation, Listeners: maps.Clone(c.Listeners)})
	if old != nil && old.Incarnation == c.Incarnation {
		return next, nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(img.Topics)) {
		for i, p := range img.Topics[name].Partitions {
			if !slices.Contains(p.Replicas, c.ID) {
				continue
			}
			q, changed := p.afterRestart(c.ID, c.Clean, next.live)
			if !changed {
				continue
			}
			var err error
			if next, _, err = next.editPartition(name, int32(i), func(e *Partition) error { *e = q; return nil }); err != nil {
				return nil, nil, err
			}
		}
	}
	return next, nil, nil
}

// live reports whether a broker can lead.
func (img *Image) live(id int32) bool {
	b, ok := img.Brokers[id]
	return ok && !b.Fenced
}

// afterRestart is p once broker id has a new incarnation.
func (p *Partition) afterRestart(id int32, clean bool, live func(int32) bool) (Partition, bool) {
	q := *p
	if !clean && len(p.ISR) > 1 && slices.Contains(p.ISR, id) {
		q.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(r int32) bool { return r == id })
	}
	switch {
	case p.Leader == id || p.Leader < 0:
		q.Leader = -1
		for _, r := range q.Replicas {
			if slices.Contains(q.ISR, r) && live(r) {
				q.Leader = r
				break
			}
		}
		if p.Leader == id || q.Leader >= 0 {
			q.LeaderEpoch++
			return q, true
		}
	}
	return q, len(q.ISR) != len(p.ISR)
}

// ProducerIDBlockSize is how many producer ids a broker gets at a time, as in
// Kafka.
const ProducerIDBlockSize = 1000

// ProducerIDBlock is the result of [AllocateProducerIDs].
type ProducerIDBlock struct {
	First int64
	Size  int32
}

// AllocateProducerIDs gives the next block of producer ids to a broker. The
// first block of a cluster starts at 0, as in Kafka, so that ids collide
// across clusters by themselves. The result is a [ProducerIDBlock].
type AllocateProducerIDs struct {
	Broker int32 `json:"broker"`
}

// Kind names the command.
func (AllocateProducerIDs) Kind() (string, int) { return "AllocateProducerIDs", 1 }

func (c AllocateProducerIDs) apply(img *Image) (*Image, any, error) {
	if _, ok := img.Brokers[c.Broker]; !ok {
		return nil, nil, fmt.Errorf("producer ids for broker %d: %w", c.Broker, kerr.BrokerIDNotRegistered)
	}
	next := img.clone()
	next.NextProducerID += ProducerIDBlockSize
	return next, ProducerIDBlock{First: img.NextProducerID, Size: ProducerIDBlockSize}, nil
}
