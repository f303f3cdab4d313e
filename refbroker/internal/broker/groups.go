package broker

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// groupAPIs are the APIs of the group coordinator.
func groupAPIs(e *env.Env, c *group.Coordinator, tx *txn.Coordinator) []wire.API {
	return []wire.API{
		offsetCommit(e, c),
		offsetFetch(e, c),
		joinGroup(c),
		heartbeat(c),
		leaveGroup(c),
		syncGroup(c),
		describeGroups(c),
		listGroups(c),
		addOffsetsToTxn(e, tx),
		txnOffsetCommit(e, c),
		deleteGroups(c),
		offsetDelete(e, c),
	}
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// named is s, or nil for none.
func named(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// committed finds the topic that a commit or fetch of offsets means; partition
// -1 is any.
func committed(img *quorum.Image, name string, id [16]byte, byID bool, partition int32) (*quorum.Topic, error) {
	name, err := topicName(img, name, id, byID)
	if err != nil {
		return nil, err
	}
	t, err := img.Topic(name)
	if err != nil {
		return nil, err
	}
	if partition < -1 || int(partition) >= len(t.Partitions) {
		return nil, fmt.Errorf("%s-%d: %w", name, partition, kerr.UnknownTopicOrPartition)
	}
	return t, nil
}

// commits are the offsets that a commit asks for, in its order.
type commits struct {
	coordinator *group.Coordinator
	img         *quorum.Image
	byID        bool // topics are named by id
	offsets     []group.Offset
	errs        []error // of each, nil for those in offsets
}

func (c *commits) add(topic string, id [16]byte, offset group.Offset, metadata *string) {
	t, err := committed(c.img, topic, id, c.byID, offset.Partition.Index)
	offset.Metadata = textOf(metadata)
	if err == nil {
		err = c.coordinator.CheckMetadata(offset.Metadata)
	}
	c.errs = append(c.errs, err)
	if err != nil {
		return
	}
	offset.Partition.Topic, offset.TopicID = t.Name, t.ID
	c.offsets = append(c.offsets, offset)
}

// code is the answer for the next of the offsets; err is what became of those
// that were in order.
func (c *commits) code(err error) int16 {
	if c.errs[0] != nil {
		err = c.errs[0]
	}
	c.errs = c.errs[1:]
	return codeOf(err)
}

// forMember is an error as members of a version know it: those of old are told
// ILLEGAL_GENERATION of a group that there isn't.
func forMember(err error, old bool) error {
	if old && errors.Is(err, kerr.GroupIDNotFound) {
		return kerr.IllegalGeneration
	}
	return err
}
