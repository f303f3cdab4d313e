package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// reassignEvery is how often --wait looks again.
const reassignEvery = 200 * time.Millisecond

func (t *topicsOptions) reassign() *cobra.Command {
	var replicas, partitions []int32
	var cancel, wait bool
	cmd := &cobra.Command{
		Use:   "reassign TOPIC --replicas ID,ID… | --cancel",
		Short: "Move partitions to other nodes",
		Long: `Move a topic's partitions to other nodes, the preferred leader first. Nodes that are new copy the log and come in sync;
then those that are no longer wanted leave and delete theirs. A topic that mirrors another cluster's can be moved too.
--cancel ends what is in progress, and takes away what it has brought so far.`,
		Example: `  refbroker topics reassign orders --replicas 1,2,3 --wait
  refbroker topics reassign orders --partition 0 --cancel
  refbroker topics reassignments`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cancel == (len(replicas) > 0) {
				return usagef("reassign %s: want either --replicas or --cancel", args[0])
			}
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				topics, err := c.ListTopicsWithInternal(ctx, args[0])
				if err != nil {
					return err
				}
				d := topics[args[0]]
				if d.Err != nil {
					return fmt.Errorf("reassign %s: %w", args[0], d.Err)
				}
				if len(partitions) == 0 {
					partitions = slices.Sorted(maps.Keys(d.Partitions))
				}
				var req kadm.AlterPartitionAssignmentsReq
				for _, p := range partitions {
					if cancel {
						req.CancelAssign(args[0], p)
					} else {
						req.Assign(args[0], p, replicas)
					}
				}
				if err := alterAssignments(ctx, cmd.OutOrStdout(), c, req, args[0], partitions); err != nil {
					return err
				}
				if !wait {
					return nil
				}
				return awaitReassigned(ctx, c, args[0], partitions)
			})
		},
	}
	cmd.Flags().Int32SliceVar(&replicas, "replicas", nil, "the `IDS` of the nodes that are to have a replica")
	cmd.Flags().Int32SliceVar(&partitions, "partition", nil, "a `PARTITION` (repeatable; default all)")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "cancel what is in progress")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it has ended")
	return cmd
}

// alterAssignments sends the request, and prints a line for each partition.
func alterAssignments(ctx context.Context, out io.Writer, c *kadm.Client, req kadm.AlterPartitionAssignmentsReq, topic string, partitions []int32) error {
	answers, err := c.AlterPartitionAssignments(ctx, req)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range partitions {
		a, ok := answers[topic][p]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("reassign %s-%d: no answer", topic, p))
		case a.Err != nil:
			errs = append(errs, fmt.Errorf("reassign %s-%d: %w", topic, p, worded(a.Err, a.ErrMessage)))
		default:
			if _, err := fmt.Fprintf(out, "%s-%d is being reassigned\n", topic, p); err != nil {
				return err
			}
		}
	}
	return errors.Join(errs...)
}

// awaitReassigned waits until none of the partitions has a reassignment in
// progress.
func awaitReassigned(ctx context.Context, c *kadm.Client, topic string, partitions []int32) error {
	set := kadm.TopicsSet{}
	set.Add(topic, partitions...)
	tick := time.NewTicker(reassignEvery)
	defer tick.Stop()
	for {
		left, err := c.ListPartitionReassignments(ctx, set)
		if err != nil {
			return err
		}
		if len(left[topic]) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t *topicsOptions) reassignments() *cobra.Command {
	return &cobra.Command{
		Use:   "reassignments",
		Short: "List the reassignments in progress",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				topics, err := c.ListTopicsWithInternal(ctx)
				if err != nil {
					return err
				}
				all, err := c.ListPartitionReassignments(ctx, topics.TopicsSet())
				if err != nil {
					return err
				}
				text := "TOPIC\tPARTITION\tREPLICAS\tADDING\tREMOVING\n"
				for _, r := range all.Sorted() {
					text += fmt.Sprintf("%s\t%d\t%v\t%v\t%v\n", r.Topic, r.Partition, r.Replicas, r.AddingReplicas, r.RemovingReplicas)
				}
				return writeTable(cmd.OutOrStdout(), text)
			})
		},
	}
}
