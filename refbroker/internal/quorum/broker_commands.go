package quorum

import (
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"
)

// RegisterBroker says that a broker's process has started and serves. A new
// incarnation begins a new leadership of what the broker led. The result is its
// *[Broker].
type RegisterBroker struct {
	ID          int32             `json:"id"`
	Incarnation string            `json:"incarnation"`
	Listeners   map[string]string `json:"listeners"`
	// Clean is set when the broker's last stop was clean. One that comes back
	// from an unclean stop may have lost acknowledged records: it leaves every
	// ISR that has another member (KIP-966).
	Clean bool `json:"clean"`
	// Profile is the one that the broker was started with; "" is [V42].
	Profile Profile `json:"profile,omitempty"`
}

// Kind names the command.
func (RegisterBroker) Kind() (string, int) { return "RegisterBroker", 1 }

func (c RegisterBroker) apply(img *Image) (*Image, any, error) {
	if c.ID < 0 {
		return nil, nil, fmt.Errorf("broker id %d: %w", c.ID, kerr.InvalidRequest)
	}
	profile, err := img.joins(c.ID, c.Profile)
	if err != nil {
		return nil, nil, err
	}
	old := img.Brokers[c.ID]
	b := &Broker{ID: c.ID, Incarnation: c.Incarnation, Listeners: maps.Clone(c.Listeners), Epoch: int64(img.Index) + 1}
	if old != nil && old.Incarnation == c.Incarnation {
		b.Epoch, b.Fenced = old.Epoch, old.Fenced
		return img.withBroker(b), b, nil
	}
	next := img.withBroker(b).editReplicas(c.ID, func(img *Image, t *Topic, p *Partition) bool {
		return p.restarted(c.ID, c.Clean, img.electionOf(t))
	})
	next.Profile = profile
	return next, b, nil
}

// Sync changes nothing: once it is applied here, all that was committed before
// it is.
type Sync struct{}

// Kind names the command.
func (Sync) Kind() (string, int) { return "Sync", 1 }

func (Sync) apply(img *Image) (*Image, any, error) { return img, nil, nil }

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
