package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// plan is one run. Its seed decides workload, faults and what is chosen of times.
type plan struct {
	seed    uint64
	machine machine
	faults  []fault
	// trouble takes the place of faults, if it is set; the load ends with it.
	trouble func(context.Context, *nemesis, []partition) error
	// load is for how long clients write and faults happen.
	load time.Duration
	// think is the most that a client waits between two operations.
	think   time.Duration
	timeout time.Duration // of a client's requests
	delay   time.Duration // most that a link holds a message up
	extra   []string      // arguments of all nodes
	// others are more clients, which write on their own.
	others []func(context.Context, *cluster, *history, []partition) error
}

// streams of random numbers, by what draws from them.
const (
	streamPlan = iota
	streamFaults
	streamWorkers
)

func (p *plan) rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, stream)) }

// report is what a run leaves.
type report struct {
	*judged
	history *history
	done    map[string]int // faults
	logs    map[partition][]entry
	strange int
}

// topics are what is written to: one is rolled again and again, one is
// acknowledged by whoever is left.
var topics = []struct {
	name       string
	partitions int32
	configs    map[string]string
}{
	{"even", 2, map[string]string{"min.insync.replicas": "2"}},
	{"lone", 1, map[string]string{"min.insync.replicas": "1"}},
	{"small", 1, map[string]string{"min.insync.replicas": "2", "segment.bytes": "4096"}},
}

const (
	startWithin  = 2 * time.Minute
	settleWithin = 2 * time.Minute
	judgeWithin  = 60 * time.Second
)

// run makes a cluster, has clients write to it while faults happen, and judges
// what is left. An error means that the run could not be made; what must not be
// is among the findings.
func (p *plan) run(ctx context.Context) (r *report, err error) {
	choose := p.rng(streamPlan)
	version := int16(2 - choose.IntN(4)/3)
	h := &history{}
	args := append([]string{"--transaction-version", fmt.Sprint(version)}, p.extra...)
	c, err := newCluster(p.machine, 3, p.seed, p.delay, h, args...)
	defer func() { err = errors.Join(err, c.close()) }()
	if err != nil {
		return nil, err
	}
	r = &report{judged: &judged{}, history: h, done: map[string]int{}, logs: map[partition][]entry{}}
	var parts []partition
	for id := range c.size {
		if err := c.start(id); err != nil {
			return r, err
		}
	}
	admin := newClient("admin", p.machine, c.bootstrap(), p.timeout)
	defer admin.close()
	up, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("the cluster is not up within %s", startWithin))
	defer cancel()
	if err := c.whole(up, admin); err != nil {
		return r, err
	}
	for _, t := range topics {
		if err := admin.createTopic(up, t.name, t.partitions, 3, t.configs); err != nil {
			return r, err
		}
		for i := range t.partitions {
			parts = append(parts, partition{t.name, i})
		}
	}
	if err := c.whole(up, admin); err != nil {
		return r, err
	}

	load, stop := context.WithTimeout(ctx, p.load)
	defer stop()
	settling, cancel := context.WithTimeoutCause(ctx, p.load+settleWithin, fmt.Errorf("not within %s of the end of all faults", settleWithin))
	defer cancel()
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop()
	var workers []*worker
	hire := func(kind string) *worker {
		n := len(workers) + 1
		w := &worker{
			twin:   newClient(fmt.Sprintf("%s-%d-twin", kind, n), p.machine, c.bootstrap(), p.timeout),
			client: newClient(fmt.Sprintf("%s-%d", kind, n), p.machine, c.bootstrap(), p.timeout), number: n, history: h,
			rng: p.rng(streamWorkers + uint64(n)), parts: parts, think: p.think, padding: choose.IntN(400),
		}
		workers = append(workers, w)
		return w
	}
	start := func(w *worker, f func(*worker)) {
		writing.Go(func() {
			defer w.client.close()
			defer w.twin.close()
			f(w)
		})
	}
	for range 1 + choose.IntN(2) {
		start(hire("plain"), func(w *worker) { w.plain(load) })
	}
	for range 1 + choose.IntN(3) {
		start(hire("idempotent"), func(w *worker) { w.idempotent(load) })
	}
	id := ""
	for range 1 + choose.IntN(3) {
		w := hire("transactional")
		if id == "" || choose.IntN(3) > 0 { // else it is a zombie of the last one
			id = fmt.Sprintf("tx%d", w.number)
		}
		own := id
		start(w, func(w *worker) { w.transact(load, settling, own, version) })
	}
	for range 2 {
		start(hire("reader"), func(w *worker) { w.read(load) })
	}
	var otherErrs error
	var others sync.Mutex
	for _, f := range p.others {
		writing.Go(func() {
			if err := f(load, c, h, parts); err != nil {
				others.Lock()
				otherErrs = errors.Join(otherErrs, err)
				others.Unlock()
			}
		})
	}
	n := &nemesis{
		cluster: c, rng: p.rng(streamFaults), client: admin, calm: 1500 * time.Millisecond, span: 3 * time.Second, done: r.done,
	}
	if p.trouble != nil {
		err = p.trouble(load, n, parts)
	} else {
		err = n.run(load, p.faults)
	}
	stop()
	if err != nil {
		r.say("CLUSTER", "%v", err)
		return r, nil
	}
	if err := c.whole(settling, admin); err != nil {
		r.say("CLUSTER", "%v", err)
		return r, nil
	}
	writing.Wait()
	if otherErrs != nil {
		return r, otherErrs
	}
	err = p.look(settling, c, admin, parts, r)
	for _, w := range workers {
		r.strange += w.strange
		for _, text := range w.wrong {
			r.say("MOVED", "%s", text)
		}
	}
	return r, err
}

// look reads what is left, and judges it.
func (p *plan) look(ctx context.Context, c *cluster, admin *client, parts []partition, r *report) error {
	ends, err := settle(ctx, admin, parts)
	if err != nil {
		r.say("HANGING", "%v", err)
		return nil
	}
	var unequal []finding
	for _, part := range parts {
		some, cancel := context.WithTimeout(ctx, 10*time.Second)
		batches, err := c.replicas(some, part, ends[part])
		cancel()
		if err != nil {
			unequal = append(unequal, finding{"REPLICAS", err.Error()})
			files, _ := c.log(0, part)
			batches, _ = batchesOf(files)
		}
		for _, b := range batches {
			entries, err := entriesIn(&b)
			if err != nil {
				return fmt.Errorf("%s: %w", part, err)
			}
			r.logs[part] = append(r.logs[part], entries...)
		}
		read, err := readCommitted(ctx, admin, part, ends[part])
		if err == nil {
			err = visible(r.logs[part], read)
		}
		if err != nil {
			unequal = append(unequal, finding{"VISIBLE", fmt.Sprintf("%s: %v", part, err)})
		}
	}
	r.judged = judge(r.history, r.logs, judgeWithin)
	r.findings = append(unequal, r.findings...)
	return c.fallen()
}

// err is a report's findings as an error, nil for none.
func (r *report) err() error {
	if len(r.findings) == 0 {
		return nil
	}
	var lines []string
	for _, f := range r.findings {
		lines = append(lines, "  "+f.String())
	}
	return fmt.Errorf("%d findings:\n%s", len(r.findings), strings.Join(lines, "\n"))
}

// save writes what a run leaves to a folder: history, what nodes said, and
// porcupine's picture of a partition that is not linearizable.
func (r *report) save(dir string, told []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r.history, "", " ")
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(dir, "history.json"), raw, 0o644)
	if r.info != nil {
		f, ferr := os.Create(filepath.Join(dir, "linearizability.html"))
		if ferr == nil {
			ferr = errors.Join(porcupine.Visualize(appendOnlyLog(), *r.info, f), f.Close())
		}
		err = errors.Join(err, ferr)
	}
	if r.err() != nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "findings.txt"), []byte(r.err().Error()+"\n"), 0o644))
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "nodes.log"), told, 0o644))
}
