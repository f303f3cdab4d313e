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

// A command that is not there is told from help that was asked for, on any level.
func TestUnknownCommands(t *testing.T) {
	tests := []struct {
		args []string
		want string // of the one line; "" for help
	}{
		{[]string{"mirors"}, `unknown command "mirors" for "refbroker"`},
		{[]string{"mirrors", "stap", "X", "Y"}, `unknown command "stap" for "refbroker mirrors"; did you mean start or stop? (refbroker mirrors --help)`},
		{[]string{"topics", "drop"}, `unknown command "drop" for "refbroker topics"`},
		{[]string{"groups", "reset", "--bootstrap-server", "127.0.0.1:1"}, `unknown command "reset" for "refbroker groups"`},
		{[]string{"hooks", "jump"}, `unknown command "jump" for "refbroker hooks"`},
		{[]string{"mirrors"}, ""},
		{[]string{"hooks"}, ""},
		{[]string{"topics", "--help"}, ""},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, stdout, stderr := run(t.Context(), test.args...)
			if test.want == "" {
				require.Zero(t, code)
				require.Contains(t, stdout, "Available Commands:")
				require.Empty(t, stderr)
				return
			}
			require.Equal(t, ExitUsage, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, test.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
}
