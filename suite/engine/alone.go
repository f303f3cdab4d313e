package engine

import (
	"context"
	"errors"
	"time"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// alonePoll is how long the fetches of a cluster without mirrors wait that are
// to be served late: there is one for each offset.
const alonePoll = 15 * time.Millisecond

// disturbLimit bounds one disturbance: a cleaner may take its time.
const disturbLimit = 60 * time.Second

// alone is the traffic of a cluster without any mirror (SC-1 to SC-8).
type alone struct {
	story     *story
	rec       *traffic.Recorder
	cluster   traffic.Cluster
	parts     []traffic.Partition
	payload   []byte
	raw       *traffic.Raw
	sequences *traffic.Sequences
	ledger    *traffic.Ledger
	readers   []*traffic.Reader
}

// isAlone says whether a topology is about clusters by themselves.
func isAlone(t topologies.Topology) bool { return len(t.Mirrors) == 0 }

// part is the only partition of the topic for one kind of client.
func (a *alone) part(topic string) traffic.Partition {
	return traffic.Partition{Topic: a.topic(topic)}
}

// topic is a topic's name on the cluster.
func (a *alone) topic(name string) string { return a.story.scenario.space + name }

func newAlone(ctx context.Context, s *story, cluster string) (*alone, error) {
	a := &alone{story: s, rec: s.rec, cluster: s.world.cluster(cluster), payload: payloadOf(traffic.Rand(s.seed, "alone"))}
	for _, t := range s.scenario.Topology.Topics {
		for p := range t.Partitions {
			a.parts = append(a.parts, traffic.Partition{Topic: t.Name, Index: int32(p)})
		}
	}
	var err error
	if a.raw, err = traffic.NewRaw(ctx, a.rec, a.cluster, "alone"); err != nil {
		return nil, err
	}
	if a.ledger, err = traffic.NewLedger(ctx, a.rec, a.cluster, "ledger-", a.part("ledger"), a.payload); err != nil {
		a.close()
		return nil, err
	}
	a.sequences = traffic.NewSequences(a.raw, a.part("sequences"), a.payload)
	return a, nil
}

func (a *alone) close() {
	for _, r := range a.readers {
		r.Stop()
	}
	if a.ledger != nil {
		a.ledger.Close()
	}
	a.raw.Close()
	a.readers, a.ledger = nil, nil
}

// aloneOn are the phases of a Write step on a cluster that no mirror touches.
func (s *story) aloneOn(cluster string) []phase {
	var a *alone
	each := func(name string, limit time.Duration, do func(*alone, context.Context) error) phase {
		return phase{name, s.patience(limit), func(ctx context.Context) error { return do(a, ctx) }}
	}
	all := []phase{{"clients", s.patience(trafficLimit), func(ctx context.Context) (err error) {
		if a, err = newAlone(ctx, s, cluster); err != nil {
			return err
		}
		s.alone = a
		for _, l := range s.scenario.left {
			a.rec.Note("left out: %s", l)
		}
		return a.begin(ctx)
	}}}
	all = append(all,
		each("sequences", trafficLimit, func(a *alone, ctx context.Context) error { return a.sequences.Run(ctx) }),
		each("transactions", trafficLimit, func(a *alone, ctx context.Context) error { return a.ledger.Run(ctx) }),
		each("markers", trafficLimit, (*alone).markers),
	)
	if s.scenario.RollOver != "" {
		all = append(all, each("epochs", rollOverLimit, (*alone).rollOver))
	}
	all = append(all, each("samples", sampleLimit, (*alone).sample))
	for _, what := range s.scenario.Disturb {
		all = append(all,
			each(string(what), disturbLimit+sampleLimit, func(a *alone, ctx context.Context) error { return a.disturb(ctx, what) }),
			each("traffic after "+string(what), trafficLimit, (*alone).goOn),
			each("samples", sampleLimit, (*alone).sample),
		)
	}
	return append(all, each("reading to the end", readLimit+trafficLimit, (*alone).finish))
}

// Limits of phases that do thousands of requests.
const (
	rollOverLimit = 180 * time.Second
	sampleLimit   = 120 * time.Second
)

func (a *alone) begin(ctx context.Context) error {
	if configs := a.story.scenario.segments(); len(configs) > 0 {
		if err := a.raw.AlterTopics(ctx, configs, a.topics()...); err != nil {
			return err
		}
	}
	return a.read("along")
}

func (a *alone) topics() []string {
	var all []string
	for _, t := range a.story.scenario.Topology.Topics {
		all = append(all, t.Name)
	}
	return all
}

// read starts one reader for each isolation level, from offset 0.
func (a *alone) read(name string) error {
	for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
		r, err := traffic.StartReader(a.story.whole, a.rec, a.cluster, name+"-"+string(level), level, a.parts)
		if err != nil {
			return err
		}
		a.readers = append(a.readers, r)
	}
	return nil
}

// markers has control batches alone in a log, tries forged ones, and delivers
// late what belongs to ended transactions. It takes producer ids too.
func (a *alone) markers(ctx context.Context) error {
	raw, err := traffic.NewRaw(ctx, a.rec, a.cluster, "joins")
	if err != nil {
		return err
	}
	defer raw.Close()
	joins, err := traffic.NewHandTxn(ctx, raw, "joins", 2, a.payload)
	if err != nil {
		return err
	}
	joins.Begin(history.IntentCommit)
	if err := joins.Join(ctx, a.part("idle")); err != nil {
		return err
	}
	if err := joins.End(ctx, true); err != nil {
		return err
	}
	if err := traffic.Markers(ctx, a.rec, a.cluster, "markers", a.part("markers"), a.payload); err != nil {
		return err
	}
	if err := traffic.LateEnds(ctx, a.rec, a.cluster, "late", a.part("late"), a.payload); err != nil {
		return err
	}
	return traffic.ProducerIDs(ctx, a.raw, 5, "ids-one", "ids-two")
}

// rollOver takes a producer to the end of its epochs, and past it.
func (a *alone) rollOver(ctx context.Context) error {
	raw, err := traffic.NewRaw(ctx, a.rec, a.cluster, "rolls-over")
	if err != nil {
		return err
	}
	defer raw.Close()
	return traffic.RollOver(ctx, raw, "rolls-over", a.part("late"), a.story.scenario.RollOver == ByEndTxn, a.payload)
}

// sample asks for everything at every offset, while nobody writes. Readers have
// nothing to do meanwhile.
func (a *alone) sample(ctx context.Context) error {
	snapshot := func() {
		for _, r := range a.readers {
			r.Snapshot()
		}
	}
	if err := a.awaitReaders(ctx); err != nil {
		a.rec.Note("%v", err)
	}
	snapshot()
	defer snapshot()
	return traffic.SampleEverywhere(ctx, a.rec, a.cluster, "samples", a.parts, alonePoll)
}

// awaitReaders waits until every reader has what it is to see by now.
func (a *alone) awaitReaders(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.story.patience(readLimit), errors.New("the readers took too long"))
	defer cancel()
	for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
		ends := map[traffic.Partition]int64{}
		for _, p := range a.parts {
			end, err := a.raw.LastVisible(ctx, p, level)
			if err != nil {
				return err
			}
			ends[p] = end + 1
		}
		for _, r := range a.readers {
			if r.Isolation() != level {
				continue
			}
			if err := r.Await(ctx, ends); err != nil {
				return err
			}
		}
	}
	return nil
}

// goOn lets every kind of client go on against the state that outlived a
// disturbance.
func (a *alone) goOn(ctx context.Context) error {
	if err := a.ledger.Renew(); err != nil {
		return err
	}
	if err := a.sequences.Again(ctx); err != nil {
		return err
	}
	if err := a.ledger.Again(ctx); err != nil {
		return err
	}
	return traffic.ProducerIDs(ctx, a.raw, 5, "ids-one", "ids-three")
}

// finish ends what is open, so that logs end with control batches, watches the
// readers there, writes behind them, and reads everything once more.
func (a *alone) finish(ctx context.Context) error {
	if err := a.ledger.Finish(ctx); err != nil {
		return err
	}
	if err := a.sample(ctx); err != nil {
		return err
	}
	if err := a.plainEverywhere(ctx); err != nil {
		return err
	}
	if err := a.read("fresh"); err != nil {
		return err
	}
	if err := a.awaitReaders(ctx); err != nil {
		a.rec.Note("%v", err) // a reader that does not get there is a finding
	}
	if err := a.sample(ctx); err != nil {
		return err
	}
	a.rec.Phase(history.Settled)
	a.close()
	a.story.alone = nil
	return nil
}

// plainEverywhere writes one record to each partition.
func (a *alone) plainEverywhere(ctx context.Context) error {
	p, err := traffic.NewProducer(a.rec, a.cluster, traffic.ProducerOptions{Name: "plain", Mode: history.Plain, Attempts: traffic.Patiently, Payload: a.payload})
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Send(ctx, 1, a.parts...)
}
