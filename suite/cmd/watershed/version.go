package main

import (
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
	version, revision := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	return version + revision
}
