package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
)

func (t *topicsOptions) deleteRecords() *cobra.Command {
	var before int64
	var partitions []int32
	cmd := &cobra.Command{
		Use:   "delete-records TOPIC --before OFFSET",
		Short: "Delete the records below an offset",
		Long: `Delete the records of a topic's partitions below an offset; -1 stands for the high watermark. A topic that mirrors
another cluster's refuses it.`,
		Example: `  refbroker topics delete-records orders --before 1000 --partition 0
  refbroker topics delete-records orders --before -1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				topics, err := c.ListTopics(ctx, args[0])
				if err != nil {
					return err
				}
				d := topics[args[0]]
				if d.Err != nil {
					return fmt.Errorf("delete records of %s: %w", args[0], d.Err)
				}
				if len(partitions) == 0 {
					partitions = slices.Sorted(maps.Keys(d.Partitions))
				}
				offsets := kadm.Offsets{}
				for _, p := range partitions {
					if _, ok := d.Partitions[p]; !ok {
						return fmt.Errorf("delete records of %s: no partition %d", args[0], p)
					}
					offsets.Add(kadm.Offset{Topic: args[0], Partition: p, At: before})
				}
				deleted, err := c.DeleteRecords(ctx, offsets)
				if err != nil {
					return err
				}
				var errs []error
				for _, p := range partitions {
					res := deleted[args[0]][p]
					if res.Err != nil {
						errs = append(errs, fmt.Errorf("delete records of %s-%d: %w", args[0], p, deleteRecordsError(res.Err)))
						continue
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s-%d begins at %d\n", args[0], p, res.LowWatermark); err != nil {
						return err
					}
				}
				return errors.Join(errs...)
			})
		},
	}
	cmd.Flags().Int64Var(&before, "before", 0, "the first `OFFSET` that stays; -1 is the high watermark")
	cmd.Flags().Int32SliceVar(&partitions, "partition", nil, "a `PARTITION` (repeatable; default all)")
	_ = cmd.MarkFlagRequired("before") // fails only for a flag that is not there
	return cmd
}

// deleteRecordsError names a code as DeleteRecords means it: from 134 on the
// client library knows them as Apache Kafka's.
func deleteRecordsError(err error) error {
	var coded *kerr.Error
	if errors.As(err, &coded) {
		return mirrorrpc.ErrorForCode(kmsg.DeleteRecords.Int16(), coded.Code)
	}
	return err
}
