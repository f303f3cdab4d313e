package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/group"
)

// offsetsVersion is the last version of OffsetFetch that names topics.
const offsetsVersion = 9

// groupsAtOnce bounds how many groups are asked for in one request.
const groupsAtOnce = 100

// ask asks every broker of the source for the groups that it coordinates, and
// for their offsets in the topics that mirror. What one broker does not tell is
// an error, beside what the others told.
func (s *groupSync) ask(ctx context.Context, settings Settings, topics map[string][16]byte, ours func(string) bool) (map[string][]group.Offset, error) {
	addrs, err := s.brokers(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string][]group.Offset{}
	var errs []error
	for _, addr := range addrs {
		if err := s.askBroker(ctx, addr, settings, topics, ours, all); err != nil {
			errs = append(errs, fmt.Errorf("groups of source broker %s: %w", addr, err))
		}
	}
	return all, errors.Join(errs...)
}

// brokers asks the first of the source's brokers that answers who they are.
func (s *groupSync) brokers(ctx context.Context) ([]string, error) {
	var errs []error
	for _, addr := range slices.Concat(slices.Sorted(maps.Keys(s.conns)), s.mirror.Bootstrap) {
		c, err := s.conn(ctx, addr)
		var meta *kmsg.MetadataResponse
		if err == nil {
			meta, err = c.metadata(ctx, nil)
		}
		if err == nil && (meta.ClusterID == nil || *meta.ClusterID != s.mirror.SourceClusterID) {
			err = ErrOtherCluster
		}
		if err != nil {
			s.drop(addr)
			errs = append(errs, err)
			continue
		}
		var all []string
		for _, b := range meta.Brokers {
			all = append(all, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
		}
		return all, nil
	}
	return nil, errors.Join(errs...)
}

func (s *groupSync) conn(ctx context.Context, addr string) (*conn, error) {
	if c := s.conns[addr]; c != nil {
		return c, nil
	}
	c, _, err := dial(ctx, WayTo(s.m.host, s.mirror.Configs), addr, s.mirror.SourceClusterID)
	if err != nil {
		return nil, err
	}
	s.conns[addr] = c
	return c, nil
}

func (s *groupSync) drop(addr string) {
	if c := s.conns[addr]; c != nil {
		_ = c.Close()
		delete(s.conns, addr)
	}
}

func (s *groupSync) askBroker(ctx context.Context, addr string, settings Settings, topics map[string][16]byte, ours func(string) bool, all map[string][]group.Offset) error {
	c, err := s.conn(ctx, addr)
	if err != nil {
		return err
	}
	listed, err := ask[*kmsg.ListGroupsResponse](ctx, c, kmsg.NewPtrListGroupsRequest())
	if err != nil {
		s.drop(addr)
		return err
	}
	if err := kerr.ErrorForCode(listed.ErrorCode); err != nil {
		return fmt.Errorf("ListGroups: %w", err)
	}
	var ids []string
	for _, g := range listed.Groups {
		// Others than consumers keep no offsets in topics, or of their own kind.
		if (g.ProtocolType == "" || g.ProtocolType == "consumer") && settings.Groups.Has(g.Group) && ours(g.Group) {
			ids = append(ids, g.Group)
		}
	}
	var errs []error
	for part := range slices.Chunk(ids, groupsAtOnce) {
		groups, err := committed(ctx, c, part)
		if err != nil {
			s.drop(addr)
			return errors.Join(append(errs, err)...)
		}
		for _, g := range groups {
			if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("offsets of group %q: %w", g.Group, err))
				continue
			}
			if offsets := offsetsOf(g, topics); len(offsets) > 0 {
				all[g.Group] = offsets
			}
		}
	}
	return errors.Join(errs...)
}

// committed asks for the offsets of groups: together, or of a broker of old one
// by one.
func committed(ctx context.Context, c *conn, ids []string) ([]kmsg.OffsetFetchResponseGroup, error) {
	const together = 8 // KIP-709
	if c.versions[kmsg.NewPtrOffsetFetchRequest().Key()] >= together {
		req := kmsg.NewPtrOffsetFetchRequest()
		for _, id := range ids {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group, g.Topics = id, nil // all
			req.Groups = append(req.Groups, g)
		}
		resp, err := askAtMost[*kmsg.OffsetFetchResponse](ctx, c, req, offsetsVersion)
		if err != nil {
			return nil, err
		}
		return resp.Groups, nil
	}
	var all []kmsg.OffsetFetchResponseGroup
	for _, id := range ids {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.Topics = id, nil // all
		resp, err := askAtMost[*kmsg.OffsetFetchResponse](ctx, c, req, together-1)
		if err != nil {
			return nil, err
		}
		g := kmsg.OffsetFetchResponseGroup{Group: id, ErrorCode: resp.ErrorCode}
		for _, t := range resp.Topics {
			out := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
					Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
				})
			}
			g.Topics = append(g.Topics, out)
		}
		all = append(all, g)
	}
	return all, nil
}

// offsetsOf are a group's offsets in topics, as they were answered.
func offsetsOf(g kmsg.OffsetFetchResponseGroup, topics map[string][16]byte) []group.Offset {
	var all []group.Offset
	for _, t := range g.Topics {
		id, ok := topics[t.Topic]
		if !ok {
			continue
		}
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 || p.Offset < 0 {
				continue
			}
			o := group.Offset{Partition: group.Partition{Topic: t.Topic, Index: p.Partition}, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, TopicID: id}
			if p.Metadata != nil {
				o.Metadata = *p.Metadata
			}
			all = append(all, o)
		}
	}
	return all
}
