package quorum

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// NewImage is the empty metadata of a cluster.
func NewImage(clusterID string) *Image {
	return &Image{
		ClusterID: clusterID,
		Brokers:   map[int32]*Broker{},
		Topics:    map[string]*Topic{},
		Mirrors:   map[string]*Mirror{},
	}
}

// Topic finds a topic by name.
func (img *Image) Topic(name string) (*Topic, error) {
	t, ok := img.Topics[name]
	if !ok {
		return nil, fmt.Errorf("topic %q: %w", name, kerr.UnknownTopicOrPartition)
	}
	return t, nil
}

// TopicByID finds a topic by its id.
func (img *Image) TopicByID(id [16]byte) (*Topic, error) {
	// A cluster has few topics beside what a request costs; a second map would
	// have to be kept by every command.
	for _, t := range img.Topics {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, fmt.Errorf("topic id %x: %w", id, kerr.UnknownTopicID)
}

// Partition finds a partition.
func (img *Image) Partition(topic string, index int32) (*Topic, *Partition, error) {
	t, err := img.Topic(topic)
	if err != nil {
		return nil, nil, err
	}
	if index < 0 || int(index) >= len(t.Partitions) {
		return nil, nil, fmt.Errorf("partition %s-%d of %d: %w", topic, index, len(t.Partitions), kerr.UnknownTopicOrPartition)
	}
	return t, t.Partitions[index], nil
}

// Try applies a command to the image alone, and returns what the metadata would
// be: nothing is proposed.
func (img *Image) Try(c Command) (*Image, error) {
	next, _, err := c.apply(img)
	return next, err
}

// clone is a shallow copy: what it points to is still shared.
func (img *Image) clone() *Image {
	c := *img
	return &c
}

// withBroker is img with one broker set.
func (img *Image) withBroker(b *Broker) *Image {
	c := img.clone()
	c.Brokers = maps.Clone(img.Brokers)
	c.Brokers[b.ID] = b
	return c
}

// withTopic is img with one topic set.
func (img *Image) withTopic(t *Topic) *Image {
	c := img.clone()
	c.Topics = maps.Clone(img.Topics)
	c.Topics[t.Name] = t
	return c
}

// withMirror is img with one mirror set.
func (img *Image) withMirror(m *Mirror) *Image {
	c := img.clone()
	c.Mirrors = maps.Clone(img.Mirrors)
	c.Mirrors[m.Name] = m
	return c
}

// editPartition is img with a copy of one partition changed by edit, and its
// partition epoch raised; a reassignment that may end by that does. The copy's slices and pointers are still the
// original's: edit replaces them, it never writes into them.
func (img *Image) editPartition(topic string, index int32, edit func(*Partition) error) (*Image, *Partition, error) {
	t, old, err := img.Partition(topic, index)
	if err != nil {
		return nil, nil, err
	}
	p := *old
	if err := edit(&p); err != nil {
		return nil, nil, fmt.Errorf("partition %s-%d: %w", topic, index, err)
	}
	p.reassigned(img.electionOf(t))
	p.PartitionEpoch++
	nt := *t
	nt.Partitions = slices.Clone(t.Partitions)
	nt.Partitions[index] = &p
	return img.withTopic(&nt), &p, nil
}

// expectLeaderEpoch refuses a command of a leader of another epoch.
func (p *Partition) expectLeaderEpoch(want int32) error {
	switch {
	case want < p.LeaderEpoch:
		return fmt.Errorf("leader epoch %d, now %d: %w", want, p.LeaderEpoch, kerr.FencedLeaderEpoch)
	case want > p.LeaderEpoch:
		return fmt.Errorf("leader epoch %d, now %d: %w", want, p.LeaderEpoch, kerr.UnknownLeaderEpoch)
	}
	return nil
}
