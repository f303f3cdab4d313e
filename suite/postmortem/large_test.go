package postmortem

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What TestLargeFolder is told by.
const (
	gigabytesEnv  = "WATERSHED_POSTMORTEM_GB"
	megabytesEnv  = "WATERSHED_POSTMORTEM_MB"
	partitionsEnv = "WATERSHED_POSTMORTEM_PARTITIONS"
	packerEnv     = "WATERSHED_POSTMORTEM_CODEC"
)

func fromEnv(name string) (n int64) {
	if _, err := fmt.Sscan(os.Getenv(name), &n); err != nil {
		return 0
	}
	return n
}

// TestLargeFolder makes folders of so many gigabytes or megabytes, of so many partitions,
// each with three replicas on either side, and says how fast they were judged and how
// much memory that took.
func TestLargeFolder(t *testing.T) {
	size := fromEnv(gigabytesEnv)*1_000_000_000 + fromEnv(megabytesEnv)*1_000_000
	if size <= 0 {
		t.Skipf("set %s=10 for folders of 10 GB", gigabytesEnv)
	}
	partitions := max(fromEnv(partitionsEnv), 1)
	const replicas = 3
	root := t.TempDir()
	sides := []Side{{Name: "A"}, {Name: "B"}}
	for i := range sides {
		for r := range replicas {
			sides[i].Folders = append(sides[i].Folders, filepath.Join(root, fmt.Sprintf("%c%d", 'a'+i, r)))
			require.NoError(t, os.Mkdir(sides[i].Folders[r], 0o755))
		}
		for p := range int(partitions) {
			first := filepath.Join(bigPartition(t, root, filepath.Base(sides[i].Folders[0]), p, size/2/replicas/partitions, i == 1, os.Getenv(packerEnv)), fmt.Sprintf("orders-%d", p))
			for _, other := range sides[i].Folders[1:] { // the same file: it is read once more
				require.NoError(t, os.Mkdir(filepath.Join(other, filepath.Base(first)), 0o755))
				segments, err := filepath.Glob(filepath.Join(first, "*.log"))
				require.NoError(t, err)
				for _, s := range segments {
					require.NoError(t, os.Link(s, filepath.Join(other, filepath.Base(first), filepath.Base(s))))
				}
			}
		}
	}
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200) // what making them took is no matter; some kernels have no such file
	began := time.Now()
	r, err := Judge(t.Context(), sides, Options{})
	took := time.Since(began)
	require.NoError(t, err)
	require.Equal(t, Clean, r.Outcome, "%v", r.Findings)
	require.GreaterOrEqual(t, r.Bytes, size*9/10)
	t.Logf("%d partitions, %d bytes in %v: %.0f MB/s", len(r.Partitions), r.Bytes, took, float64(r.Bytes)/1e6/took.Seconds())
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		var peak int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &peak); n == 1 {
			t.Logf("resident at the most: %d MB", peak*1024/1_000_000)
			require.Less(t, peak*1024, int64(300_000_000))
		}
	}
}

// resident is the most memory that a process of its own had that judged a folder, in MB.
func resident(t *testing.T, megabytes int, packer string) (most int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLargeFolder$", "-test.v")
	c.Env = append(os.Environ(), fmt.Sprint(megabytesEnv, "=", megabytes), gigabytesEnv+"=0", partitionsEnv+"=2", packerEnv+"="+packer)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, after, found := strings.Cut(string(out), "resident at the most: ")
	require.True(t, found, "%s", out)
	_, err = fmt.Sscan(after, &most)
	require.NoError(t, err)
	return most
}

// A folder of many times the size takes the same memory, compressed or not.
func TestResidentMemoryDoesNotGrowWithTheFolder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux says what was resident at the most")
	}
	all := append([]string{""}, packers...)
	if testing.Short() {
		all = []string{"", "zstd"} // the others are their like
	}
	for _, packer := range all {
		t.Run(packer, func(t *testing.T) {
			much := 128
			if packer == "" {
				much = 512 // it takes no longer to make
			}
			small, large := resident(t, 16, packer), resident(t, much, packer)
			t.Logf("16 MB of logs: %d MB resident, %d MB: %d MB", small, much, large)
			require.LessOrEqual(t, large, small*5/4+20) // half of that is what the race detector needs
		})
	}
}
