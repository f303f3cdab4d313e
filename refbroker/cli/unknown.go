package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refuseUnknown makes an unknown command below one that only has commands a mistake:
// cobra would print the help and call it a success, and so would a script.
func refuseUnknown(c *cobra.Command) {
	for _, sub := range c.Commands() {
		refuseUnknown(sub)
	}
	if !c.HasSubCommands() || c.Runnable() {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return pflag.ErrHelp // the help, and no mistake
		}
		meant := ""
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			meant = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("unknown command %q for %q%s (%s --help)", args[0], c.CommandPath(), meant, c.CommandPath())
	}
	c.RunE = func(*cobra.Command, []string) error { return pflag.ErrHelp }
}
