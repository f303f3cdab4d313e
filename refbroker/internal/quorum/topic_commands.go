package quorum

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// CreateTopic makes a topic. The result is its *[Topic].
type CreateTopic struct {
	Name string `json:"name"`
	// ID is the topic's id, chosen by the proposer: random, or the source's for
	// a mirrored topic.
	ID       [16]byte `json:"id"`
	Internal bool     `json:"internal,omitempty"`
	// Assignment lists each partition's replicas; the first is the preferred
	// leader.
	Assignment [][]int32         `json:"assignment"`
	Configs    map[string]string `json:"configs,omitempty"`
}

// Kind names the command.
func (CreateTopic) Kind() (string, int) { return "CreateTopic", 1 }

func (c CreateTopic) apply(img *Image) (*Image, any, error) {
	if err := ValidTopicName(c.Name); err != nil {
		return nil, nil, err
	}
	if _, ok := img.Topics[c.Name]; ok {
		return nil, nil, fmt.Errorf("topic %q: %w", c.Name, kerr.TopicAlreadyExists)
	}
	if c.ID == ([16]byte{}) {
		return nil, nil, fmt.Errorf("topic %q without an id: %w", c.Name, kerr.InvalidRequest)
	}
	if t, err := img.TopicByID(c.ID); err == nil {
		return nil, nil, fmt.Errorf("topic %q: id %x is that of topic %q: %w", c.Name, c.ID, t.Name, kerr.TopicAlreadyExists)
	}
	if len(c.Assignment) == 0 {
		return nil, nil, fmt.Errorf("topic %q with no partition: %w", c.Name, kerr.InvalidPartitions)
	}
	t := &Topic{Name: c.Name, ID: c.ID, Internal: c.Internal, Configs: maps.Clone(c.Configs), Desired: Unknown}
	for i, replicas := range c.Assignment {
		p, err := img.newPartition(c.Name, i, replicas)
		if err != nil {
			return nil, nil, err
		}
		t.Partitions = append(t.Partitions, p)
	}
	return img.withTopic(t), t, nil
}

// newPartition is partition i of a topic, led by the first of its replicas that
// is alive.
func (img *Image) newPartition(topic string, i int, replicas []int32) (*Partition, error) {
	if len(replicas) == 0 {
		return nil, fmt.Errorf("partition %s-%d with no replica: %w", topic, i, kerr.InvalidReplicaAssignment)
	}
	p := &Partition{
		Replicas: slices.Clone(replicas), Leader: -1,
		Mirror: MirrorPartition{State: Unknown, LastMirroredOffset: -1, LastMirroredEpoch: -1, Begun: img.Index + 1},
	}
	for j, r := range replicas {
		if _, ok := img.Brokers[r]; !ok || slices.Contains(replicas[:j], r) {
			return nil, fmt.Errorf("partition %s-%d: replicas %v: %w", topic, i, replicas, kerr.InvalidReplicaAssignment)
		}
		if img.live(r) {
			p.ISR = append(p.ISR, r)
		}
	}
	if len(p.ISR) == 0 {
		return nil, fmt.Errorf("partition %s-%d: none of replicas %v is alive: %w", topic, i, replicas, kerr.InvalidReplicaAssignment)
	}
	p.Leader = p.ISR[0]
	return p, nil
}

// ValidTopicName refuses a name that Kafka refuses: it must be 1 to 249
// characters of [a-zA-Z0-9._-] and neither "." nor "..".
func ValidTopicName(name string) error {
	ok := len(name) > 0 && len(name) <= 249 && name != "." && name != ".."
	for _, r := range []byte(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		default:
			ok = false
		}
	}
	if !ok {
		return fmt.Errorf("topic name %q (want 1 to 249 letters, digits, '.', '_', '-'): %w", name, kerr.InvalidTopicException)
	}
	return nil
}

// DeleteTopic removes a topic; ID guards against removing another one of the
// same name. One that mirrors, or is being stopped, is refused: its log is the
// source's (RO-3), and a stop would lose what it promised.
type DeleteTopic struct {
	Name string   `json:"name"`
	ID   [16]byte `json:"id"`
}

// Kind names the command.
func (DeleteTopic) Kind() (string, int) { return "DeleteTopic", 1 }

func (c DeleteTopic) apply(img *Image) (*Image, any, error) {
	t, err := img.Topic(c.Name)
	if err != nil {
		return nil, nil, err
	}
	if t.ID != c.ID {
		return nil, nil, fmt.Errorf("topic %q has id %x, not %x: %w", c.Name, t.ID, c.ID, kerr.UnknownTopicID)
	}
	for i, p := range t.Partitions {
		if t.Mirror != "" && p.Mirror.State != Stopped {
			return nil, nil, fmt.Errorf("topic %q: partition %d of mirror %q is %s; stop the mirror first: %w", c.Name, i, t.Mirror, p.Mirror.State, ErrReadOnlyTopic)
		}
	}
	next := img.clone()
	next.Topics = maps.Clone(img.Topics)
	delete(next.Topics, c.Name)
	return next, nil, nil
}

// AlterPartition gives a partition a leader and an ISR. It is conditional on
// both epochs. A change of leader begins a new leader epoch.
type AlterPartition struct {
	Topic          string  `json:"topic"`
	Partition      int32   `json:"partition"`
	LeaderEpoch    int32   `json:"leaderEpoch"`
	PartitionEpoch int32   `json:"partitionEpoch"`
	Leader         int32   `json:"leader"`
	ISR            []int32 `json:"isr"`
	// BrokerEpochs of ISR members, where the leader knows them: one that has
	// started anew since may have lost what it was known to have (KIP-903).
	BrokerEpochs map[int32]int64 `json:"brokerEpochs,omitempty"`
}

// Kind names the command.
func (AlterPartition) Kind() (string, int) { return "AlterPartition", 1 }

func (c AlterPartition) apply(img *Image) (*Image, any, error) {
	next, p, err := img.editPartition(c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		if c.PartitionEpoch != p.PartitionEpoch {
			return fmt.Errorf("partition epoch %d, now %d: %w", c.PartitionEpoch, p.PartitionEpoch, kerr.InvalidUpdateVersion)
		}
		for _, r := range c.ISR {
			if !slices.Contains(p.Replicas, r) {
				return fmt.Errorf("isr %v of replicas %v: %w", c.ISR, p.Replicas, kerr.InvalidRequest)
			}
			if !img.live(r) {
				return fmt.Errorf("isr %v: broker %d is fenced: %w", c.ISR, r, kerr.IneligibleReplica)
			}
			if epoch, ok := c.BrokerEpochs[r]; ok && epoch != img.Brokers[r].Epoch {
				return fmt.Errorf("isr %v: broker %d of epoch %d, now %d: %w", c.ISR, r, epoch, img.Brokers[r].Epoch, kerr.IneligibleReplica)
			}
		}
		if len(c.ISR) == 0 || c.Leader >= 0 && !slices.Contains(c.ISR, c.Leader) {
			return fmt.Errorf("leader %d with isr %v: %w", c.Leader, c.ISR, kerr.InvalidRequest)
		}
		if c.Leader != p.Leader {
			p.Leader = c.Leader
			p.LeaderEpoch++
		}
		p.ISR = slices.Clone(c.ISR)
		return nil
	})
	return next, p, err
}

// RaiseLeaderEpoch brings the leader epochs of partitions to at least Min each,
// so that a leader epoch in a mirrored log is never above its partition's
// (LOG-5). A partition that is there already is left alone; one unknown
// partition refuses all.
type RaiseLeaderEpoch struct {
	Partitions []MinLeaderEpoch `json:"partitions"`
}

// MinLeaderEpoch is one partition of [RaiseLeaderEpoch].
type MinLeaderEpoch struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Min       int32  `json:"min"`
}

// Kind names the command.
func (RaiseLeaderEpoch) Kind() (string, int) { return "RaiseLeaderEpoch", 1 }

func (c RaiseLeaderEpoch) apply(img *Image) (*Image, any, error) {
	next := img
	for _, m := range c.Partitions {
		_, p, err := next.Partition(m.Topic, m.Partition)
		if err != nil {
			return nil, nil, err
		}
		if p.LeaderEpoch >= m.Min {
			continue
		}
		next, _, err = next.editPartition(m.Topic, m.Partition, func(p *Partition) error {
			p.LeaderEpoch = m.Min
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return next, nil, nil
}
