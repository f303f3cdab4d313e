package postmortem

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

const segments = "../wirelog/testdata/kip1279-segments"

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func judged(t *testing.T, sides ...Side) *Report {
	t.Helper()
	r, err := Judge(t.Context(), sides, Options{})
	require.NoError(t, err)
	return r
}

// A failover with two open transactions, colliding ids 4 and 5, a failback and
// A's own barrier, as a public build of KIP-1279 wrote them.
func TestRealSegmentsAreToldRight(t *testing.T) {
	r := judged(t, Side{Name: "A", Folders: []string{segments + "/A"}}, Side{Name: "B", Folders: []string{segments + "/B"}})
	var text, data bytes.Buffer
	require.NoError(t, r.Text(&text))
	golden(t, "kip1279.txt", text.String())
	require.NoError(t, r.JSON(&data))
	golden(t, "kip1279.json", data.String())
	// What that build is known for: its broker still knew mirrored producers behind
	// its own barrier, as the snapshots say.
	require.Equal(t, Inconclusive, r.Outcome)
	require.Equal(t, []string{
		"kept-producer likely B 4 PSM-1+PSM-2+PSM-3", "kept-producer likely B 7 PSM-1+PSM-2+PSM-3", "kept-producer likely B 8 PSM-1+PSM-2+PSM-3",
		"kept-producer likely B 12 PSM-1+PSM-2+PSM-3", "kept-producer likely B 13 PSM-1+PSM-2+PSM-3",
	}, brief(r, Possible))
}

// One side alone, or one folder of a partition.
func TestOneFolderIsEnough(t *testing.T) {
	for _, folder := range []string{segments + "/B", segments + "/B/t2-0"} {
		r := judged(t, Side{Name: "B", Folders: []string{folder}})
		require.Equal(t, Clean, r.Outcome)
		last := r.Partitions[len(r.Partitions)-1]
		require.Equal(t, "t2", last.Topic)
		story := strings.Join(last.Story, "\n")
		require.Contains(t, story, "aborted 2 transactions that were open: producer 5 (open since offset 10, 1 record) and producer 6 (open since offset 11, 2 records)")
		require.Contains(t, story, "Producer ids 4 and 5 are of mirrored producers and of local ones")
	}
}

// The judge must not share the defendant's code.
func TestNoCodeOfABroker(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for _, pkg := range strings.Fields(string(out)) {
		for _, bad := range []string{"watershed.example/psm", "watershed.example/mirrorrpc", "watershed.example/refbroker"} {
			require.False(t, pkg == bad || strings.HasPrefix(pkg, bad+"/"), "postmortem imports %s", pkg)
		}
	}
}
