package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
)

func mirrorsBump(o *mirrorsOptions) *cobra.Command {
	var above int32
	var partitions []int32
	cmd := &cobra.Command{
		Use:   "bump TOPIC --above EPOCH",
		Short: "Raise the leader epochs of a topic's partitions",
		Long: `Raise the leader epochs of a topic's partitions above an epoch. Mirroring does so by itself whenever the source's
epochs come close; by hand it is of use before a log with high epochs is copied in.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.client(cmd, func(ctx context.Context, c mirrorrpc.Client) error {
				id, all, err := lookUpTopic(ctx, c, args[0])
				if err != nil {
					return err
				}
				if len(partitions) == 0 {
					partitions = all
				}
				if err := c.Bump(ctx, id, above, partitions...); err != nil {
					return err
				}
				return o.say(cmd, map[string]any{"topic": args[0], "partitions": partitions, "above": above},
					"Leader epochs of %d partition(s) of topic %s are above %d\n", len(partitions), args[0], above)
			})
		},
	}
	cmd.Flags().Int32Var(&above, "above", -1, "the leader `epoch` to be above of")
	cmd.Flags().Int32SliceVar(&partitions, "partition", nil, "a `partition` (repeatable; default all)")
	_ = cmd.MarkFlagRequired("above")
	return cmd
}

// lookUpTopic finds a topic's id and partitions.
func lookUpTopic(ctx context.Context, c mirrorrpc.Client, topic string) (id [16]byte, partitions []int32, err error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = []kmsg.MetadataRequestTopic{t}
	resp, err := req.RequestWith(ctx, c.R)
	if err != nil {
		return id, nil, fmt.Errorf("topic %q: %w", topic, err)
	}
	if len(resp.Topics) != 1 {
		return id, nil, fmt.Errorf("topic %q: %d topics in the answer", topic, len(resp.Topics))
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return id, nil, fmt.Errorf("topic %q: %w", topic, err)
	}
	for _, p := range resp.Topics[0].Partitions {
		partitions = append(partitions, p.Partition)
	}
	slices.Sort(partitions)
	return resp.Topics[0].TopicID, partitions, nil
}
