package main

import (
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"watershed.example/fixtures"
)

func doctorCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "doctor [--target FILE]",
		Short:   "Say what this machine, or a target, can run, and why not the rest",
		Args:    cobra.NoArgs,
		Example: "  watershed doctor\n  watershed doctor --target target.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				return doctorTarget(cmd, file)
			}
			var err error
			line := func(what, says string) {
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%-22s %s\n", what, says)
				}
			}
			line("machine", fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()))
			_, why, choice := fixtures.Choose("auto")
			for _, name := range []string{"process", "container"} {
				says := "usable"
				if bad := fixtures.Doctor(name); bad != nil {
					says = "no: " + bad.Error()
				}
				line("launcher "+name, says)
			}
			if choice != nil {
				why = choice.Error()
			}
			line("launcher auto", why)
			for _, tool := range []struct{ name, for_ string }{
				{"go", "building the image of the container launcher"},
				{"java", "Apache Kafka: ci/conformance, ci/bench kafka"},
				{"mvn", "fetching Apache Kafka: ci/kafka-fetch"},
				{"python3", "clients of ci/conformance"},
			} {
				says := "not in PATH, needed for " + tool.for_
				if at, err := exec.LookPath(tool.name); err == nil {
					says = at
				}
				line(tool.name, says)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "target", "", "`FILE` that describes clusters which run already: what can be certified there")
	return cmd
}
