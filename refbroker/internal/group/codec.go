package group

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions of the records in __consumer_offsets. Keys 0 and 1 are offsets,
// 2 is a group; other keys are those of protocols that are not served.
const (
	offsetKeyVersion    = 1
	groupKeyVersion     = 2
	offsetExpireVersion = 1 // the only one with an expiration of its own
	offsetValueVersion  = 4
	groupValueVersion   = 3
)

// Record is one record of __consumer_offsets.
type Record struct {
	Group string
	// Partition is set for an offset, and then Commit unless it is a tombstone.
	Partition *Partition
	Commit    *Commit
	// Metadata is the group's, nil in a tombstone.
	Metadata *Metadata
}

// Tombstone reports whether the record deletes what it names.
func (r Record) Tombstone() bool { return r.Commit == nil && r.Metadata == nil }

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// encodeRecord is a record's key and value; the value is nil for a tombstone.
func encodeRecord(r Record) (key, value []byte) {
	if p := r.Partition; p != nil {
		k := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: r.Group, Topic: p.Topic, Partition: p.Index}
		key = k.AppendTo(nil)
		if c := r.Commit; c != nil {
			v := kmsg.NewOffsetCommitValue()
			v.Version = offsetValueVersion
			v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp = c.Offset, c.LeaderEpoch, c.Metadata, c.At
			v.TopicID = c.TopicID
			if c.ExpiresAt >= 0 {
				v.Version, v.ExpireTimestamp = offsetExpireVersion, c.ExpiresAt
			}
			value = v.AppendTo(nil)
		}
		return key, value
	}
	k := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: r.Group}
	key = k.AppendTo(nil)
	if m := r.Metadata; m != nil {
		v := kmsg.NewGroupMetadataValue()
		v.Version = groupValueVersion
		v.ProtocolType, v.Generation, v.CurrentStateTimestamp = m.ProtocolType, m.Generation, m.Since
		v.Protocol, v.Leader = optional(m.Protocol), optional(m.Leader)
		for _, s := range m.Members {
			o := kmsg.NewGroupMetadataValueMember()
			o.MemberID, o.InstanceID, o.ClientID, o.ClientHost = s.ID, optional(s.InstanceID), s.ClientID, s.ClientHost
			o.RebalanceTimeoutMillis, o.SessionTimeoutMillis = int32(s.RebalanceTimeout.Milliseconds()), int32(s.SessionTimeout.Milliseconds())
			o.Subscription, o.Assignment = s.Subscription, s.Assignment
			v.Members = append(v.Members, o)
		}
		value = v.AppendTo(nil)
	}
	return key, value
}

// decodeRecord reads one record. ok is false for keys of a version that this
// coordinator does not know, which are skipped.
func decodeRecord(key, value []byte) (r Record, ok bool, err error) {
	if len(key) < 2 {
		return Record{}, false, fmt.Errorf("key of %d bytes is too short", len(key))
	}
	switch version := (&kbin.Reader{Src: key}).Int16(); version {
	case 0, offsetKeyVersion:
		return decodeOffset(key, value)
	case groupKeyVersion:
		return decodeGroup(key, value)
	}
	return Record{}, false, nil
}

func decodeOffset(key, value []byte) (r Record, ok bool, err error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return Record{}, false, fmt.Errorf("offset key: %w", err)
	}
	r = Record{Group: k.Group, Partition: &Partition{k.Topic, k.Partition}}
	if value == nil {
		return r, true, nil
	}
	v := kmsg.NewOffsetCommitValue()
	if err := versioned(value, offsetValueVersion, v.ReadFrom); err != nil {
		return Record{}, false, fmt.Errorf("offset value of group %q, %s-%d: %w", k.Group, k.Topic, k.Partition, err)
	}
	r.Commit = &Commit{
		Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata, At: v.CommitTimestamp, ExpiresAt: -1, TopicID: v.TopicID,
	}
	if v.Version < 3 {
		r.Commit.LeaderEpoch = -1
	}
	if v.Version == offsetExpireVersion {
		r.Commit.ExpiresAt = v.ExpireTimestamp
	}
	return r, true, nil
}

func decodeGroup(key, value []byte) (r Record, ok bool, err error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return Record{}, false, fmt.Errorf("group key: %w", err)
	}
	r = Record{Group: k.Group}
	if value == nil {
		return r, true, nil
	}
	v := kmsg.NewGroupMetadataValue()
	if err := versioned(value, 4, v.ReadFrom); err != nil {
		return Record{}, false, fmt.Errorf("value of group %q: %w", k.Group, err)
	}
	m := &Metadata{
		ProtocolType: v.ProtocolType, Generation: v.Generation, Protocol: text(v.Protocol), Leader: text(v.Leader), Since: v.CurrentStateTimestamp,
	}
	for _, o := range v.Members {
		s := StoredMember{
			ID: o.MemberID, InstanceID: text(o.InstanceID), ClientID: o.ClientID, ClientHost: o.ClientHost,
			SessionTimeout: millis(o.SessionTimeoutMillis), RebalanceTimeout: millis(o.RebalanceTimeoutMillis),
			Subscription: o.Subscription, Assignment: o.Assignment,
		}
		if v.Version < 1 {
			s.RebalanceTimeout = s.SessionTimeout
		}
		m.Members = append(m.Members, s)
	}
	r.Metadata = m
	return r, true, nil
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

var errVersion = errors.New("unknown version")

// versioned reads a value whose version is at most highest: kmsg reads later
// ones as if they were the last that it knows.
func versioned(value []byte, highest int16, read func([]byte) error) error {
	r := kbin.Reader{Src: value}
	version := r.Int16()
	if err := r.Complete(); err != nil && !r.Ok() {
		return err
	}
	if version < 0 || version > highest {
		return fmt.Errorf("%w %d", errVersion, version)
	}
	return read(value)
}
