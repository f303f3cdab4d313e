package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// topicsCommand is "refbroker topics": the topics of a running cluster.
func topicsCommand(h Host) *cobra.Command {
	t := &topicsOptions{clientFlags: clientFlags{dial: h.Dial}}
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "Create, list, describe, reassign and delete topics and records",
		Example: `  refbroker topics create orders --partitions 3 --config segment.bytes=1048576
  refbroker topics describe orders`,
	}
	t.register(cmd.PersistentFlags(), "the cluster")
	cmd.PersistentFlags().DurationVar(&t.timeout, "timeout", 30*time.Second, "how long to wait for answers")
	cmd.AddCommand(t.create(), t.list(), t.describe(), t.delete(), t.deleteRecords(), t.configs(), t.alter(), t.reassign(), t.reassignments())
	return cmd
}

type topicsOptions struct {
	clientFlags
	timeout time.Duration
}

// with calls do with a client of the cluster.
func (t *topicsOptions) with(cmd *cobra.Command, do func(context.Context, *kadm.Client) error) error {
	cause := fmt.Errorf("no answer from %s within %s", t.bootstrap, t.timeout)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), t.timeout, cause)
	defer cancel()
	cl, err := t.client("refbroker-topics")
	if err != nil {
		return err
	}
	defer cl.Close()
	err = do(ctx, kadm.NewClient(cl))
	if err != nil && errors.Is(context.Cause(ctx), cause) {
		return cause
	}
	return err
}

func (t *topicsOptions) create() *cobra.Command {
	var partitions int32
	var replication int16
	var configs []string
	cmd := &cobra.Command{
		Use:   "create TOPIC…",
		Short: "Create topics",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			given := map[string]*string{}
			for _, text := range configs {
				key, value, ok := strings.Cut(text, "=")
				if !ok {
					return usagef("--config %q: want KEY=VALUE", text)
				}
				given[key] = &value
			}
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				made, err := c.CreateTopics(ctx, partitions, replication, given, names...)
				if err != nil {
					return err
				}
				for _, name := range names {
					m := made[name]
					if m.Err != nil {
						return fmt.Errorf("create %s: %w", m.Topic, worded(m.Err, m.ErrMessage))
					}
					noun := "partitions"
					if m.NumPartitions == 1 {
						noun = "partition"
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "created %s (%d %s)\n", m.Topic, m.NumPartitions, noun); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().Int32Var(&partitions, "partitions", 1, "number of partitions")
	cmd.Flags().Int16Var(&replication, "replication-factor", -1, "replicas of each partition (default the broker's)")
	cmd.Flags().StringArrayVar(&configs, "config", nil, "a topic config, `KEY=VALUE` (repeatable)")
	return cmd
}

// worded is an error with the words that the broker sent with it.
func worded(err error, message string) error {
	if message == "" {
		return err
	}
	return errors.New(message)
}

func (t *topicsOptions) list() *cobra.Command {
	var internal bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				topics, err := c.ListTopicsWithInternal(ctx)
				if err != nil {
					return err
				}
				for _, d := range topics.Sorted() {
					if d.IsInternal && !internal {
						continue
					}
					if _, err := fmt.Fprintln(cmd.OutOrStdout(), d.Topic); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&internal, "internal", false, "internal topics too")
	return cmd
}

func (t *topicsOptions) describe() *cobra.Command {
	return &cobra.Command{
		Use:   "describe TOPIC…",
		Short: "Show partitions with their leaders and offsets",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				return describeTopics(ctx, cmd.OutOrStdout(), c, names)
			})
		},
	}
}

// describeTopics prints a line for each partition of the topics.
func describeTopics(ctx context.Context, out io.Writer, c *kadm.Client, names []string) error {
	topics, err := c.ListTopics(ctx, names...)
	if err != nil {
		return err
	}
	lists := []func(context.Context, ...string) (kadm.ListedOffsets, error){
		c.ListStartOffsets, c.ListCommittedOffsets, c.ListEndOffsets,
	}
	var marks []kadm.ListedOffsets
	for _, list := range lists {
		l, err := list(ctx, names...)
		if err != nil {
			return err
		}
		marks = append(marks, l)
	}
	text := "TOPIC\tID\tPARTITION\tLEADER\tEPOCH\tREPLICAS\tISR\tSTART\tSTABLE\tEND\n"
	for _, name := range names {
		d := topics[name]
		if d.Err != nil {
			return fmt.Errorf("describe %s: %w", name, d.Err)
		}
		for _, i := range slices.Sorted(maps.Keys(d.Partitions)) {
			p := d.Partitions[i]
			text += fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%v\t%v", name, d.ID, i, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR)
			for _, l := range marks {
				mark := "?"
				if o, ok := l.Lookup(name, i); ok && o.Err == nil {
					mark = strconv.FormatInt(o.Offset, 10)
				}
				text += "\t" + mark
			}
			text += "\n"
		}
	}
	return writeTable(out, text)
}

func (t *topicsOptions) delete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete TOPIC…",
		Short: "Delete topics with all their records",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				deleted, err := c.DeleteTopics(ctx, names...)
				if err != nil {
					return err
				}
				for _, name := range names {
					d := deleted[name]
					if d.Err != nil {
						return fmt.Errorf("delete %s: %w", d.Topic, worded(d.Err, d.ErrMessage))
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "deleted %s\n", d.Topic); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
