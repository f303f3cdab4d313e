package torture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// In virtual time: many seeds, each with its own workload, faults and delays.
func TestLinearizableInVirtualTime(t *testing.T) {
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { inVirtualTime(t, seed) })
		})
	}
}

func inVirtualTime(t *testing.T, seed uint64) {
	v := newVirtual()
	delays := []time.Duration{2 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond}
	p := &plan{
		seed: seed, machine: v, faults: append(faults(), worse()...), load: *load, think: 60 * time.Millisecond,
		timeout: 4 * time.Second, delay: delays[seed%3],
		extra: []string{"--replica-lag-time-max", "2s", "--log-level", "info"},
	}
	r, err := p.run(context.Background())
	v.over.Wait()
	finish(t, seed, r, err, v.told.bytes())
}

// One node, killed at any write, while logs are rolled, retained, deleted from
// and compacted; what is flushed outlives a loss of power.
func TestAloneInVirtualTime(t *testing.T) {
	for i := range max(1, *seeds/2) {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := newVirtual()
				a := &alone{seed: seed, machine: v, cycles: max(1, *cycles*3/5), idle: 8 * time.Minute, power: seed%2 == 0}
				r, err := a.run(context.Background())
				v.over.Wait()
				finish(t, seed, r, err, v.told.bytes())
			})
		})
	}
}

// finish fails a test whose run has findings, and saves what tells why.
func finish(t *testing.T, seed uint64, r *report, err error, told []byte) {
	t.Helper()
	if r != nil && err == nil {
		err = r.err()
	}
	if r != nil {
		t.Logf("seed %d: %d records acknowledged, %d outcomes unknown, %d reads, %d transactions committed, %d aborted, %d strange; faults: %v",
			seed, r.records, r.unknowns, r.reads, r.committed, r.aborted, r.strange, r.done)
	}
	if err == nil {
		return
	}
	dir := filepath.Join(*out, fmt.Sprintf("%s-%d", filepath.Base(filepath.Dir(t.Name())), seed))
	if r != nil {
		require.NoError(t, r.save(dir, told))
	} else {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "nodes.log"), told, 0o600))
	}
	t.Fatalf("seed %d: %v\nwhat happened is in %s; again: go test ./suite/torture -run '%s' -seed %d -seeds 1", seed, err, dir, t.Name(), seed)
}

// A replica that was away, and leads as soon as it is in sync again, has all that
// was acknowledged: it joins when it has, and not some records before.
func TestAJoinerLeadsInVirtualTime(t *testing.T) {
	const rounds = 2
	for i := range max(1, *seeds/4) {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := newVirtual()
				joined := joinerLeads()
				p := &plan{
					seed: seed, machine: v, load: 10 * time.Minute, think: 60 * time.Millisecond, timeout: 4 * time.Second, delay: 2 * time.Millisecond,
					extra: []string{"--replica-lag-time-max", "2s", "--log-level", "info"},
					trouble: func(ctx context.Context, n *nemesis, _ []partition) error {
						for range rounds {
							pause(ctx, 500*time.Millisecond)
							n.done[joined.name]++
							undo, err := joined.do(n)
							if err == nil {
								pause(ctx, time.Duration(n.rng.Int64N(int64(time.Second))))
								err = undo()
							}
							if err != nil {
								return err
							}
							whole, cancel := context.WithTimeoutCause(ctx, settleWithin, fmt.Errorf("not within %s", settleWithin))
							err = n.whole(whole, n.client)
							cancel()
							if err != nil {
								return err
							}
						}
						return nil
					},
				}
				r, err := p.run(context.Background())
				v.over.Wait()
				finish(t, seed, r, err, v.told.bytes())
			})
		})
	}
}
