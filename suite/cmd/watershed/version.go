package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"watershed.example/suite/contract"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which build this is, and of which contract",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "watershed %s, %d requirements\n", buildVersion(), len(contract.All()))
			return err
		},
	}
}

// buildVersion is the version of this build, and its revision where that is known.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	said := map[string]string{}
	for _, s := range info.Settings {
		said[s.Key] = s.Value
	}
	version := cmp.Or(info.Main.Version, devel)
	switch revision := said["vcs.revision"]; {
	case revision != "" && said["vcs.modified"] == "true":
		return version + " " + revision + ", changed since"
	case revision != "":
		return version + " " + revision
	case version == devel:
		return version + ", of no known revision" // go run and go test record none
	}
	return version
}

// devel is the version of a build that has none.
const devel = "(devel)"
