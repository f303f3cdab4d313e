package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"watershed.example/suite/contract"
	"watershed.example/suite/engine"
	"watershed.example/topologies"
)

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "list [scenarios|requirements|defects|topologies]",
		Short:     "List what can be run, judged and broken",
		ValidArgs: []string{"scenarios", "requirements", "defects", "topologies"},
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "scenarios"
			if len(args) > 0 {
				what = args[0]
			}
			var b strings.Builder
			switch what {
			case "scenarios":
				byDefault := map[string]bool{}
				for _, s := range engine.Scenarios(engine.Default) {
					byDefault[s.Name] = true
				}
				for _, s := range engine.Scenarios(engine.Full) {
					in := "full"
					if byDefault[s.Name] {
						in = "default"
					}
					fmt.Fprintf(&b, "%s  %-8s %s\n", s.Level(), in, s.Name)
				}
			case "requirements":
				for _, r := range contract.All() {
					fmt.Fprintf(&b, "%-7s %s  %s\n", r.ID, r.Level, r.Text)
				}
			case "defects":
				for _, d := range engine.DefectCases() {
					fmt.Fprintf(&b, "%-40s %-16s %s\n", d.Name, strings.Join(d.Primary, ","), d.Scenario.Name)
				}
			case "topologies":
				for _, t := range topologies.All() {
					fmt.Fprintln(&b, t.Name)
				}
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
			return err
		},
	}
}
