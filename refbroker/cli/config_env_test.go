package cli

import (
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// withEnvironment are the flags of serve after command line, variables and file.
func withEnvironment(t *testing.T, env map[string]string, file string, args ...string) (*serveFlags, error) {
	t.Helper()
	fs := afero.NewMemMapFs()
	require.NoError(t, afero.WriteFile(fs, "/etc/refbroker.yaml", []byte(file), 0o644))
	var f serveFlags
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.register(flags)
	require.NoError(t, flags.Parse(args))
	if err := fromEnvironment(func(name string) string { return env[name] }, flags); err != nil {
		return &f, err
	}
	return &f, fromFile(fs, "/etc/refbroker.yaml", flags)
}

func TestTheCommandLineGoesBeforeVariablesAndTheseBeforeTheFile(t *testing.T) {
	f, err := withEnvironment(t, map[string]string{
		"REFBROKER_NODE_ID": "2", "REFBROKER_LISTEN": "127.0.0.1:2", "REFBROKER_VOTER": "1=a:1  2=b:2", "REFBROKER_SESSION_TIMEOUT": "2s",
		"REFBROKER_TOPIC_DEFAULTS": "cleanup.policy=compact,delete min.insync.replicas=2", "REFBROKER_LIFELINE_FD": "7", "REFBROKER_HTTP": "",
	}, "node-id: 3\nlisten: 127.0.0.1:3\nlog-level: debug\nvoter: [1=c:1]\nhttp: 127.0.0.1:4\n", "--node-id", "1")
	require.NoError(t, err)
	require.Equal(t, int32(1), f.nodeID, "the command line's")
	require.Equal(t, "127.0.0.1:2", f.listen, "the variable's")
	require.Equal(t, []string{"1=a:1", "2=b:2"}, f.voters, "a list is the variable's as a whole")
	require.Equal(t, []string{"cleanup.policy=compact,delete", "min.insync.replicas=2"}, f.topicDefaults)
	require.Equal(t, 2*time.Second, f.sessionTimeout)
	require.Equal(t, "debug", f.logLevel, "the file's")
	require.Equal(t, "127.0.0.1:4", f.http, "an empty variable is none")
	require.Equal(t, -1, f.lifelineFD, "it belongs to one start")
}

func TestAVariableThatIsWrongIsNamed(t *testing.T) {
	_, err := withEnvironment(t, map[string]string{"REFBROKER_NODE_ID": "one"}, "")
	require.ErrorContains(t, err, `REFBROKER_NODE_ID: value "one": `)
}

func TestServeReadsItsVariables(t *testing.T) {
	t.Setenv("REFBROKER_NODE_ID", "one")
	code, _, stderr := run(t.Context(), "serve")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, `refbroker: REFBROKER_NODE_ID: value "one"`)
}
