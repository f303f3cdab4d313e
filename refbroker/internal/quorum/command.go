package quorum

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// A Command is one change of the metadata. Commands are small structs whose
// exported fields are JSON; each is a pure function of the image it meets, so
// that every voter comes to the same image: what needs a clock or a random
// number is decided by the proposer and carried in the command.
type Command interface {
	// Kind is the command's name and version in the raft log. Neither is ever
	// used again for something else.
	Kind() (name string, version int)
	// apply makes the next image (img itself when nothing changes) and a result
	// for the proposer. An error refuses the command and leaves img in force;
	// errors that have a Kafka code wrap a *kerr.Error.
	apply(img *Image) (next *Image, result any, err error)
}

// ErrUnknownCommand is a command in the raft log that this build does not
// know. A node that meets one stops following the log, since it can no longer
// tell what the metadata is.
var ErrUnknownCommand = errors.New("unknown metadata command")

// envelope is how a command lies in the raft log.
type envelope struct {
	Type    string          `json:"type"`
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data"`
}

// Encode makes the raft log entry of a command.
func Encode(c Command) ([]byte, error) {
	name, version := c.Kind()
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode metadata command %s: %w", name, err)
	}
	return json.Marshal(envelope{Type: name, Version: version, Data: data})
}

// Decode reads a raft log entry. It fails with [ErrUnknownCommand] for a type
// or a version that this build does not know.
func Decode(raw []byte) (Command, error) {
	var e envelope
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, fmt.Errorf("decode metadata command: %w", err)
	}
	for _, k := range kinds() {
		if k.name != e.Type {
			continue
		}
		if k.version != e.Version {
			return nil, fmt.Errorf("%w: %s version %d (this build knows version %d)", ErrUnknownCommand, e.Type, e.Version, k.version)
		}
		c, err := k.decode(e.Data)
		if err != nil {
			return nil, fmt.Errorf("decode metadata command %s: %w", e.Type, err)
		}
		return c, nil
	}
	return nil, fmt.Errorf("%w: %q version %d", ErrUnknownCommand, e.Type, e.Version)
}

// kind is how one type of command, and its result, is read back.
type kind struct {
	name    string
	version int
	decode  func([]byte) (Command, error)
	// result is the type of apply's result; nil for none.
	result reflect.Type
}

// giving is the kind of a command whose results are like sample.
func (k kind) giving(sample any) kind {
	k.result = reflect.TypeOf(sample)
	return k
}

// kindOf makes the kind of a command's zero value.
func kindOf[C Command](zero C) kind {
	name, version := zero.Kind()
	return kind{name: name, version: version, decode: func(raw []byte) (Command, error) {
		var c C
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, err
		}
		return c, nil
	}}
}

// resultOf is the type of a command's result; nil for none.
func resultOf(c Command) reflect.Type {
	name, _ := c.Kind()
	for _, k := range kinds() {
		if k.name == name {
			return k.result
		}
	}
	return nil
}

// kinds lists all commands, one family a file.
func kinds() []kind {
	return append([]kind{
		kindOf(RegisterBroker{}).giving((*Broker)(nil)),
		kindOf(Sync{}),
		kindOf(FenceBroker{}),
		kindOf(UnfenceBroker{}),
		kindOf(ElectLeader{}).giving((*Partition)(nil)),
		kindOf(AllocateProducerIDs{}).giving(ProducerIDBlock{}),
		kindOf(CreateTopic{}).giving((*Topic)(nil)),
		kindOf(DeleteTopic{}),
		kindOf(AlterTopicConfigs{}),
		kindOf(CreatePartitions{}).giving((*Topic)(nil)),
		kindOf(AlterPartition{}).giving((*Partition)(nil)),
		kindOf(RaiseLeaderEpoch{}),
		kindOf(Reassign{}).giving((*Partition)(nil)),
		kindOf(Together{}).giving([]Verdict(nil)),
	}, mirrorKinds()...)
}
