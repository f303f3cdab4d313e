package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
)

func settingsOf(t *testing.T, env map[string]string, args ...string) (*Settings, error) {
	t.Helper()
	var s Settings
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	s.Register(fs, func(name string) string { return env[name] })
	require.NoError(t, fs.Parse(args))
	return &s, s.Resolve(t.Context(), []string{"no-barrier", "pid-rewrite"})
}

func TestSettings(t *testing.T) {
	auto, _, err := fixtures.Choose("auto")
	require.NoError(t, err)
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want Settings
	}{
		{"nothing given", nil, nil, Settings{Launcher: auto.Name()}},
		{
			"flags", nil,
			[]string{"-seed=7", "-profile=kip1279-latest", "-launcher", "process", "-out=x", "-keep", "-full=true", "-defect=no-barrier@B", "-defect=pid-rewrite"},
			Settings{Seed: 7, SeedGiven: true, Profile: check.ProfileLatest, Launcher: "process", Out: "x", Keep: true, Full: true, Defects: []string{"no-barrier@B", "pid-rewrite"}},
		},
		{
			"variables",
			map[string]string{"WATERSHED_SEED": "18446744073709551615", "WATERSHED_KEEP": "1", "WATERSHED_DEFECT": "no-barrier"},
			nil,
			Settings{Seed: 18446744073709551615, SeedGiven: true, Launcher: auto.Name(), Keep: true, Defects: []string{"no-barrier"}},
		},
		{
			"a flag wins",
			map[string]string{"WATERSHED_SEED": "1", "WATERSHED_FULL": "true", "WATERSHED_DEFECT": "no-barrier", "WATERSHED_LAUNCHER": "process", "WATERSHED_NODES": "1"},
			[]string{"-seed=2", "-full=false", "-defect=pid-rewrite", "-nodes=3"},
			Settings{Seed: 2, SeedGiven: true, Launcher: "process", Nodes: 3, Defects: []string{"pid-rewrite"}},
		},
	}
	l2 := contract.L2
	tests = append(tests, struct {
		name string
		env  map[string]string
		args []string
		want Settings
	}{
		"a level, a soak, accepted violations", nil,
		[]string{"-level=l2", "-duration=90m", "-known=known.yaml", "-shard=2/8"},
		Settings{Launcher: auto.Name(), Shard: 2, Shards: 8, Level: &l2, Duration: 90 * time.Minute, KnownFile: "known.yaml"},
	})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := settingsOf(t, test.env, test.args...)
			require.NoError(t, err)
			got.all, got.Why = nil, ""
			test.want.Profile = cmp.Or(test.want.Profile, check.ProfileV42)
			require.Equal(t, test.want, *got)
		})
	}
}

func TestSettingsSayInOneLineWhatIsWrong(t *testing.T) {
	tests := []struct {
		env  map[string]string
		args []string
		want string
	}{
		{nil, []string{"-seed=x"}, `-seed "x": want a whole number from 0 to 18446744073709551615`},
		{nil, []string{"-launcher=ship"}, `-launcher "ship": unknown launcher "ship" (known: auto, container, process)`},
		{map[string]string{"WATERSHED_LAUNCHER": "ship"}, nil, `WATERSHED_LAUNCHER "ship": unknown launcher "ship" (known: auto, container, process)`},
		{nil, []string{"-nodes=2"}, `-nodes "2": want 1 or 3`},
		{map[string]string{"WATERSHED_PROFILE": "kip"}, nil, `WATERSHED_PROFILE "kip": want kip1279-v42 or kip1279-latest`},
		{nil, []string{"-level=L5"}, `-level "L5": want L0, L1, L2, L3 or L4`},
		{map[string]string{"WATERSHED_DURATION": "an hour"}, nil, `WATERSHED_DURATION "an hour": want a time such as 20m or 1h`},
		{nil, []string{"-duration=0s"}, `-duration "0s": want a time such as 20m or 1h`},
		{nil, []string{"-shard=9/8"}, `-shard "9/8": want I/N with I from 1 to N, such as 1/8`},
		{nil, []string{"-keep=perhaps"}, `-keep "perhaps": want true or false`},
		{nil, []string{"-defect=rust"}, `-defect "rust": unknown defect "rust" (known: no-barrier, pid-rewrite)`},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			_, err := settingsOf(t, test.env, test.args...)
			require.EqualError(t, err, test.want)
		})
	}
}

func TestABrokerIsCertified(t *testing.T) {
	s, err := settingsOf(t, nil, "-broker=kfake", "-launcher=process", "-level=L0")
	require.NoError(t, err)
	require.NotNil(t, s.Broker.Kfake)
	require.Equal(t, " --broker=kfake", s.BrokerFlags())

	s, err = settingsOf(t, nil, "-broker=refbroker", "-launcher=process")
	require.NoError(t, err)
	require.Nil(t, s.Broker)
	require.Empty(t, s.BrokerFlags())

	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-broker=redpandas"}, "want one of refbroker, kafka, kfake, redpanda"},
		{[]string{"-broker=redpanda"}, "no image of Redpanda is given"},
		{[]string{"-broker=redpanda", "-image=redpanda:v1"}, "image redpanda:v1: docker does not answer: "},
		{[]string{"-broker=kafka", "-image=apache/kafka:4.4.0"}, "image apache/kafka:4.4.0: docker does not answer: "},
		{[]string{"-broker=kafka", "-image=x", "-jars=y"}, "-jars names a folder; one of them is wanted"},
		{[]string{"-broker=kfake", "-image=x"}, "only -broker=kafka and -broker=redpanda have images"},
		{[]string{"-broker=kfake", "-jars=x"}, "only -broker=kafka has jars"},
		{[]string{"-broker=kfake", "-level=L1"}, "its level is L0"},
		{[]string{"-broker=kfake", "-defect=no-barrier"}, "only the reference broker has defects"},
		{[]string{"-broker=kfake", "-nodes=3"}, "no replicas"},
		{[]string{"-broker=kafka", "-jars=" + t.TempDir()}, "Apache Kafka"},
	} {
		_, err := settingsOf(t, nil, append(c.args, "-launcher=process")...)
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestAnInterruptEndsTheLookForAnImage also where Docker takes its time.
func TestAnInterruptEndsTheLookForAnImage(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = mute.Close() }()
	t.Setenv("DOCKER_HOST", "tcp://"+mute.Addr().String())
	for _, broker := range []string{"kafka", "redpanda"} {
		var s Settings
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		s.Register(fs, func(string) string { return "" })
		require.NoError(t, fs.Parse([]string{"-broker=" + broker, "-image=somebody/" + broker, "-launcher=process"}))
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("somebody pressed Ctrl-C")
		cancel(interrupted)
		err := s.Resolve(ctx, nil)
		require.ErrorIs(t, err, interrupted)
		require.ErrorContains(t, err, "image somebody/"+broker)
	}
}

func TestUsageShowsEveryFlagWithItsVariable(t *testing.T) {
	s, err := settingsOf(t, nil)
	require.NoError(t, err)
	var out bytes.Buffer
	s.Usage(&out)
	for _, f := range s.all {
		require.Contains(t, out.String(), "-"+f.name)
		require.Contains(t, out.String(), f.variable())
	}
	require.NotContains(t, out.String(), "test.")
}
