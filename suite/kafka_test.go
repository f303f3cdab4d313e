package suite_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures"
	"watershed.example/fixtures/kafka"
	"watershed.example/suite/check"
	"watershed.example/suite/engine"
	"watershed.example/suite/wirelog"
)

// TestKafkaSource mirrors from Apache Kafka, one node and three, to the reference
// broker, and fails over: with Kafka's own client among the writers, and judged as
// any other run, LOG-1 from Kafka's own segment files. Its brokers are processes,
// whatever -launcher says.
//
// It runs only when -run names it, or with -full, and where Java and the jars are
// (ci/kafka-source).
func TestKafkaSource(t *testing.T) {
	if !settings.Full && !named("TestKafkaSource") {
		t.Skip("runs when named (-run TestKafkaSource, ci/kafka-source) or with -full")
	}
	jars, err := kafka.Jars()
	if err != nil {
		if os.Getenv("WATERSHED_REQUIRE_KAFKA") == "1" {
			t.Fatalf("WATERSHED_REQUIRE_KAFKA=1, but %v", err)
		}
		t.Skip(err)
	}
	uncached(t)
	sources := engine.KafkaSources()
	for _, sc := range sources {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			res, err := playSeed(t, run.ctx, sc, engine.Options{
				Seed: settings.Seed, Defects: settings.Defects, Name: t.Name(), Reproduce: reproduce(t.Name(), settings.Seed),
				Launcher: "process", KafkaJars: jars,
			})
			told(t, res, err, len(sources))
			requireKafkaBytes(t, res)
		})
	}
}

// requireKafkaBytes compares Kafka's segments with the destination's up to the
// barrier, by nothing but their bytes, and shows that what Kafka has in so many
// ways was among them.
func requireKafkaBytes(t *testing.T, res *engine.Result) {
	t.Helper()
	type copied struct {
		codecs                                  [5]int
		nullKeys, nullValues, headers, ofNobody int
	}
	var seen copied
	logs := map[string][]*check.Replica{}
	ev, err := check.Load(res.Folder) // the judge has let go of what it read
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	for _, r := range ev.Replicas {
		logs[r.Cluster+" "+r.Place()] = append(logs[r.Cluster+" "+r.Place()], r)
	}
	for _, topic := range ev.Run.Topics {
		for p := range topic.Partitions {
			place := (&check.Replica{Topic: topic.Name, Partition: p}).Place()
			require.NotEmpty(t, logs["A "+place])
			require.NotEmpty(t, logs["B "+place])
			for _, b := range logs["B "+place] {
				var mirrored []byte
				for i := range b.Batches {
					batch := &b.Batches[i]
					if c, err := batch.Control(); batch.IsControl() && err == nil && c.Type == wirelog.MirrorPIDReset {
						break
					}
					mirrored = append(mirrored, batch.Raw...)
				}
				require.Less(t, len(mirrored), len(raw(b)), "%s on B/%d has no barrier", place, b.Node)
				longest := logs["A "+place][0]
				for _, a := range logs["A "+place] {
					if len(raw(a)) > len(raw(longest)) {
						longest = a
					}
				}
				require.True(t, bytes.HasPrefix(raw(longest), mirrored), "%s on B/%d up to its barrier is not as Kafka's segment begins", place, b.Node)
			}
			b := logs["B "+place][0]
			data := map[int64]bool{} // producers with records
			for i := range b.Batches {
				batch := &b.Batches[i]
				if batch.IsControl() {
					if c, err := batch.Control(); err == nil && c.Type == wirelog.MirrorPIDReset {
						break
					}
					if !data[batch.ProducerID] {
						seen.ofNobody++
					}
					continue
				}
				data[batch.ProducerID] = true
				seen.codecs[batch.Codec()]++
				records, err := batch.Records()
				require.NoError(t, err)
				for _, r := range records {
					seen.nullKeys += is(r.Key == nil)
					seen.nullValues += is(r.Value == nil)
					seen.headers += is(len(r.Headers) > 1)
				}
			}
		}
	}
	for codec, n := range seen.codecs {
		require.Positive(t, n, "no mirrored batch has codec %d", codec)
	}
	require.Positive(t, seen.nullKeys, "null keys")
	require.Positive(t, seen.nullValues, "null values")
	require.Positive(t, seen.headers, "several headers")
	require.Positive(t, seen.ofNobody, "transactions without records")
	t.Logf("mirrored from Kafka: %+v", seen)
}

// raw are a log's bytes.
func raw(r *check.Replica) (all []byte) {
	for i := range r.Batches {
		all = append(all, r.Batches[i].Raw...)
	}
	return all
}

func is(b bool) int {
	if b {
		return 1
	}
	return 0
}

// kfakes are the requirements that kfake is seen to violate, by scenario, and why
// (docs/certify-kafka.md). The others of these scenarios are held.
var kfakes = map[string][]string{
	"single/no-fault/none":           {"SC-1", "SC-5"},
	"single/restart/clean":           {"SC-1", "SC-5", "SC-7"},
	"single/cleaning/delete-records": {"SC-1", "SC-5"},
	"single/cleaning/retention":      {"SC-1", "SC-5", "SC-7"},
}

// TestKfake certifies franz-go's fake of Kafka: what is seen of it must be what is
// told of it. It runs only when -run names it (ci/kafka-certify).
func TestKfake(t *testing.T) {
	if !named("TestKfake") {
		t.Skip("runs when named (-run TestKfake, ci/kafka-certify)")
	}
	uncached(t)
	for _, sc := range engine.Certifying() {
		want, known := kfakes[sc.Name]
		if !known {
			continue
		}
		t.Run(sc.Name, func(t *testing.T) {
			res, err := engine.Run(run.ctx, sc, engine.Options{
				Seed: settings.Seed, Folder: run.folder, Name: t.Name(), Launcher: "process",
				Broker: &engine.Broker{Kfake: &fixtures.Kfake{}}, Reproduce: reproduce(t.Name(), settings.Seed),
			})
			require.NoError(t, err)
			require.Empty(t, res.Trouble)
			require.Equal(t, want, res.Violated(), "%s", res.Story())
			held := 0
			for _, v := range res.Verdicts {
				held += is(v.Outcome == check.Held)
			}
			require.Positive(t, held)
		})
	}
}
