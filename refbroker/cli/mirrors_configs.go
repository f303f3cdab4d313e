package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"watershed.example/mirrorrpc"
)

// configRow is one setting of a mirror.
type configRow struct {
	Mirror string `json:"mirror"`
	Name   string `json:"name"`
	Value  string `json:"value"`
}

type configTable []configRow

func (configTable) none() string { return "No configs found" }

func (t configTable) rows() [][]string {
	rows := [][]string{{"MIRROR", "CONFIG", "VALUE"}}
	for _, r := range t {
		rows = append(rows, []string{r.Mirror, r.Name, r.Value})
	}
	return rows
}

// mirrorsConfigs is "mirrors configs": shows the settings of a mirror that may
// change while it runs, and changes them.
func mirrorsConfigs(o *mirrorsOptions) *cobra.Command {
	var set, unset []string
	cmd := &cobra.Command{
		Use:   "configs MIRROR [--set NAME=VALUE] [--unset NAME]",
		Short: "Show a mirror's patterns of topics and groups, its throttle and its refresh, and change them",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			changes := map[string]*string{}
			for _, c := range set {
				name, value, ok := strings.Cut(c, "=")
				if !ok {
					return fmt.Errorf("--set %q: want NAME=VALUE", c)
				}
				changes[name] = &value
			}
			for _, name := range unset {
				changes[name] = nil
			}
			return o.client(cmd, func(ctx context.Context, c mirrorrpc.Client) error {
				if len(changes) > 0 {
					if err := c.Alter(ctx, args[0], changes); err != nil {
						return err
					}
				}
				mirrors, err := c.Describe(ctx, args[0])
				if err != nil {
					return err
				}
				t := configTable{}
				for _, m := range mirrors {
					for _, one := range m.Configs {
						row := configRow{Mirror: m.MirrorName, Name: one.Name}
						if one.Value != nil {
							row.Value = *one.Value
						}
						t = append(t, row)
					}
				}
				return o.print(cmd.OutOrStdout(), t)
			})
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "a setting, `NAME=VALUE` (repeatable)")
	cmd.Flags().StringArrayVar(&unset, "unset", nil, "`NAME` of a setting that goes back to its default (repeatable)")
	return cmd
}
