package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// everyCommand calls do with each command of the tree that can be run.
func everyCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			everyCommand(sub, do)
		}
	}
}

// Each command says in a line what it does, and shows how it is called; and what
// it shows is a call that its flags and arguments allow.
func TestEveryCommandHasAnExample(t *testing.T) {
	seen := 0
	everyCommand(rootCommand(RealHost()), func(c *cobra.Command) {
		seen++
		require.NotEmpty(t, c.Short, c.CommandPath())
		if !c.HasParent() {
			require.Contains(t, c.Long, "  refbroker ")
			return
		}
		require.NotEmpty(t, c.Example, "%s has no example", c.CommandPath())
		for line := range strings.Lines(c.Example) {
			require.True(t, strings.HasPrefix(line, "  refbroker "), "%s: example %q", c.CommandPath(), line)
			words := strings.Fields(line)
			// A tree of its own, since flags remember what they were given.
			called, args, err := rootCommand(RealHost()).Find(words[1:])
			require.NoError(t, err, line)
			require.True(t, strings.HasPrefix(called.CommandPath(), c.CommandPath()), "%q is no example of %s", line, c.CommandPath())
			require.NoError(t, called.ParseFlags(args), line)
			require.NoError(t, called.ValidateRequiredFlags(), line)
			require.NoError(t, called.ValidateArgs(called.Flags().Args()), line)
		}
	})
	require.Greater(t, seen, 20)
}

func TestExamplesAreOfCommands(t *testing.T) {
	root := rootCommand(RealHost())
	for path := range examples() {
		c, _, err := root.Find(strings.Fields(path))
		require.NoError(t, err, path)
		require.Equal(t, "refbroker "+path, c.CommandPath())
	}
}
