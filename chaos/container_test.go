package chaos

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/fixtures"
	"watershed.example/topologies"
)

// Every kind bites on the link of a real mirror between containers, whose proxy
// is in another process, and mirroring goes on once it is healed.
func TestStrikesBiteInContainers(t *testing.T) {
	if err := fixtures.Doctor("container"); err != nil {
		if os.Getenv("WATERSHED_REQUIRE_DOCKER") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	topology := topologies.ActivePassive()
	env, err := fixtures.Container().Launch(ctx, fixtures.Spec{Topology: topology, Dir: filepath.Join(t.TempDir(), "run"), Seed: 7})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, env.Close()) })
	const topic = "orders"
	mirror := topology.Mirrors[0]
	writer, err := env.Cluster(mirror.From).Client("writer", kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.NoCompression())) // nothing but zeros would be too small to count
	require.NoError(t, err)
	t.Cleanup(writer.Close)
	_, err = kadm.NewClient(writer).CreateTopic(ctx, 1, 1, nil, topic)
	require.NoError(t, err)
	control, under, err := env.Cluster(mirror.To).Control("control")
	require.NoError(t, err)
	t.Cleanup(under.Close)
	bootstrap, _ := env.MirrorSource(mirror.Name)
	require.NoError(t, control.Create(ctx, mirror.Name, map[string]string{"bootstrap.servers": strings.Join(bootstrap, ",")}))
	require.NoError(t, control.Start(ctx, mirror.Name, topic))

	nudge := func(ctx context.Context, n int) error {
		return writer.ProduceSync(ctx, &kgo.Record{Value: make([]byte, n)}).FirstErr()
	}
	link := env.MirrorLink(mirror.Name)
	flows := func() {
		t.Helper()
		before := link.Counts().Of(fixtures.FromServer).Out
		require.NoError(t, nudge(ctx, InFlightBytes))
		require.Eventually(t, func() bool { return link.Counts().Of(fixtures.FromServer).Out >= before+InFlightBytes },
			20*time.Second, 5*time.Millisecond, "the mirror fetches what was written")
	}
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			flows()
			s, err := New(Plan{Kind: kind, Link: link.Name(), Point: "before:truncated"}, link, nudge)
			require.NoError(t, err)
			limited, stop := context.WithTimeout(ctx, 20*time.Second)
			defer stop()
			require.NoError(t, s.Prepare(limited))
			require.NoError(t, s.Hit(limited))
			proof := s.Heal()
			require.True(t, proof.Bit(), proof)
			t.Log(proof)
		})
	}
	flows()
	require.NoError(t, env.Lost())
}
