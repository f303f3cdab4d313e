//go:build linux

package torture

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machineOf runs nodes as processes of this test binary.
func machineOf(t *testing.T) *processes {
	self, err := os.Executable()
	require.NoError(t, err)
	return &processes{dir: t.TempDir(), told: &transcript{}, command: func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childVariable+"=1")
		return cmd
	}}
}

// Real processes, sockets and disks: killed, held up, stopped, cut off.
func TestLinearizableInProcesses(t *testing.T) {
	t.Parallel() // they wait more than they work
	m := machineOf(t)
	p := &plan{
		seed: *firstSeed, machine: m, faults: append(faults(), pauses(), pauses()), load: *load, think: 40 * time.Millisecond,
		timeout: 4 * time.Second, extra: []string{"--replica-lag-time-max", "3s", "--session-timeout", "1s"},
		others: []func(context.Context, *cluster, *history, []partition) error{franz(101)},
	}
	r, err := p.run(context.Background())
	finish(t, p.seed, r, err, m.told.bytes())
	require.NotZero(t, r.records)
}

// Nodes are killed again and again under load; each time all replicas come back
// in sync, and nothing that was acknowledged is lost.
func TestKillCycles(t *testing.T) {
	t.Parallel() // they wait more than they work
	m := machineOf(t)
	p := &plan{
		seed: *firstSeed, machine: m, trouble: killCycles(*cycles, 2*time.Minute), load: time.Hour, think: 60 * time.Millisecond,
		timeout: 4 * time.Second, extra: []string{"--session-timeout", "600ms"},
		others: []func(context.Context, *cluster, *history, []partition) error{franz(101)},
	}
	began := time.Now()
	r, err := p.run(context.Background())
	finish(t, p.seed, r, err, m.told.bytes())
	require.NotZero(t, r.records)
	t.Logf("%d cycles in %s", *cycles, time.Since(began).Round(time.Second))
}

// One node, killed at random moments.
func TestAloneInAProcess(t *testing.T) {
	t.Parallel() // they wait more than they work
	m := machineOf(t)
	a := &alone{seed: *firstSeed, machine: m, cycles: *cycles / 2}
	r, err := a.run(context.Background())
	finish(t, a.seed, r, err, m.told.bytes())
}
