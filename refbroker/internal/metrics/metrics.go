// Package metrics tells operators about a node, in Prometheus's format. Values
// are read when they are asked for; where requests are served there are plain
// counters only.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/wire"
)

// Parts are what a node's metrics are about.
type Parts struct {
	Node     int32
	Quorum   *quorum.Node
	Replicas *replica.Manager
	Mirrors  *mirror.Manager
	Server   *wire.Server
	// Watch may be nil: nothing is counted then that happens between two looks.
	Watch *Watch
	// Now is the wall clock.
	Now func() time.Time
}

// Handler serves the metrics of a node, of the Go runtime and of the process.
func Handler(p Parts) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range Collectors(p) {
		reg.MustRegister(c)
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg})
}

// Collectors are those of a node.
func Collectors(p Parts) []prometheus.Collector {
	return []prometheus.Collector{
		collector{clusterMetrics(), p.cluster},
		collector{partitionMetrics(), p.partitions},
		collector{mirrorMetrics(), p.mirrors},
		collector{requestMetrics(), p.requests},
	}
}

// metric is one name that is exposed.
type metric struct {
	name, help string
	kind       prometheus.ValueType // 0 for a histogram
	labels     []string
}

func (m metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.name, m.help, m.labels, nil) }

func gauge(name, help string, labels ...string) metric {
	return metric{name, help, prometheus.GaugeValue, labels}
}

func counter(name, help string, labels ...string) metric {
	return metric{name, help, prometheus.CounterValue, labels}
}

func histogram(name, help string, labels ...string) metric { return metric{name, help, 0, labels} }

// collector reads some metrics at a scrape.
type collector struct {
	metrics []metric
	read    func(*sink)
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc()
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	s := &sink{out: out, by: map[string]metric{}, descs: map[string]*prometheus.Desc{}}
	for _, m := range c.metrics {
		s.by[m.name], s.descs[m.name] = m, m.desc()
	}
	c.read(s)
}

// sink takes the values of one scrape.
type sink struct {
	out   chan<- prometheus.Metric
	by    map[string]metric
	descs map[string]*prometheus.Desc
}

func (s *sink) set(name string, value float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(s.descs[name], s.by[name].kind, value, labels...)
}

func (s *sink) histogram(name string, count uint64, sum float64, buckets map[float64]uint64, labels ...string) {
	s.out <- prometheus.MustNewConstHistogram(s.descs[name], count, sum, buckets, labels...)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
