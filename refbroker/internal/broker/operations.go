package broker

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"watershed.example/refbroker/internal/metrics"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// Operations is what a node tells operators by HTTP: /metrics, /healthz and
// /readyz. It is there before the node, and says what the node's start waits
// for. Give it to one node, in its [Config].
type Operations struct {
	mux *http.ServeMux

	mu   sync.Mutex // never held while waiting
	node int32
	// What is nil is not there yet.
	quorum      *quorum.Node
	replicas    *replica.Manager
	incarnation string
	metrics     http.Handler
	serving     bool
	ending      bool
}

// NewOperations returns those of a node that is to start.
func NewOperations() *Operations {
	o := &Operations{mux: http.NewServeMux()}
	o.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "alive")
	})
	o.mux.HandleFunc("GET /readyz", o.ready)
	o.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		h := o.metrics
		o.mu.Unlock()
		if h == nil {
			http.Error(w, "the node is not serving", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	})
	return o
}

// ServeHTTP implements [http.Handler].
func (o *Operations) ServeHTTP(w http.ResponseWriter, r *http.Request) { o.mux.ServeHTTP(w, r) }

// note changes what is known of the node; a nil Operations takes no notes.
func (o *Operations) note(change func(o *Operations)) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

// noteServing begins to tell of the parts of a node that serves.
func (n *Node) noteServing(mirrors *mirror.Manager, watch *metrics.Watch) {
	h := metrics.Handler(metrics.Parts{
		Node: n.cfg.NodeID, Quorum: n.quorum, Replicas: n.replicas, Mirrors: mirrors, Server: n.server, Watch: watch, Now: n.cfg.Host.Now,
	})
	n.cfg.Operations.note(func(o *Operations) { o.metrics, o.serving = h, true })
}

// condition is one thing that a node must have to be ready: missing says what
// is not there, "" for nothing.
type condition struct{ name, missing string }

// ready answers with each condition in a line, and 503 when one is missing.
func (o *Operations) ready(w http.ResponseWriter, _ *http.Request) {
	code := http.StatusOK
	var text strings.Builder
	for _, c := range o.conditions() {
		if c.missing == "" {
			fmt.Fprintf(&text, "ok      %s\n", c.name)
			continue
		}
		code = http.StatusServiceUnavailable
		fmt.Fprintf(&text, "missing %s: %s\n", c.name, c.missing)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text.String()))
}

func (o *Operations) conditions() []condition {
	o.mu.Lock()
	q, replicas, incarnation, node, serving, ending := o.quorum, o.replicas, o.incarnation, o.node, o.serving, o.ending
	o.mu.Unlock()
	all := []condition{{name: "controller"}, {name: "registered"}, {name: "not fenced"}, {name: "partitions"}, {name: "serving"}}
	if q == nil {
		for i := range all {
			all[i].missing = "the node has not joined the metadata quorum"
		}
		return all
	}
	img := q.Image()
	if q.Leader() < 0 {
		all[0].missing = "no leader of the metadata quorum is known"
	}
	switch b := img.Brokers[node]; {
	case b == nil || b.Incarnation != incarnation:
		all[1].missing = "this run is not in the metadata"
		all[2].missing = all[1].missing
	case b.Fenced:
		all[2].missing = "the controller does not hear of this node, or it is about to stop"
	}
	all[3].missing = unopened(img, replicas, node)
	switch {
	case ending:
		all[4].missing = "the node is stopping"
	case !serving:
		all[4].missing = "the node is starting"
	}
	return all
}

// unopened names the partitions that a node should have a replica of, and does
// not serve.
func unopened(img *quorum.Image, replicas *replica.Manager, node int32) string {
	if replicas == nil {
		return "logs are not open"
	}
	var names []string
	for _, t := range img.Topics {
		for i, p := range t.Partitions {
			for _, id := range p.Replicas {
				if id != node {
					continue
				}
				if r, ok := replicas.Get(t.Name, int32(i)); !ok {
					names = append(names, fmt.Sprintf("%s-%d", t.Name, i))
				} else if err := r.Failure(); err != nil {
					names = append(names, fmt.Sprintf("%s-%d (%v)", t.Name, i, err))
				}
			}
		}
	}
	const shown = 10
	switch more := len(names) - shown; {
	case len(names) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("%s and %d more are not open", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ") + " not open"
}
