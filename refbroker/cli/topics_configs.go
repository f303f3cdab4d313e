package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// configs prints what topics are configured with.
func (t *topicsOptions) configs() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "configs TOPIC…",
		Short: "Show the configs that topics set, or all that hold for them",
		Example: `  refbroker topics configs orders
  refbroker topics configs orders --all`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				described, err := c.DescribeTopicConfigs(ctx, names...)
				if err != nil {
					return err
				}
				text := "TOPIC\tCONFIG\tVALUE\tSET-BY\n"
				for _, name := range names {
					d, err := described.On(name, nil)
					if err = errors.Join(err, d.Err); err != nil {
						return fmt.Errorf("configs of %s: %w", name, worded(err, d.ErrMessage))
					}
					slices.SortFunc(d.Configs, func(a, b kadm.Config) int { return strings.Compare(a.Key, b.Key) })
					for _, v := range d.Configs {
						if all || v.Source == kmsg.ConfigSourceDynamicTopicConfig {
							text += fmt.Sprintf("%s\t%s\t%s\t%s\n", name, v.Key, v.MaybeValue(), setBy(v.Source))
						}
					}
				}
				return writeTable(cmd.OutOrStdout(), text)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those too that the topic doesn't set")
	return cmd
}

func setBy(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "topic"
	case kmsg.ConfigSourceStaticBrokerConfig, kmsg.ConfigSourceDynamicBrokerConfig, kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return "broker"
	}
	return "default"
}

// alter changes what a topic sets.
func (t *topicsOptions) alter() *cobra.Command {
	var set, unset []string
	cmd := &cobra.Command{
		Use:   "alter TOPIC…",
		Short: "Change the configs of topics; what is not named stays",
		Example: `  refbroker topics alter orders --set retention.ms=604800000 --set min.insync.replicas=2
  refbroker topics alter orders --unset retention.ms`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			var changes []kadm.AlterConfig
			for _, text := range set {
				key, value, ok := strings.Cut(text, "=")
				if !ok {
					return usagef("--set %q: want KEY=VALUE", text)
				}
				changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
			}
			for _, key := range unset {
				changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
			}
			if len(changes) == 0 {
				return usagef("nothing to change: give --set or --unset")
			}
			return t.with(cmd, func(ctx context.Context, c *kadm.Client) error {
				altered, err := c.AlterTopicConfigs(ctx, changes, names...)
				if err != nil {
					return err
				}
				for _, name := range names {
					a, err := altered.On(name, nil)
					if err = errors.Join(err, a.Err); err != nil {
						return fmt.Errorf("alter %s: %w", name, worded(err, a.ErrMessage))
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "altered %s\n", name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "a config and its new value, `KEY=VALUE` (repeatable)")
	cmd.Flags().StringArrayVar(&unset, "unset", nil, "a config that goes back to its default, `KEY` (repeatable)")
	return cmd
}
