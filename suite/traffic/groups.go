package traffic

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/suite/history"
)

// CommitGroup commits offsets as a group without members does, and records each.
// What a coordinator that moves or loads refuses is asked again.
func (r *Raw) CommitGroup(ctx context.Context, group string, offsets map[Partition]int64) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = r.cluster.named(group), -1
	for p, offset := range offsets {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = p.Index, offset, -1
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = p.Topic
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	var resp *kmsg.OffsetCommitResponse
	err := r.insist(ctx, func() (err error) {
		resp, err = req.RequestWith(ctx, r.client())
		for _, t := range topicsOf(resp) {
			for _, got := range t.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(got.ErrorCode))
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("raw client %s: commit of group %s: %w", r.name, group, err)
	}
	for p, offset := range offsets {
		r.rec.Add(history.Event{Kind: history.KindGroupCommit, Group: &history.Group{
			Cluster: r.cluster.Name, Group: group, Topic: p.Topic, Partition: p.Index, Offset: offset, LogStart: -1, LogEnd: -1,
			Result: &history.Result{Outcome: history.OK},
		}})
	}
	return nil
}

func topicsOf(r *kmsg.OffsetCommitResponse) []kmsg.OffsetCommitResponseTopic {
	if r == nil {
		return nil
	}
	return r.Topics
}

// insist repeats what is refused for a while only, as long as ctx allows.
func (r *Raw) insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		ke := new(kerr.Error)
		if err == nil || errors.As(err, &ke) && !ke.Retriable {
			return err
		}
		if !pause(ctx, describeEvery) {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// Committed asks what a group has committed; -1 for nothing.
func (r *Raw) Committed(ctx context.Context, group string, parts []Partition) (map[Partition]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = r.cluster.named(group)
	for _, p := range parts {
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = p.Topic, []int32{p.Index}
		g.Topics = append(g.Topics, topic)
		old := kmsg.NewOffsetFetchRequestTopic()
		old.Topic, old.Partitions = p.Topic, []int32{p.Index}
		req.Topics = append(req.Topics, old)
	}
	req.Group, req.Groups = r.cluster.named(group), append(req.Groups, g)
	all := map[Partition]int64{}
	err := r.insist(ctx, func() error {
		clear(all)
		resp, err := req.RequestWith(ctx, r.client())
		if err != nil {
			return err
		}
		errs := []error{kerr.ErrorForCode(resp.ErrorCode)}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
				all[Partition{t.Topic, p.Partition}] = p.Offset
			}
		}
		for _, g := range resp.Groups {
			errs = append(errs, kerr.ErrorForCode(g.ErrorCode))
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
					all[Partition{t.Topic, p.Partition}] = p.Offset
				}
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return nil, fmt.Errorf("raw client %s: offsets of group %s: %w", r.name, group, err)
	}
	return all, nil
}

// SampleGroup records what a group has committed, and between which ends the logs
// lay meanwhile.
func (r *Raw) SampleGroup(ctx context.Context, group string, parts []Partition, when history.When) (map[Partition]int64, error) {
	starts, ends := map[Partition]int64{}, map[Partition]int64{}
	for _, p := range parts {
		var err error
		if starts[p], _, err = r.listOffsetAgain(ctx, p, 0, earliest); err != nil {
			return nil, err
		}
	}
	committed, err := r.Committed(ctx, group, parts)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if ends[p], _, err = r.listOffsetAgain(ctx, p, 0, latest); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		r.rec.Add(history.Event{Kind: history.KindGroupOffsets, Group: &history.Group{
			Cluster: r.cluster.Name, Group: group, Topic: p.Topic, Partition: p.Index, Offset: committed[p],
			LogStart: starts[p], LogEnd: ends[p], When: when,
		}})
	}
	return committed, nil
}

// AwaitGroup waits until a group has an offset in each of the partitions: whatever
// it is.
func (r *Raw) AwaitGroup(ctx context.Context, group string, parts []Partition) error {
	for {
		committed, err := r.Committed(ctx, group, parts)
		if err != nil {
			return err
		}
		var missing []string
		for _, p := range parts {
			if committed[p] < 0 {
				missing = append(missing, p.String())
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if !pause(ctx, describeEvery) {
			return &StuckError{What: "offsets of group " + group + " are mirrored", Missing: missing, Err: context.Cause(ctx)}
		}
	}
}

// Resume starts a reader that goes on where a group has committed.
func (r *Raw) Resume(ctx context.Context, group string, level history.Isolation, committed map[Partition]int64) (*Reader, error) {
	name := r.name + "-" + group + "-" + string(level)
	for p, offset := range committed {
		r.rec.Add(history.Event{Kind: history.KindGroupResumes, Group: &history.Group{
			Cluster: r.cluster.Name, Group: group, Topic: p.Topic, Partition: p.Index, Offset: offset, LogStart: -1, LogEnd: -1, Reader: name,
		}})
	}
	return StartReaderAt(ctx, r.rec, r.cluster, name, level, committed)
}
