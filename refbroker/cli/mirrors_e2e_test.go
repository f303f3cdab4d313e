package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The life of a mirror by the commands alone.
func TestMirrorsFromCreateToDelete(t *testing.T) {
	a := serveHere(t, "--data-dir", filepath.Join(t.TempDir(), "a"))
	data := filepath.Join(t.TempDir(), "b")
	b := serveHere(t, "--data-dir", data)
	at := func(r *running, command, args string) []string {
		return append([]string{command, "--bootstrap-server", r.Listeners["client"]}, strings.Fields(args)...)
	}
	ok := func(args []string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := run(t.Context(), args...)
		require.Zero(t, code, stderr)
		return stdout, stderr
	}
	fails := func(args []string, want string) {
		t.Helper()
		code, _, stderr := run(t.Context(), args...)
		require.Equal(t, ExitFailed, code)
		require.Contains(t, stderr, want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	write := func(r *running) {
		t.Helper()
		cl, err := kgo.NewClient(kgo.SeedBrokers(r.Listeners["client"]), kgo.DisableClientMetrics(), kgo.DefaultProduceTopic("orders"))
		require.NoError(t, err)
		defer cl.Close()
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr())
	}
	ok(at(a, "topics", "create orders --partitions 1"))
	write(a)
	ok(at(b, "mirrors", "create m --source "+a.Listeners["client"]))
	stdout, _ := ok(at(b, "mirrors", "start m orders --wait"))
	require.Equal(t, "Started 1 mirror topic(s) in mirror m: [orders]\n", stdout)
	fails(at(b, "topics", "delete-records orders --before -1"), "delete records of orders-0: READ_ONLY_TOPIC")
	fails(at(b, "topics", "delete orders"), "stop the mirror first")
	stdout, _ = ok(at(b, "mirrors", "bump orders --above 40 -o json"))
	require.JSONEq(t, `{"topic":"orders","partitions":[0],"above":40}`, stdout)
	fails(at(b, "mirrors", "bump orders --above 40 --partition 7"), "UNKNOWN_TOPIC_OR_PARTITION")
	fails(at(b, "mirrors", "bump nothing --above 40"), "UNKNOWN_TOPIC_OR_PARTITION")

	stdout, _ = ok(at(b, "mirrors", "pause m orders --wait"))
	require.Equal(t, "Paused mirroring for 1 topic(s) in mirror m: [orders]\n", stdout)
	fails(at(b, "mirrors", "delete m"), "CLUSTER_MIRROR_NOT_EMPTY")
	stdout, _ = ok(at(b, "mirrors", "resume m orders --wait"))
	require.Equal(t, "Resumed mirroring for 1 topic(s) in mirror m: [orders]\n", stdout)
	stdout, _ = ok(at(b, "mirrors", "stop m orders --wait --output json"))
	var stopped struct {
		Mirror     string         `json:"mirror"`
		Stopped    []string       `json:"stopped"`
		Partitions []describedRow `json:"partitions"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &stopped))
	require.Equal(t, []string{"orders"}, stopped.Stopped)
	require.Len(t, stopped.Partitions, 1)
	p := stopped.Partitions[0]
	require.Equal(t, []any{"STOPPED", int64(1), int64(1)}, []any{p.State, p.StopOffset, p.BarrierOffset})
	require.Greater(t, p.LeaderEpoch, int32(40))
	// BAR-7: the dump names the barrier that this broker wrote, and its fields.
	stdout, _ = ok([]string{"dump-log", "--print-data-log", "--files", filepath.Join(data, "logs", "orders-0", "00000000000000000000.log")})
	require.Regexp(t, `(?m)^baseOffset: 1 lastOffset: 1 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 `+
		fmt.Sprintf("partitionLeaderEpoch: %d ", p.LeaderEpoch)+
		`isTransactional: false isControl: true deleteHorizonMs: OptionalLong.empty position: \d+ CreateTime: \d+ size: 98 magic: 2 `+
		`compresscodec: none crc: \d+ isvalid: true\n\| offset: 1 CreateTime: \d+ keySize: 4 valueSize: 26 sequence: -1 headerKeys: \[\] `+
		`MirrorPidReset \{"version":0,"sourceClusterId":"`+a.ClusterID+`"\}\n`, stdout)
	fails(at(b, "mirrors", "resume m orders"), "MIRROR_TOPIC_NOT_PAUSED")
	fails(at(b, "mirrors", "pause m orders"), "MIRROR_TOPIC_BEING_STOPPED")
	// Patterns and settings.
	stdout, _ = ok(at(b, "mirrors", "start m --pattern later.*"))
	require.Equal(t, "No matching topics found yet. Patterns saved to mirror m for auto-discovery.\n", stdout)
	stdout, _ = ok(at(b, "mirrors", "stop m --pattern later.* -o json"))
	require.JSONEq(t, `{"mirror":"m","stopped":[]}`, stdout)
	fails(at(b, "mirrors", "start m --pattern ("), `pattern "("`)
	stdout, _ = ok(at(b, "mirrors", "configs m --set mirror.replication.throttled.rate=4096"))
	require.Regexp(t, `(?m)^m +mirror\.replication\.throttled\.rate +4096$`, stdout)
	fails(at(b, "mirrors", "configs m --set mirror.replication.throttled.rate=x"), "INVALID_CONFIG")
	stdout, _ = ok(at(b, "mirrors", "configs m --unset mirror.replication.throttled.rate -o json"))
	require.Contains(t, stdout, `"value": "9223372036854775807"`)
	stdout, _ = ok(at(b, "mirrors", "delete m -o json"))
	require.JSONEq(t, `{"deleted":"m"}`, stdout)
	write(b)

	stdout, _ = ok(at(b, "topics", "delete-records orders --before 2"))
	require.Equal(t, "orders-0 begins at 2\n", stdout)
	stdout, _ = ok(at(b, "topics", "delete-records orders --before -1 --partition 0"))
	require.Equal(t, "orders-0 begins at 3\n", stdout)
	fails(at(b, "topics", "delete-records orders --before 9"), "OFFSET_OUT_OF_RANGE")
	fails(at(b, "topics", "delete-records orders --before 1 --partition 3"), "no partition 3")
	fails(at(b, "topics", "delete-records nothing --before 1"), "UNKNOWN_TOPIC_OR_PARTITION")
	for _, r := range []*running{a, b} {
		r.stop()
		r.end(t)
	}
}
