package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"watershed.example/suite/contract"
	"watershed.example/suite/engine"
	"watershed.example/topologies"
)

// lists are what can be listed.
var lists = []string{"scenarios", "requirements", "defects", "topologies"}

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "list [scenarios|requirements|defects|topologies]",
		Short:     "List what can be run, judged and broken",
		ValidArgs: lists,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(lists, args[0]) {
				return fmt.Errorf("list %q: want one of %s", strings.Join(args, " "), strings.Join(lists, ", "))
			}
			return nil
		},
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
