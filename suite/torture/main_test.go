package torture

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed")
	seeds     = flag.Int("seeds", 20, "how many seeds in virtual time")
	load      = flag.Duration("load", 20*time.Second, "how long clients write in each run")
	cycles    = flag.Int("cycles", 50, "how often nodes are killed")
	out       = flag.String("out", filepath.Join(os.TempDir(), "watershed-torture"), "folder for what tells of a failure")
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }
