package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/engine"
)

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "explain REQ-ID...",
		Short:   "Say what a requirement demands, and what shows it",
		Example: "  watershed explain BAR-1\n  watershed explain bar",
		Long:    "Say what a requirement demands, and what shows it: its check, scenarios that exercise it, and defects that violate it. A family's name lists its requirements.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("explain: which requirement? Give an id such as BAR-1, or a family: %s", strings.Join(families(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, id := range args {
				text, err := explain(strings.ToUpper(id))
				if err != nil {
					return err
				}
				if i > 0 {
					text = "\n" + text
				}
				if _, err := fmt.Fprint(cmd.OutOrStdout(), text); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// explain is all that is known of a requirement.
func explain(id string) (string, error) {
	req, ok := contract.Get(id)
	if family := ofFamily(id); !ok && family != "" {
		return family, nil
	}
	if !ok {
		return "", fmt.Errorf("explain %q: no such requirement; families: %s", id, strings.Join(families(), ", "))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s; %s)\n  %s\n", req.ID, req.Level, req.Source, req.Text)
	looks := check.Looks(id)
	if looks == "" {
		looks = "nobody judges it yet"
	}
	fmt.Fprintf(&b, "judged     %s\n", looks)
	lines := func(label string, names []string) {
		if len(names) == 0 {
			names = []string{"none"}
		}
		for _, n := range names {
			fmt.Fprintf(&b, "%-10s %s\n", label, n)
			label = ""
		}
	}
	lines("scenarios", engine.Exercising(id))
	lines("defects", engine.Violating(id))
	return b.String(), nil
}

// ofFamily lists the requirements of a family, "" where there is none of that name.
func ofFamily(name string) string {
	var b strings.Builder
	for _, r := range contract.All() {
		if r.Family() == strings.TrimSuffix(name, "-") {
			fmt.Fprintf(&b, "%-7s %s  %s\n", r.ID, r.Level, r.Text)
		}
	}
	return b.String()
}

func families() (all []string) {
	for _, r := range contract.All() {
		all = append(all, r.Family())
	}
	return slices.Compact(all)
}
