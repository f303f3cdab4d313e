package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"watershed.example/fixtures"
	"watershed.example/fixtures/kafka"
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
				{"mvn", "fetching Apache Kafka: ci/kafka-fetch"},
				{"python3", "clients of ci/conformance"},
			} {
				says := "not in PATH, needed for " + tool.for_
				if at, err := exec.LookPath(tool.name); err == nil {
					says = at
				}
				line(tool.name, says)
			}
			java, jars, images := otherBrokers(cmd.Context())
			line("java", java)
			line("Apache Kafka's jars", jars)
			line("images", images)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "target", "", "`FILE` that describes clusters which run already: what can be certified there")
	return cmd
}

// otherBrokers says what is here to make single clusters of another broker of.
func otherBrokers(ctx context.Context) (java, jars, images string) {
	const for_ = "--broker=kafka from jars, ci/conformance, ci/bench kafka, ci/kafka-certify"
	java, err := kafka.JavaFound()
	if err != nil {
		java = "no: " + err.Error() + "; needed for " + for_
	}
	if jars, err = kafka.Jars(); err == nil {
		release, bad := kafka.Open(jars, "")
		jars, err = fmt.Sprintf("version %s in %s", release.Version, release.Jars), bad
	}
	if err != nil {
		jars = "no: " + err.Error() + "; needed for --broker=kafka without --jars or --image"
	}
	all, err := fixtures.KafkaImages(ctx)
	switch {
	case err != nil:
		images = "not known: " + err.Error()
	case len(all) == 0:
		images = "Docker has none of Apache Kafka or Redpanda: --image NAME pulls it"
	default:
		images = strings.Join(all, ", ") + " (--broker=kafka or redpanda, --image NAME)"
	}
	return java, jars, images
}
