package certify_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures"
	"watershed.example/fixtures/target"
	"watershed.example/mirrorrpc"
	"watershed.example/suite/engine"
)

// quick is a story of one cluster that ends soon.
const quick = "single/no-fault/none"

// played certifies by scenarios in the levels' order, and does then after each.
func (s *site) played(ctx context.Context, then func(*engine.Result), scenarios ...string) *engine.Certificate {
	s.t.Helper()
	cert, err := engine.Certify(ctx, engine.Certification{
		Target: s.load(), Seed: uint64(time.Now().UnixNano()), Folder: s.t.TempDir(),
		Scenarios: func(sc engine.Scenario) bool { return slices.Contains(scenarios, sc.Name) },
		Played:    func(r *engine.Result, _ error) { then(r) },
	})
	require.NoError(s.t, err)
	return cert
}

// signal tells the one broker of a cluster something, as the operator's own hand does.
func (s *site) signal(cluster string, sig syscall.Signal) {
	b := s.o.brokers[cluster+"/"+id(1)]
	require.NoError(s.t, b.process.Signal(sig))
}

// TestPlayingEndsWithACluster that dies between two scenarios: what was played is judged,
// and the rest is said not to have been.
func TestPlayingEndsWithACluster(t *testing.T) {
	s := build(t, "kip1279-v42", target.KIP1279, false, 1)
	west := s.load().Clusters[1].Bootstrap[0]
	cert := s.played(t.Context(), func(r *engine.Result) {
		if r.Name == quick {
			require.NoError(t, s.o.do([]string{"kill", "west", id(1)}))
		}
	}, quick, failedOver, "failback/no-fault/none", "resumed/no-fault/none")
	require.Len(t, cert.Results, 2)
	require.NotEmpty(t, cert.Results[0].Verdicts)
	require.Len(t, cert.Rest, 2)
	for _, rest := range cert.Rest {
		require.Contains(t, rest.Why, "cluster west at "+west+": ")
	}
	require.ErrorContains(t, cert.Trouble, "nothing more is played (2 of 4 scenarios are left): cluster west at ")
	require.NoError(t, cert.Left)
	require.NoError(t, s.o.do([]string{"start", "west", id(1)}))
	s.nothingLeft()
}

// TestWhatStaysOnAClusterIsNamed: one that is gone, and one that says nothing while a
// certification is called off.
func TestWhatStaysOnAClusterIsNamed(t *testing.T) {
	long(t)
	for _, test := range []struct {
		name         string
		strike, heal func(*site)
		off          bool
	}{
		{
			"it is killed",
			func(s *site) { require.NoError(s.t, s.o.do([]string{"kill", "west", id(1)})) },
			func(s *site) { require.NoError(s.t, s.o.do([]string{"start", "west", id(1)})) }, false,
		},
		{
			"it hangs",
			func(s *site) { s.signal("west", syscall.SIGSTOP) },
			func(s *site) { s.signal("west", syscall.SIGCONT) }, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := build(t, "kip1279-v42", target.KIP1279, false, 1)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var struck time.Time
			watched := make(chan error, 1)
			go func() {
				watched <- s.awaitTopic(ctx, func() {
					test.strike(s)
					struck = time.Now()
					if test.off {
						cancel(errors.New("called off"))
					}
				})
			}()
			cert := s.played(ctx, func(*engine.Result) {}, failedOver, "resumed/no-fault/none")
			require.NoError(t, <-watched)
			if test.off {
				require.Less(t, time.Since(struck), time.Minute, "a cluster that hangs is not waited for")
			}
			test.heal(s)
			s.await()
			require.Len(t, cert.Results, 1)
			require.ErrorContains(t, cert.Left, "cluster west: mirrors ws-test-")
			remains, err := fixtures.RemainsOn(t.Context(), s.load().Clusters[1], "ws-test-", true)
			require.NoError(t, err)
			require.NotEmpty(t, remains.Topics)
			for _, name := range slices.Concat(remains.Mirrors, remains.Topics) {
				require.ErrorContains(t, cert.Left, name)
			}
			for _, group := range remains.Groups {
				require.True(t, strings.HasPrefix(group, "ws-test-"))
			}
		})
	}
}

// TestADescribeThatNeverWorks ends at its first call, and leaves nothing.
func TestADescribeThatNeverWorks(t *testing.T) {
	s := build(t, "kip1279-v42", target.Command, false, 1)
	s.change("describe: [env, ", "describe: [echo, ")
	began := time.Now()
	cert := s.played(t.Context(), func(*engine.Result) {}, failedOver, "fan-out/no-fault/none", "active-passive/restart/clean")
	require.ErrorIs(t, cert.Trouble, mirrorrpc.ErrNever)
	require.ErrorContains(t, cert.Trouble, "is not a list of partitions in JSON")
	require.Less(t, time.Since(began), time.Minute)
	require.Len(t, cert.Results, 1)
	require.Len(t, cert.Rest, 1, "the other could not be played at all")
	require.NoError(t, cert.Left)
	s.nothingLeft()

	s.change("describe: [echo, ", "describe: [/nowhere/tool, ")
	_, err := engine.Certify(t.Context(), engine.Certification{Target: s.load(), Folder: t.TempDir()})
	require.EqualError(t, err, `mirroring.describe: program "/nowhere/tool": no such file or directory`)
}
