package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
)

func runCommand(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestHooksCommand(t *testing.T) {
	hooks, path, _ := hooksServer(t, nil)
	run := func(args ...string) (string, error) {
		return runCommand(t, hooksCommand(), append(args, "--socket", path, "--timeout", "5s")...)
	}
	_, err := run("arm", "before:settled", "hold", "t-0")
	require.NoError(t, err)
	passed := make(chan error, 1)
	go func() { passed <- hooks.Pass(context.Background(), "before:settled", "t-0") }()
	out, err := run("await", "before:settled")
	require.NoError(t, err)
	require.Contains(t, out, `"partition":"t-0"`)
	out, err = run("status")
	require.NoError(t, err)
	require.Contains(t, out, `"action":"hold"`)
	out, err = run("release", "before:settled")
	require.NoError(t, err)
	require.Equal(t, `{"released":1}`+"\n", out)
	require.NoError(t, <-passed)

	_, err = run("arm", "before:settled", "explode")
	require.ErrorContains(t, err, `"explode"`)
	_, err = runCommand(t, hooksCommand(), "await", "after:never", "--socket", path, "--timeout", "10ms")
	require.ErrorContains(t, err, "no end after 10ms")
	_, err = runCommand(t, hooksCommand(), "status")
	require.ErrorContains(t, err, "--socket")
}

func TestMirrorsCommandRefusesBadInput(t *testing.T) {
	none := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	for want, args := range map[string][]string{
		`--output "xml"`:            {"list", "--output", "xml"},
		`--config "x"`:              {"create", "m", "--source", "a:1", "--config", "x"},
		`--source is missing`:       {"create", "m"},
		"at least 1 arg":            {"stop"},
		"want names, or --pattern":  {"stop", "m"},
		"--discard goes with names": {"start", "m", "--pattern", "o.*", "--discard"},
		`--set "x"`:                 {"configs", "m", "--set", "x"},
		"unable to dial: refused":   {"list", "--timeout", "2s"},
	} {
		_, err := runCommand(t, mirrorsCommand(none), args...)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
}

// stateOf answers Describe with one state after the other.
type stateOf struct{ states []string }

func (s *stateOf) Request(context.Context, kmsg.Request) (kmsg.Response, error) {
	p := mirrorrpc.NewDescribedPartition()
	p.StateValue, p.Phase = s.states[0], "settled"
	if s.states[0] == "FAILED" {
		why := "another cluster"
		p.ErrorMessage = &why
	}
	if len(s.states) > 1 {
		s.states = s.states[1:]
	}
	return &mirrorrpc.DescribeClusterMirrorsResponse{Mirrors: []mirrorrpc.DescribedMirror{{
		MirrorName: "m", Topics: []mirrorrpc.DescribedTopic{{TopicName: "t", Partitions: []mirrorrpc.DescribedPartition{p}}},
	}}}, nil
}

func TestWaitEndsWithTheStateOrSaysWhatIsInTheWay(t *testing.T) {
	var told bytes.Buffer
	o := &mirrorsOptions{wait: true, progress: &told}
	await := func(ctx context.Context, states ...string) error {
		_, err := o.await(ctx, mirrorrpc.Client{R: &stateOf{states}}, "m", []string{"t"}, "STOPPED")
		return err
	}
	require.NoError(t, await(t.Context(), "STOPPING", "STOPPING", "STOPPED"))
	require.Equal(t, "0 of 1 partitions STOPPED; t-0 is STOPPING settled\n", told.String(), "once")
	told.Reset()
	o.output = "json"
	require.NoError(t, await(t.Context(), "STOPPING", "STOPPED"))
	require.JSONEq(t, `{"waitFor":"STOPPED","done":0,"of":1,"partition":"t-0","state":"STOPPING","phase":"settled","errorMessage":""}`, told.String())
	told.Reset()
	require.NoError(t, await(t.Context(), "STOPPED"))
	require.Empty(t, told.String())
	require.ErrorContains(t, await(t.Context(), "STOPPING", "FAILED"), "t-0 is FAILED: another cluster")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, await(ctx, "STOPPING"), "t-0 is STOPPING settled")
}

func TestDescribePrintsATableOrJSON(t *testing.T) {
	p := mirrorrpc.NewDescribedPartition()
	p.StateValue, p.SourceOffset, p.DestinationOffset, p.Lag, p.NonStable = "MIRRORING", 12, 10, 2, 4
	p.WouldCut = mirrorrpc.CutReport{From: 6, To: 10, Records: 3}
	p.OldestOpen = mirrorrpc.OpenTransaction{ProducerID: 1 << 60, ProducerEpoch: 2, FirstOffset: 6, StartMs: 1_700_000_000_000}
	q := mirrorrpc.NewDescribedPartition()
	q.PartitionIndex, q.StateValue, q.StopOffset, q.NonStable, q.BarrierOffset = 1, "STOPPED", 7, 0, 7
	rows := described(rowsOf([]mirrorrpc.DescribedMirror{{MirrorName: "m", Profile: "kip1279-latest", Topics: []mirrorrpc.DescribedTopic{
		{TopicName: "t", Partitions: []mirrorrpc.DescribedPartition{p, q}},
	}}}))
	var out bytes.Buffer
	require.NoError(t, (&mirrorsOptions{output: "table"}).print(&out, rows))
	want := []string{
		"MIRROR TOPIC PARTITION SOURCE-OFFSET DESTINATION-OFFSET LAG STATE STEP STOP-OFFSET WOULD-CUT OLDEST-OPEN PROFILE ERROR",
		"m t 0 12 10 2 MIRRORING - - 3 producer 1152921504606846976 at 6 since 2023-11-14T22:13:20Z kip1279-latest -",
		"m t 1 - - - STOPPED - 7 - - kip1279-latest -",
	}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		require.Equal(t, want[i], strings.Join(strings.Fields(line), " "))
	}
	out.Reset()
	require.NoError(t, (&mirrorsOptions{output: "json"}).print(&out, rows))
	require.Contains(t, out.String(), `"producerId": "1152921504606846976"`)
	var back []describedRow
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, []describedRow(rows), back)

	out.Reset()
	require.NoError(t, (&mirrorsOptions{output: "table"}).print(&out, described(nil)))
	require.Equal(t, "No mirror partitions found\n", out.String())
	out.Reset()
	require.NoError(t, (&mirrorsOptions{output: "json"}).print(&out, listed(nil)))
	require.Equal(t, "[]\n", out.String())
}
