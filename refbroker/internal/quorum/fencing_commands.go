package quorum

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// FenceBroker takes the leaderships of a broker away and takes it out of every
// ISR that has another member: the controller has not heard from it for the
// session timeout, or it is about to stop and hands over (controlled shutdown).
type FenceBroker struct {
	ID int32 `json:"id"`
	// Epoch is the broker's: a run that is over must not fence the next.
	Epoch int64 `json:"epoch"`
}

// Kind names the command.
func (FenceBroker) Kind() (string, int) { return "FenceBroker", 1 }

func (c FenceBroker) apply(img *Image) (*Image, any, error) {
	b, err := img.broker(c.ID, c.Epoch)
	if err != nil || b.Fenced {
		return img, nil, err
	}
	fenced := *b
	fenced.Fenced = true
	next := img.withBroker(&fenced).editReplicas(c.ID, func(img *Image, t *Topic, p *Partition) bool {
		return p.gone(c.ID, img.electionOf(t))
	})
	return next, nil, nil
}

// UnfenceBroker lets a broker lead again that the controller hears from.
type UnfenceBroker struct {
	ID    int32 `json:"id"`
	Epoch int64 `json:"epoch"`
}

// Kind names the command.
func (UnfenceBroker) Kind() (string, int) { return "UnfenceBroker", 1 }

func (c UnfenceBroker) apply(img *Image) (*Image, any, error) {
	b, err := img.broker(c.ID, c.Epoch)
	if err != nil || !b.Fenced {
		return img, nil, err
	}
	live := *b
	live.Fenced = false
	next := img.withBroker(&live).editReplicas(c.ID, func(img *Image, t *Topic, p *Partition) bool {
		return p.back(img.electionOf(t))
	})
	return next, nil, nil
}

// broker finds a broker of an epoch.
func (img *Image) broker(id int32, epoch int64) (*Broker, error) {
	b, ok := img.Brokers[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("broker %d: %w", id, kerr.BrokerIDNotRegistered)
	case b.Epoch != epoch:
		return nil, fmt.Errorf("broker %d: epoch %d, now %d: %w", id, epoch, b.Epoch, kerr.StaleBrokerEpoch)
	}
	return b, nil
}

// ElectLeader moves a partition's leadership to its preferred replica, the
// first, or with Unclean gives a partition without a leader any that lives. The
// result is the *[Partition].
type ElectLeader struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Unclean   bool   `json:"unclean,omitempty"`
}

// Kind names the command.
func (ElectLeader) Kind() (string, int) { return "ElectLeader", 1 }

func (c ElectLeader) apply(img *Image) (*Image, any, error) {
	next, p, err := img.editPartition(c.Topic, c.Partition, func(p *Partition) error {
		if c.Unclean {
			if p.Leader >= 0 {
				return fmt.Errorf("leader %d lives: %w", p.Leader, kerr.ElectionNotNeeded)
			}
			p.elect(election{live: img.live, unclean: true})
			if p.Leader < 0 {
				return fmt.Errorf("none of replicas %v lives: %w", p.Replicas, kerr.EligibleLeadersNotAvailable)
			}
			return nil
		}
		preferred := p.Replicas[0]
		switch {
		case p.Leader == preferred:
			return fmt.Errorf("leader is replica %d already: %w", preferred, kerr.ElectionNotNeeded)
		case !img.live(preferred) || !slices.Contains(p.ISR, preferred):
			return fmt.Errorf("replica %d is not in sync: %w", preferred, kerr.PreferredLeaderNotAvailable)
		}
		p.Leader = preferred
		p.LeaderEpoch++
		return nil
	})
	return next, p, err
}
