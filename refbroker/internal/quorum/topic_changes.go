package quorum

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ConfigOp is what [AlterTopicConfigs] does to one config, numbered as in
// IncrementalAlterConfigs.
type ConfigOp int8

// The operations. Append and Subtract are for lists.
const (
	SetConfig         ConfigOp = 0
	DeleteConfig      ConfigOp = 1
	AppendToConfig    ConfigOp = 2
	SubtractFromValue ConfigOp = 3
)

// ConfigChange is one change of a config.
type ConfigChange struct {
	Name  string   `json:"name"`
	Op    ConfigOp `json:"op"`
	Value string   `json:"value,omitempty"`
}

// AlterTopicConfigs changes a topic's configs. With Replace it starts from
// none, as the older AlterConfigs does. Values are checked by the proposer.
type AlterTopicConfigs struct {
	Name    string         `json:"name"`
	ID      [16]byte       `json:"id"`
	Replace bool           `json:"replace,omitempty"`
	Changes []ConfigChange `json:"changes"`
	// Defaults are what lists start from where the topic has no value of its own.
	Defaults map[string]string `json:"defaults,omitempty"`
}

// Kind names the command.
func (AlterTopicConfigs) Kind() (string, int) { return "AlterTopicConfigs", 1 }

// Configs is what the topic's configs would be.
func (c AlterTopicConfigs) Configs(t *Topic) (map[string]string, error) {
	next := map[string]string{}
	if !c.Replace {
		maps.Copy(next, t.Configs)
	}
	for _, change := range c.Changes {
		switch change.Op {
		case SetConfig:
			next[change.Name] = change.Value
		case DeleteConfig:
			delete(next, change.Name)
		case AppendToConfig, SubtractFromValue:
			value, ok := next[change.Name]
			if !ok {
				value = c.Defaults[change.Name]
			}
			next[change.Name] = editList(value, change)
		default:
			return nil, fmt.Errorf("topic %q: config %q: operation %d: %w", t.Name, change.Name, change.Op, kerr.InvalidRequest)
		}
	}
	return next, nil
}

// editList adds to or takes from a list, in which nothing is there twice.
func editList(list string, change ConfigChange) string {
	var items []string
	if list != "" {
		items = strings.Split(list, ",")
	}
	for item := range strings.SplitSeq(change.Value, ",") {
		has := slices.Contains(items, item)
		switch {
		case change.Op == AppendToConfig && !has:
			items = append(items, item)
		case change.Op == SubtractFromValue && has:
			items = slices.DeleteFunc(items, func(s string) bool { return s == item })
		}
	}
	return strings.Join(items, ",")
}

func (c AlterTopicConfigs) apply(img *Image) (*Image, any, error) {
	t, err := img.topicToChange(c.Name, c.ID)
	if err != nil {
		return nil, nil, err
	}
	next, err := c.Configs(t)
	if err != nil {
		return nil, nil, err
	}
	nt := *t
	nt.Configs = next
	// Unclean elections may be allowed from here on.
	nt.Partitions = slices.Clone(t.Partitions)
	for i, p := range t.Partitions {
		q := *p
		if q.back(img.electionOf(&nt)) {
			q.PartitionEpoch++
			nt.Partitions[i] = &q
		}
	}
	return img.withTopic(&nt), nil, nil
}

// CreatePartitions adds partitions to a topic, each with its replicas. The
// partitions of a topic that mirrors are its source's, and refused (RO-3). The
// result is the *[Topic].
type CreatePartitions struct {
	Name string   `json:"name"`
	ID   [16]byte `json:"id"`
	// From is how many there are; another number refuses the command.
	From       int       `json:"from"`
	Assignment [][]int32 `json:"assignment"`
	// Mirror is set where the topic grows because its source did, in that mirror:
	// the new partitions are to be mirrored from the start, as the others are.
	Mirror string `json:"mirror,omitempty"`
}

// Kind names the command.
func (CreatePartitions) Kind() (string, int) { return "CreatePartitions", 1 }

func (c CreatePartitions) apply(img *Image) (*Image, any, error) {
	t, err := img.topicToChange(c.Name, c.ID)
	if err != nil {
		return nil, nil, err
	}
	if len(t.Partitions) != c.From {
		return nil, nil, fmt.Errorf("topic %q has %d partitions, not %d: %w", c.Name, len(t.Partitions), c.From, kerr.InvalidPartitions)
	}
	if c.Mirror != "" && (t.Mirror != c.Mirror || t.Desired != Mirroring) {
		return nil, nil, fmt.Errorf("topic %q: %w %q", c.Name, ErrTopicNotInMirror, c.Mirror)
	}
	for i, p := range t.Partitions {
		if c.Mirror == "" && t.Mirror != "" && p.Mirror.State != Stopped {
			return nil, nil, fmt.Errorf("topic %q: partition %d of mirror %q is %s; stop the mirror first: %w", c.Name, i, t.Mirror, p.Mirror.State, ErrReadOnlyTopic)
		}
	}
	nt := *t
	nt.Partitions = slices.Clone(t.Partitions)
	for _, replicas := range c.Assignment {
		p, err := img.newPartition(c.Name, len(nt.Partitions), replicas)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case c.Mirror != "":
			if _, err := p.Mirror.desire(Mirroring, false); err != nil {
				return nil, nil, fmt.Errorf("partition %s-%d: %w", c.Name, len(nt.Partitions), err)
			}
		case t.Mirror != "":
			// Nothing of it was ever mirrored: it is the cluster's own.
			p.Mirror.State = Stopped
		}
		nt.Partitions = append(nt.Partitions, p)
	}
	return img.withTopic(&nt), &nt, nil
}

// topicToChange finds a topic; id guards against another one of the same name.
func (img *Image) topicToChange(name string, id [16]byte) (*Topic, error) {
	t, err := img.Topic(name)
	if err != nil {
		return nil, err
	}
	if t.ID != id {
		return nil, fmt.Errorf("topic %q has id %x, not %x: %w", name, t.ID, id, kerr.UnknownTopicID)
	}
	return t, nil
}
