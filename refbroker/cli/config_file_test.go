package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// flagsOf are the flags of serve after a file and a command line.
func flagsOf(t *testing.T, file string, args ...string) (*serveFlags, error) {
	t.Helper()
	fs := afero.NewMemMapFs()
	require.NoError(t, afero.WriteFile(fs, "/etc/refbroker.yaml", []byte(file), 0o644))
	var f serveFlags
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.register(flags)
	require.NoError(t, flags.Parse(args))
	return &f, fromFile(fs, "/etc/refbroker.yaml", flags)
}

func TestAConfigFileIsReadAsTheCommandLine(t *testing.T) {
	f, err := flagsOf(t, `
# a node of east
node-id: 2
data-dir: "/var/lib/refbroker"
cluster-id: 0123
session-timeout: 3s
listener:
  - link=127.0.0.1:1/127.0.0.1:2
  - other=127.0.0.1:3
voter: {1: "a:1", 2: "b:2"}
topic-defaults:
  min.insync.replicas: 2
  retention.ms: -1
defect: no-barrier
log-format: json
max-connections: 7
group-initial-rebalance-delay: 0s
`)
	require.NoError(t, err)
	require.Equal(t, int32(2), f.nodeID)
	require.Equal(t, "/var/lib/refbroker", f.dataDir)
	require.Equal(t, "0123", f.clusterID, "as it is written")
	require.Equal(t, 3*time.Second, f.sessionTimeout)
	require.Equal(t, []string{"link=127.0.0.1:1/127.0.0.1:2", "other=127.0.0.1:3"}, f.listeners)
	require.Equal(t, []string{"1=a:1", "2=b:2"}, f.voters)
	require.Equal(t, []string{"min.insync.replicas=2", "retention.ms=-1"}, f.topicDefaults)
	require.Equal(t, []string{"no-barrier"}, f.defects)
	require.Equal(t, 7, f.limits.MaxConns)
	require.Equal(t, "127.0.0.1:9092", f.listen, "what the file leaves out")

	f.testHooks, f.raftListen = "socket", "127.0.0.1:9"
	cfg, err := f.config()
	require.NoError(t, err)
	require.Equal(t, 7, cfg.Limits.MaxConns)
	require.Equal(t, time.Duration(-1), cfg.Groups.InitialRebalanceDelay)

	f, err = flagsOf(t, "\n# nothing\n")
	require.NoError(t, err)
	require.Equal(t, int32(1), f.nodeID)
}

func TestTheCommandLineGoesBeforeTheFile(t *testing.T) {
	f, err := flagsOf(t, "node-id: 2\nvoter: [1=a:1, 2=b:2]\nlog-level: debug\n", "--node-id", "1", "--voter", "1=c:1")
	require.NoError(t, err)
	require.Equal(t, int32(1), f.nodeID)
	require.Equal(t, []string{"1=c:1"}, f.voters, "a list is the command line's as a whole")
	require.Equal(t, "debug", f.logLevel)
}

func TestAConfigFileThatIsWrongNamesFileLineAndKey(t *testing.T) {
	for file, want := range map[string]string{
		"node-id: 1\nnode.id: 2\n":                `--config /etc/refbroker.yaml:2: "node.id": no such flag`,
		"\n\nnode-id: one\n":                      `--config /etc/refbroker.yaml:3: "node-id": value "one": `,
		"node-id: 1\nlisten: a:1\nnode-id: 2\n":   `--config /etc/refbroker.yaml:3: "node-id": given before, in line 1`,
		"node-id: [1, 2]\n":                       `--config /etc/refbroker.yaml:1: "node-id": want one value`,
		"data-dir:\n":                             `--config /etc/refbroker.yaml:1: "data-dir": no value`,
		"voter:\n- 1=a:1\n- [2]\n":                `--config /etc/refbroker.yaml:1: "voter": line 3: want a list of values, or a mapping`,
		"topic-defaults: {a: {b: c}}\n":           `--config /etc/refbroker.yaml:1: "topic-defaults": line 1: want a list of values, or a mapping`,
		"ready-fd: 3\n":                           `--config /etc/refbroker.yaml:1: "ready-fd": belongs on the command line`,
		"config: other.yaml\n":                    `--config /etc/refbroker.yaml:1: "config": belongs on the command line`,
		"- node-id\n":                             `--config /etc/refbroker.yaml:1: want a mapping of flags to values`,
		"node-id: 1\n---\nnode-id: 2\n":           `--config /etc/refbroker.yaml: want one document`,
		"node-id: {\n":                            `--config /etc/refbroker.yaml: yaml: `,
		"session-timeout: 3\n":                    `--config /etc/refbroker.yaml:1: "session-timeout": value "3": `,
		strings.Repeat("# x\n", 40) + "port: 1\n": `--config /etc/refbroker.yaml:41: "port": no such flag`,
	} {
		_, err := flagsOf(t, file)
		require.ErrorContains(t, err, want, file)
	}
	_, err := flagsOf(t, "no.such.key: 1\n", "--node-id", "3")
	require.ErrorContains(t, err, "no such flag", "also where the command line says all")
}

func TestServeReadsItsConfigFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "refbroker.yaml")
	require.NoError(t, os.WriteFile(file, []byte("data-dir: "+filepath.Join(dir, "data")+"\nnode-id: 7\n"), 0o644))
	r := serveHere(t, "--config", file)
	require.Equal(t, int32(7), r.NodeID)
	require.DirExists(t, filepath.Join(dir, "data"))
	r.stop()
	r.end(t)

	require.NoError(t, os.WriteFile(file, []byte("node-id: 7\nbroker.id: 7\n"), 0o644))
	code, _, stderr := run(t.Context(), "serve", "--config", file)
	require.Equal(t, []any{2, "refbroker: --config " + file + `:2: "broker.id": no such flag` + "\n"}, []any{code, stderr})
	code, _, stderr = run(t.Context(), "serve", "--config", filepath.Join(dir, "none"))
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--config: open "+filepath.Join(dir, "none"))
}
