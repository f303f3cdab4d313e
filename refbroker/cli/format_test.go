package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFormatMakesAFolderThatServeTakes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	const id = "BgLeA7Q5S3uR1wVHzTd0Fw"
	format := func(args ...string) (int, string) {
		t.Helper()
		code, stdout, stderr := run(t.Context(), append([]string{"format", "--data-dir", dir}, args...)...)
		return code, stdout + stderr
	}
	code, said := format("--cluster-id", id, "--node-id", "4")
	require.Equal(t, []any{0, dir + " formatted: node 4 of cluster " + id + "\n"}, []any{code, said})
	for _, again := range [][]string{{"--node-id", "4"}, {"--node-id", "4", "--cluster-id", id}} {
		code, said = format(again...)
		require.Equal(t, []any{0, dir + " is formatted already: node 4 of cluster " + id + "\n"}, []any{code, said})
	}
	code, said = format("--node-id", "5")
	require.Equal(t, []any{1, "refbroker: data folder " + dir + " belongs to node 4, not to node 5\n"}, []any{code, said})
	code, said = format("--node-id", "4", "--cluster-id", "other")
	require.Equal(t, []any{1, "refbroker: data folder " + dir + " belongs to cluster " + id + ", not to other\n"}, []any{code, said})
	code, said = format("--node-id", "-4")
	require.Equal(t, []any{2, "refbroker: --node-id -4: want 0 or more\n"}, []any{code, said})

	code, _, said = run(t.Context(), "serve", "--listen", "127.0.0.1:0", "--data-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, said, "belongs to node 4, not to node 1")
	r := serveHere(t, "--data-dir", dir, "--node-id", "4")
	require.Equal(t, id, r.ClusterID)
	r.stop()
	r.end(t)

	require.NoError(t, os.Remove(filepath.Join(dir, "meta.properties")))
	code, said = format("--node-id", "4")
	require.Equal(t, 1, code)
	require.Contains(t, said, "has a logs, and no meta.properties that says whose")
}

func TestFormatChoosesAnId(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := run(t.Context(), "format", "--data-dir", dir)
	require.Zero(t, code, stderr)
	require.Regexp(t, `formatted: node 1 of cluster [A-Za-z0-9_-]{22}\n$`, stdout)
}

// From the first moment on a node says how it is; and its log is JSON on demand.
func TestServeTellsOperators(t *testing.T) {
	r := serveHere(t, "--data-dir", t.TempDir(), "--http", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug")
	get := func(path string) (int, string) {
		t.Helper()
		c := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := c.Get("http://" + r.HTTP + path)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(raw)
	}
	for path, want := range map[string]string{
		"/healthz": "alive\n", "/readyz": "ok      serving\n", "/metrics": "\nrefbroker_active_controller 1\n",
	} {
		code, text := get(path)
		require.Equal(t, http.StatusOK, code, "%s: %s", path, text)
		require.Contains(t, text, want)
	}
	code, _ := get("/metrics/other")
	require.Equal(t, http.StatusNotFound, code)
	_, metrics := get("/metrics")
	require.Contains(t, metrics, "\ngo_goroutines ")
	require.Contains(t, metrics, "\nprocess_start_time_seconds ")
	r.stop()
	r.end(t)
	lines := strings.Split(strings.TrimSpace(r.errs.String()), "\n")
	require.NotEmpty(t, lines)
	for _, line := range lines {
		var fields struct {
			Time, Level, Msg string
			Node             int
		}
		d := json.NewDecoder(bytes.NewReader([]byte(line)))
		require.NoError(t, d.Decode(&fields), line)
		require.Equal(t, 1, fields.Node, line)
		require.NotEmpty(t, fields.Msg, line)
	}
}

func TestTopicConfigsAreShownAndAltered(t *testing.T) {
	r := serveHere(t, "--data-dir", t.TempDir(), "--topic-defaults", "retention.bytes=4096")
	topics := func(code int, args ...string) string {
		t.Helper()
		got, stdout, stderr := run(t.Context(), append([]string{"topics", "--bootstrap-server", r.Listeners["client"]}, args...)...)
		require.Equal(t, code, got, stderr)
		return stdout + stderr
	}
	topics(0, "create", "t", "--config", "segment.bytes=2048")
	require.Equal(t, "TOPIC  CONFIG         VALUE  SET-BY\nt      segment.bytes  2048   topic\n", topics(0, "configs", "t"))
	require.Regexp(t, `\nt +retention\.bytes +4096 +broker\n`, topics(0, "configs", "t", "--all"))
	require.Equal(t, "altered t\n", topics(0, "alter", "t", "--set", "retention.ms=5", "--unset", "segment.bytes"))
	require.Equal(t, "TOPIC  CONFIG        VALUE  SET-BY\nt      retention.ms  5      topic\n", topics(0, "configs", "t"))
	require.Contains(t, topics(1, "alter", "t", "--set", "retention.ms=x"), "refbroker: alter t: ")
	require.Contains(t, topics(1, "configs", "u"), "refbroker: configs of u: ")
	require.Contains(t, topics(2, "alter", "t"), "nothing to change")
	require.Contains(t, topics(2, "alter", "t", "--set", "x"), `--set "x": want KEY=VALUE`)
	r.stop()
	r.end(t)
}
