package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTopicsReassign(t *testing.T) {
	b := serveHere(t, "--data-dir", filepath.Join(t.TempDir(), "b"), "--node-id", "7")
	at := func(args string) (code int, stdout, stderr string) {
		return run(t.Context(), append([]string{"topics", "--bootstrap-server", b.Listeners["client"]}, strings.Fields(args)...)...)
	}
	code, _, stderr := at("create orders --partitions 2")
	require.Zero(t, code, stderr)
	code, stdout, stderr := at("reassign orders --replicas 7 --wait")
	require.Zero(t, code, stderr)
	require.Equal(t, "orders-0 is being reassigned\norders-1 is being reassigned\n", stdout)
	code, stdout, stderr = at("reassign orders --replicas 7 --partition 1")
	require.Zero(t, code, stderr)
	require.Equal(t, "orders-1 is being reassigned\n", stdout)
	code, stdout, stderr = at("reassignments")
	require.Zero(t, code, stderr)
	require.Equal(t, "TOPIC  PARTITION  REPLICAS  ADDING  REMOVING\n", stdout)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"reassign orders --replicas 7,9", ExitFailed, "no broker 9"},
		{"reassign orders --replicas 7,7", ExitFailed, "broker 7 twice"},
		{"reassign orders --cancel", ExitFailed, "nothing to cancel"},
		{"reassign orders --replicas 7 --partition 5", ExitFailed, "orders-5"},
		{"reassign nothing --replicas 7", ExitFailed, "UNKNOWN_TOPIC_OR_PARTITION"},
		{"reassign orders", ExitUsage, "want either --replicas or --cancel"},
		{"reassign orders --replicas 7 --cancel", ExitUsage, "want either --replicas or --cancel"},
	} {
		code, _, stderr := at(c.args)
		require.Equal(t, c.code, code, c.args)
		require.Contains(t, stderr, c.want, c.args)
	}
	b.stop()
	b.end(t)
}
