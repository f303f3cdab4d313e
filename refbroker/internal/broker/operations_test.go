package broker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// scraped are the metrics of one scrape, by name.
type scraped struct {
	t        *testing.T
	families map[string]*dto.MetricFamily
}

func scrape(t *testing.T, o *Operations) scraped {
	t.Helper()
	w := httptest.NewRecorder()
	o.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	require.NoError(t, err)
	return scraped{t, families}
}

// find is the metric of a name with labels, given as name, value, name, value…
func (s scraped) find(name string, labels ...string) *dto.Metric {
	s.t.Helper()
	f := s.families[name]
	require.NotNil(s.t, f, name)
	require.NotEmpty(s.t, f.GetHelp(), name)
next:
	for _, m := range f.GetMetric() {
		for i := 0; i < len(labels); i += 2 {
			if labelOf(m, labels[i]) != labels[i+1] {
				continue next
			}
		}
		return m
	}
	return nil
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// value is that of a gauge or a counter.
func (s scraped) value(name string, labels ...string) float64 {
	s.t.Helper()
	m := s.find(name, labels...)
	require.NotNil(s.t, m, "%s %v", name, labels)
	if m.GetCounter() != nil {
		return m.GetCounter().GetValue()
	}
	require.NotNil(s.t, m.GetGauge(), name)
	return m.GetGauge().GetValue()
}

// counted is a client that counts what it sends and gets, by API.
type counted struct {
	mu       sync.Mutex
	requests map[int16]int
	in, out  int
	dials    int
}

var (
	_ kgo.HookBrokerE2E     = (*counted)(nil)
	_ kgo.HookBrokerConnect = (*counted)(nil)
)

func (c *counted) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Err() == nil {
		c.requests[key]++
	}
	c.in += e.BytesRead
	c.out += e.BytesWritten
}

func (c *counted) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.dials++
	}
}

// differs says what a node told otherwise than the client counted; "" for
// nothing. Requests that a node sends to itself would show here too.
func (c *counted) differs(s scraped, apis []wire.API) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text string
	check := func(what string, mine int, told float64) {
		if float64(mine) != told {
			text += fmt.Sprintf("%s: %v told, %d counted; ", what, told, mine)
		}
	}
	for _, a := range apis {
		check(a.Name, c.requests[a.Key], s.value("refbroker_requests_total", "api", a.Name))
		h := s.find("refbroker_request_seconds", "api", a.Name).GetHistogram()
		check(a.Name+" timed", c.requests[a.Key], float64(h.GetSampleCount()))
	}
	check("bytes in", c.out, s.value("refbroker_network_in_bytes_total"))
	check("bytes out", c.in, s.value("refbroker_network_out_bytes_total"))
	check("connections", c.dials, s.value("refbroker_connections"))
	check("accepted", c.dials, s.value("refbroker_connections_accepted_total"))
	return text
}

// Under traffic, what is told is what was done: requests, bytes and connections
// as the clients counted them, records and transactions as they were made.
func TestMetricsTellWhatWasDone(t *testing.T) {
	ops := NewOperations()
	n := startNode(t, func(c *Config) { c.Operations = ops })
	c := &counted{requests: map[int16]int{}}
	hook := kgo.WithHooks(c)
	setup := n.client(hook)
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 2, 1
	create.Topics = append(create.Topics, topic)
	made, err := create.RequestWith(n.ctx(), setup)
	require.NoError(t, err)
	require.Zero(t, made.Topics[0].ErrorCode)

	began := time.Now()
	n.produce(n.client(hook), "t", "a", "b", "c")
	open := n.client(hook, kgo.TransactionalID("open"))
	require.NoError(t, open.BeginTransaction())
	old := time.Now().Add(-time.Hour)
	require.NoError(t, open.ProduceSync(n.ctx(), &kgo.Record{Topic: "t", Value: []byte("open"), Timestamp: old}).FirstErr())
	n.produce(n.client(hook), "t", "d", "e")
	done := n.client(hook, kgo.TransactionalID("done"))
	require.NoError(t, done.BeginTransaction())
	require.NoError(t, done.ProduceSync(n.ctx(), &kgo.Record{Topic: "t", Partition: 1, Value: []byte("done")}).FirstErr())
	require.NoError(t, done.EndTransaction(n.ctx(), kgo.TryCommit))
	part, err := n.Env().Replicas.Partition("t", 1)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return part.Offsets().LastStable == 2 }, time.Minute, time.Millisecond, "the marker")

	var s scraped
	differ := "not looked yet"
	// A response is counted a moment after the client has it.
	require.Eventually(t, func() bool {
		s = scrape(t, ops)
		differ = c.differs(s, n.table.APIs())
		return differ == ""
	}, time.Minute, 10*time.Millisecond, "the counts to be the clients': %s", &differ)
	for _, a := range n.table.APIs() {
		h := s.find("refbroker_request_seconds", "api", a.Name).GetHistogram()
		require.LessOrEqual(t, h.GetSampleSum(), time.Since(began).Seconds()*8, a.Name)
		require.LessOrEqual(t, h.GetBucket()[len(h.GetBucket())-1].GetCumulativeCount(), h.GetSampleCount())
	}

	of := func(partition string) []string { return []string{"topic", "t", "partition", partition} }
	for name, want := range map[string][2]float64{
		"refbroker_partition_log_end_offset":         {6, 2},
		"refbroker_partition_high_watermark":         {6, 2},
		"refbroker_partition_log_start_offset":       {0, 0},
		"refbroker_partition_last_stable_offset_lag": {3, 0},
		"refbroker_partition_producers":              {3, 1},
		"refbroker_partition_open_transactions":      {1, 0},
		"refbroker_partition_isr":                    {1, 1},
		"refbroker_partition_replicas":               {1, 1},
	} {
		require.InDelta(t, want[0], s.value(name, of("0")...), 0, name)
		require.InDelta(t, want[1], s.value(name, of("1")...), 0, name)
	}
	require.InDelta(t, part.(interface{ Size() int64 }).Size(), s.value("refbroker_log_size_bytes", of("1")...), 0)
	img := n.Env().Quorum.Image()
	partitions := 0
	for _, topic := range img.Topics {
		partitions += len(topic.Partitions)
	}
	for name, want := range map[string]float64{
		"refbroker_active_controller": 1, "refbroker_raft_leader": 1, "refbroker_fenced": 0,
		"refbroker_topics": float64(len(img.Topics)), "refbroker_partitions": float64(partitions), "refbroker_leaders": float64(partitions),
		"refbroker_under_replicated_partitions": 0, "refbroker_offline_partitions": 0, "refbroker_offline_replicas": 0,
		"refbroker_producers": 4, "refbroker_open_transactions": 1, "refbroker_metadata_index": float64(img.Index),
		"refbroker_requests_malformed_total": 0, "refbroker_requests_queued_bytes": 0,
	} {
		require.InDelta(t, want, s.value(name), 0, name)
	}
	require.InDelta(t, 1, s.value("refbroker_brokers", "state", "active"), 0)
	require.InDelta(t, time.Since(old).Seconds(), s.value("refbroker_oldest_open_transaction_seconds"), 60)

	require.NoError(t, open.EndTransaction(n.ctx(), kgo.TryAbort))
	require.Eventually(t, func() bool {
		s := scrape(t, ops)
		return s.value("refbroker_open_transactions") == 0 && s.value("refbroker_partition_last_stable_offset_lag", of("0")...) == 0 &&
			s.value("refbroker_oldest_open_transaction_seconds") == 0
	}, time.Minute, 10*time.Millisecond, "the abort to show")
	_, err = askRaw(t, n.Addrs()["client"], "me", 3, 99, false, nil)
	require.ErrorIs(t, err, io.EOF)
	require.InDelta(t, 1, scrape(t, ops).value("refbroker_requests_malformed_total"), 0)
	require.GreaterOrEqual(t, c.requests[kmsg.Produce.Int16()], 7)
}

// A mirror's lag, states and stops.
func TestMetricsOfAMirror(t *testing.T) {
	a, _ := sourceWithTraffic(t)
	ops := NewOperations()
	b := &mirrorNode{t: t, conf: startMirrorConfig(t, "BBBBBBBBBBBBBBBBBBBBBB")}
	b.conf.Operations = ops
	b.start()
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	c := b.mirrorFrom(a)
	of := []string{"mirror", "m", "topic", "t", "partition", "0"}
	require.Eventually(t, func() bool {
		s := scrape(t, ops)
		return s.value("refbroker_mirror_partitions", "mirror", "m", "state", "MIRRORING") == 1 &&
			s.find("refbroker_mirror_lag_records", of...) != nil && s.value("refbroker_mirror_lag_records", of...) == 0
	}, time.Minute, 10*time.Millisecond, "a mirror that has caught up")
	s := scrape(t, ops)
	require.InDelta(t, float64(quorum.Mirroring), s.value("refbroker_mirror_partition_state", of...), 0)
	require.InDelta(t, 0, s.value("refbroker_mirror_partitions", "mirror", "m", "state", "STOPPED"), 0)
	require.InDelta(t, 0, s.value("refbroker_mirror_failed_attempts", of...), 0)
	require.Zero(t, s.find("refbroker_mirror_stop_seconds").GetHistogram().GetSampleCount())

	began := time.Now()
	require.NoError(t, c.Stop(t.Context(), "m", "t"))
	awaitMirror(t, c, "STOPPED")
	require.Eventually(t, func() bool {
		return scrape(t, ops).find("refbroker_mirror_stop_seconds").GetHistogram().GetSampleCount() == 1
	}, time.Minute, 10*time.Millisecond, "the stop to be counted")
	took := time.Since(began)
	s = scrape(t, ops)
	h := s.find("refbroker_mirror_stop_seconds").GetHistogram()
	require.Positive(t, h.GetSampleSum())
	require.LessOrEqual(t, h.GetSampleSum(), took.Seconds())
	require.InDelta(t, 1, s.value("refbroker_mirror_partitions", "mirror", "m", "state", "STOPPED"), 0)
	require.InDelta(t, float64(quorum.Stopped), s.value("refbroker_mirror_partition_state", of...), 0)
	require.Nil(t, s.find("refbroker_partition_last_stable_offset_lag", "topic", "none"))
}

// A node that is lost shows with its peers: under-replicated partitions, in-sync
// replicas that shrink, and grow when it is back; readiness of each.
func TestMetricsOfALostNode(t *testing.T) {
	t.Parallel()
	all := make([]*Operations, 3)
	cluster := startCluster(t, 3, func(c *Config) {
		c.Operations = NewOperations()
		all[c.NodeID] = c.Operations
	})
	const partitions = 3
	cluster.topic("t", partitions, nil)
	sum := func(name string, ids ...int) (total float64) {
		for _, id := range ids {
			total += scrape(t, all[id]).value(name)
		}
		return total
	}
	// A machine that is busy elsewhere may fence a node for a moment at any time:
	// all this is what comes in the end, and counters may count more.
	require.Eventually(t, func() bool {
		return sum("refbroker_active_controller", 0, 1, 2) == 1 && sum("refbroker_leaders", 0, 1, 2) == partitions &&
			sum("refbroker_under_replicated_partitions", 0, 1, 2) == 0
	}, time.Minute, 20*time.Millisecond, "all in sync")
	for id := range 3 {
		awaitReady(t, all[id])
	}
	shrinks, expands := sum("refbroker_isr_shrinks_total", 0, 1), sum("refbroker_isr_expands_total", 0, 1)

	cluster.kill(2)
	code, text := readiness(all[2])
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, "missing serving: the node is stopping")
	require.Eventually(t, func() bool {
		return sum("refbroker_under_replicated_partitions", 0, 1) == partitions && sum("refbroker_leaders", 0, 1) == partitions &&
			sum("refbroker_isr_shrinks_total", 0, 1)-shrinks >= partitions && sum("refbroker_under_min_isr_partitions", 0, 1) == 0 &&
			scrape(t, all[0]).value("refbroker_brokers", "state", "fenced") == 1
	}, time.Minute, 20*time.Millisecond, "the loss to show")

	all[2] = NewOperations()
	cluster.nodes[2].cfg.Operations = all[2]
	code, text = readiness(all[2])
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, "missing registered: the node has not joined the metadata quorum")
	cluster.startAll()
	awaitReady(t, all[2])
	require.Eventually(t, func() bool {
		return sum("refbroker_under_replicated_partitions", 0, 1, 2) == 0 && sum("refbroker_isr_expands_total", 0, 1, 2)-expands >= partitions
	}, time.Minute, 20*time.Millisecond, "all in sync again")
}

// readiness is what /readyz answers.
func readiness(o *Operations) (code int, text string) {
	w := httptest.NewRecorder()
	o.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return w.Code, w.Body.String()
}

func awaitReady(t *testing.T, o *Operations) {
	t.Helper()
	require.Eventually(t, func() bool { code, _ := readiness(o); return code == http.StatusOK }, time.Minute, 10*time.Millisecond, "a node to be ready")
}

// A node without a controller, or that was fenced, is alive and not ready, and
// says which.
func TestReadinessSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	all := make([]*Operations, 3)
	cluster := startCluster(t, 3, func(c *Config) {
		c.Operations = NewOperations()
		all[c.NodeID] = c.Operations
	})
	awaitReady(t, all[0])
	_, text := readiness(all[0])
	require.Equal(t, "ok      controller\nok      registered\nok      not fenced\nok      partitions\nok      serving\n", text)

	n := cluster.nodes[0]
	n.silence() // its heartbeats end
	n.beats.Wait()
	require.Eventually(t, func() bool {
		code, text := readiness(all[0])
		return code == http.StatusServiceUnavailable && text == "ok      controller\nok      registered\n"+
			"missing not fenced: the controller does not hear of this node, or it is about to stop\nok      partitions\nok      serving\n"
	}, time.Minute, 20*time.Millisecond, "the node to be fenced")

	cluster.kill(1)
	cluster.kill(2)
	require.Eventually(t, func() bool {
		code, text := readiness(all[0])
		return code == http.StatusServiceUnavailable && len(text) > 0 && text[:18] == "missing controller"
	}, time.Minute, 20*time.Millisecond, "the controller to be lost")
	w := httptest.NewRecorder()
	all[0].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	require.Equal(t, []any{http.StatusOK, "alive\n"}, []any{w.Code, w.Body.String()})
}

func TestMetricsBeforeTheNode(t *testing.T) {
	w := httptest.NewRecorder()
	NewOperations().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
}
