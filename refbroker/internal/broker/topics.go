package broker

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/wire"
)

// maxPartitions bounds what one request can make this node open.
const maxPartitions = 10_000

// defaultReplication is the replication factor of topics that leave it open,
// where there are so many nodes. (Kafka's default.replication.factor is 1, that
// of its internal topics 3: a cluster of several nodes is there to lose some.)
const defaultReplication = 3

// topics makes topics.
type topics struct {
	node     int32
	quorum   *quorum.Node
	replicas env.Replicas
}

var _ env.Topics = (*topics)(nil)

// CreateTopic implements [env.Topics].
func (t *topics) CreateTopic(ctx context.Context, want env.NewTopic) (*quorum.Topic, error) {
	c, err := t.command(want)
	if err != nil {
		return nil, err
	}
	return t.create(ctx, c)
}

// command is the quorum's command for a topic: replicas and id are chosen, the
// configuration is checked.
func (t *topics) command(want env.NewTopic) (quorum.CreateTopic, error) {
	c := quorum.CreateTopic{
		Name: want.Name, ID: want.ID, Internal: want.Internal,
		Assignment: want.Assignment, Configs: maps.Clone(want.Configs),
	}
	if c.ID == ([16]byte{}) {
		c.ID = newUUID()
	}
	if err := CheckTopicConfigs(want.Configs); err != nil {
		return c, fmt.Errorf("topic %q: %w", want.Name, err)
	}
	if len(c.Assignment) > 0 {
		return c, nil
	}
	partitions, replication := want.Partitions, want.Replication
	if partitions == -1 {
		partitions = 1
	}
	if partitions <= 0 || partitions > maxPartitions {
		return c, fmt.Errorf("topic %q: %d partitions (want 1 to %d): %w", want.Name, partitions, maxPartitions, kerr.InvalidPartitions)
	}
	img := t.quorum.Image()
	if replication == -1 || replication == 0 && want.Internal {
		replication = int16(min(defaultReplication, len(t.quorum.Voters())))
	}
	var alive, fenced []int32
	for _, id := range slices.Sorted(maps.Keys(img.Brokers)) {
		if !img.Brokers[id].Fenced {
			alive = append(alive, id)
		} else {
			fenced = append(fenced, id)
		}
	}
	if want.Internal && len(alive) > 0 {
		// A coordinator's topic is made when it is first needed, maybe while a
		// node is down, and must not stay with fewer replicas for good.
		alive = append(alive, fenced...)
	}
	if replication <= 0 || int(replication) > len(alive) {
		return c, fmt.Errorf("topic %q: replication factor %d with %d brokers: %w", want.Name, replication, len(alive), kerr.InvalidReplicationFactor)
	}
	// Leaders go round the brokers, from another one for each topic.
	first := len(img.Topics)
	for i := range int(partitions) {
		var replicas []int32
		for r := range int(replication) {
			replicas = append(replicas, alive[(first+i+r)%len(alive)])
		}
		c.Assignment = append(c.Assignment, replicas)
	}
	return c, nil
}

// validate says whether create would succeed now.
func (t *topics) validate(c quorum.CreateTopic) error {
	_, err := t.quorum.Image().Try(c)
	return err
}

// create makes a topic. Once it returns this node serves its share of it, so
// that the client's next request finds it.
func (t *topics) create(ctx context.Context, c quorum.CreateTopic) (*quorum.Topic, error) {
	result, err := t.quorum.Apply(ctx, c)
	if err != nil {
		return nil, err
	}
	made, ok := result.(*quorum.Topic)
	if !ok {
		return nil, fmt.Errorf("create topic %q: unexpected result %T", c.Name, result)
	}
	return made, t.served(made, 0)
}

// served says whether this node serves its share of a topic's partitions, from
// one on.
func (t *topics) served(made *quorum.Topic, from int) error {
	for i, p := range made.Partitions[from:] {
		if !slices.Contains(p.Replicas, t.node) {
			continue
		}
		if _, err := t.replicas.Partition(made.Name, int32(from+i)); err != nil {
			return fmt.Errorf("%s-%d is made but can't be served: %w (%w)", made.Name, from+i, kerr.KafkaStorageError, err)
		}
	}
	return nil
}

// newUUID is a random id of version 4, as Kafka makes them.
func newUUID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// topicAPIs tell and change what topics are like.
func topicAPIs(e *env.Env, t *topics, c *configs, r *replica.Manager) []wire.API {
	return append(inStep(e, deleteTopics(e), createPartitions(t), alterConfigs(c), incrementalAlterConfigs(c), electLeaders(e),
		alterPartitionReassignments(e), listPartitionReassignments(e)),
		createTopics(t, c), describeTopicPartitions(e), deleteRecords(e), describeConfigs(c), describeLogDirs(r),
	)
}
