package torture

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"watershed.example/refbroker/cli"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed")
	seeds     = flag.Int("seeds", 20, "how many seeds in virtual time")
	load      = flag.Duration("load", 20*time.Second, "how long clients write in each run")
	cycles    = flag.Int("cycles", 50, "how often nodes are killed")
	out       = flag.String("out", filepath.Join(os.TempDir(), "watershed-torture"), "folder for what tells of a failure")
)

// childVariable makes this test binary the broker.
const childVariable = "WATERSHED_TORTURE_BROKER"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "1" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.RealHost()))
	}
	flag.Parse()
	if testing.Short() {
		for name, value := range map[string]string{"seeds": "2", "cycles": "4", "load": "8s"} {
			if !given(name) {
				_ = flag.Set(name, value)
			}
		}
	}
	goleak.VerifyTestMain(m)
}

func given(name string) (yes bool) {
	flag.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
	return yes
}
