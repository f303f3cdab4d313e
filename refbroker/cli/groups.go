package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// groupsCommand is "refbroker groups": the consumer groups of a running
// cluster.
func groupsCommand(h Host) *cobra.Command {
	t := &topicsOptions{clientFlags: clientFlags{dial: h.Dial}}
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List, describe and delete consumer groups",
		Example: `  refbroker groups list
  refbroker groups describe billing`,
	}
	t.register(cmd.PersistentFlags(), "the cluster")
	cmd.PersistentFlags().DurationVar(&t.timeout, "timeout", 30*time.Second, "how long to wait for answers")
	cmd.AddCommand(t.listGroups(), t.describeGroups(), t.deleteGroups())
	return cmd
}

func (t *topicsOptions) listGroups() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List consumer groups with their states",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				groups, err := c.ListGroups(ctx)
				if err != nil {
					return err
				}
				text := "GROUP\tSTATE\tPROTOCOL-TYPE\n"
				for _, g := range groups.Sorted() {
					text += fmt.Sprintf("%s\t%s\t%s\n", g.Group, g.State, orDash(g.ProtocolType))
				}
				return writeTable(cmd.OutOrStdout(), text)
			})
		},
	}
}

func (t *topicsOptions) describeGroups() *cobra.Command {
	return &cobra.Command{
		Use:   "describe GROUP…",
		Short: "Show the committed offset and the lag of each partition, and who has it",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				lags, err := c.Lag(ctx, names...)
				if err != nil {
					return err
				}
				text := "GROUP\tSTATE\tTOPIC\tPARTITION\tCOMMITTED\tEND\tLAG\tMEMBER\tHOST\n"
				for _, name := range names {
					g := lags[name]
					if err := g.Error(); err != nil {
						return fmt.Errorf("describe %s: %w", name, err)
					}
					for _, l := range g.Lag.Sorted() {
						if l.Err != nil {
							return fmt.Errorf("describe %s: %s-%d: %w", name, l.Topic, l.Partition, l.Err)
						}
						member, from := "-", "-"
						if l.Member != nil {
							member, from = l.Member.MemberID, l.Member.ClientHost
						}
						text += fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n",
							name, g.State, l.Topic, l.Partition, l.Commit.At, l.End.Offset, l.Lag, member, from)
					}
				}
				return writeTable(cmd.OutOrStdout(), text)
			})
		},
	}
}

func (t *topicsOptions) deleteGroups() *cobra.Command {
	return &cobra.Command{
		Use:   "delete GROUP…",
		Short: "Delete consumer groups without members, with their offsets",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				deleted, err := c.DeleteGroups(ctx, names...)
				if err != nil {
					return err
				}
				for _, name := range names {
					if err := deleted[name].Err; err != nil {
						return fmt.Errorf("delete %s: %w", name, err)
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "deleted %s\n", name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// writeTable prints rows of columns that tabs divide.
func writeTable(out io.Writer, text string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return w.Flush()
}
