package traffic

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
)

// LeaderEpochs returns the leader epoch of each partition of the cluster.
func (r *Raw) LeaderEpochs(ctx context.Context) (map[Partition]int32, error) {
	resp, err := r.metadata(ctx)
	if err != nil {
		return nil, err
	}
	epochs := map[Partition]int32{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if t.Topic != nil {
				epochs[Partition{*t.Topic, p.Partition}] = p.LeaderEpoch
			}
		}
	}
	return epochs, nil
}

// ErrNoBump is returned for a cluster that does not serve BumpLeaderEpochs.
var ErrNoBump = errors.New("the cluster does not serve BumpLeaderEpochs")

// Elect gives partitions a new leader epoch on r's cluster: the one in want, or
// the next one where theirs is as high.
func (r *Raw) Elect(ctx context.Context, want map[Partition]int32) error {
	var resp *kmsg.MetadataResponse
	err := again(ctx, func() (err error) {
		if resp, err = r.metadata(ctx); err == nil {
			err = r.led(resp, want)
		}
		return err
	})
	if err != nil {
		return err
	}
	// Without MaxVersions(nil) the client refuses keys that it does not know.
	cl, err := kgo.NewClient(append(clientOpts(r.cluster, r.name+"-elect"), kgo.MaxVersions(nil))...)
	if err != nil {
		return fmt.Errorf("make a client that elects: %w", err)
	}
	defer cl.Close()
	served, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("ask cluster %s what it serves: %w", r.cluster.Name, err)
	}
	if !serves(served) {
		return fmt.Errorf("elect on cluster %s: %w", r.cluster.Name, ErrNoBump)
	}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		for _, p := range t.Partitions {
			epoch, asked := want[Partition{*t.Topic, p.Partition}]
			if !asked {
				continue
			}
			above := max(p.LeaderEpoch, epoch-1)
			if err := again(ctx, func() error {
				return (mirrorrpc.Client{R: cl}).Bump(ctx, t.TopicID, above, p.Partition)
			}); err != nil {
				return fmt.Errorf("elect on cluster %s: %s-%d: %w", r.cluster.Name, *t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// led says what keeps one of the partitions from having a leader, by metadata.
func (r *Raw) led(meta *kmsg.MetadataResponse, parts map[Partition]int32) error {
	for _, t := range meta.Topics {
		if t.Topic == nil {
			continue
		}
		for _, p := range t.Partitions {
			part := Partition{*t.Topic, p.Partition}
			if _, asked := parts[part]; !asked {
				continue
			}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("elect on cluster %s: %s: %w", r.cluster.Name, part, err)
			}
		}
	}
	return nil
}

// serves says whether a cluster serves BumpLeaderEpochs: by the feature, since
// Apache Kafka may give the key to something else.
func serves(versions *kmsg.ApiVersionsResponse) bool {
	feature, key := false, false
	for _, f := range versions.SupportedFeatures {
		feature = feature || f.Name == mirrorrpc.Feature
	}
	for _, k := range versions.ApiKeys {
		key = key || k.ApiKey == mirrorrpc.KeyBumpLeaderEpochs
	}
	return feature && key
}

// TransactionState asks the coordinator for the state of a transactional id,
// such as "Ongoing".
func (r *Raw) TransactionState(ctx context.Context, transactionalID string) (string, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{r.cluster.named(transactionalID)}
	resp, err := req.RequestWith(ctx, r.client())
	if err != nil {
		return "", fmt.Errorf("raw client %s: describe transaction %q: %w", r.name, transactionalID, err)
	}
	if len(resp.TransactionStates) != 1 {
		return "", fmt.Errorf("raw client %s: describe transaction %q: %d answers", r.name, transactionalID, len(resp.TransactionStates))
	}
	s := resp.TransactionStates[0]
	if err := kerr.ErrorForCode(s.ErrorCode); err != nil {
		return "", fmt.Errorf("raw client %s: describe transaction %q: %w", r.name, transactionalID, err)
	}
	return s.State, nil
}
