package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// Limits of the phases of a run. Each bounds how long an answer may take; what
// is not there by then is named in the error. They are many times what a phase takes,
// since a machine that is very busy takes many times as long; where what is broken is
// waited for in vain, as a stop or a reader, they are shorter.
const (
	launchLimit   = 60 * time.Second
	trafficLimit  = 60 * time.Second
	catchUpLimit  = 40 * time.Second
	strikeLimit   = 20 * time.Second
	stopLimit     = 20 * time.Second
	gateLimit     = 10 * time.Second // beside stopLimit, for what is done at each gate
	writableLimit = 20 * time.Second
	readLimit     = 20 * time.Second
	captureLimit  = 60 * time.Second
	wideLimit     = 180 * time.Second

	// longPoll is how long the fetches wait that are to be served late.
	longPoll = 60 * time.Millisecond
)

// limited runs one phase under its limit; its error says which phase it was.
func limited(ctx context.Context, phase string, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %s", phase, limit))
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", phase, err)
	}
	return nil
}

// story is one run on its way: the environment, and the episodes with what was
// seen of them so far.
type story struct {
	scenario Scenario
	// slow is set where the brokers take their time, as Apache Kafka's do.
	slow  bool
	world *world
	rec   *traffic.Recorder
	// unseen records nowhere: for questions that are no evidence.
	unseen   *traffic.Recorder
	seed     uint64
	folder   string
	progress func(string, ...any)
	// kafkaJars is the folder of Apache Kafka's jars where it is the source.
	kafkaJars string

	episodes []*episode
	writes   map[int]writes // by the place of the step
	ids      producerIDs
	watches  map[string]*gateWatch // by cluster
	alone    *alone                // of a cluster without mirrors, while it is written to

	// defects of the brokers and of their dump tool.
	defects []string

	// whole lasts as long as the story: what runs beside its phases lives in it.
	whole context.Context
	// launched is how long the launch took, began when the story did, up the
	// time from launch to the first acknowledged write, the self-test left out.
	launched time.Duration
	began    time.Time
	up       time.Duration

	// stuck is set when STOPPED did not come in time: a finding, not a fault of
	// the environment.
	stuck error
}

// newStory prepares a story in a world that comes later.
func newStory(sc Scenario, o Options, rec *traffic.Recorder, folder string) (*story, error) {
	unseen := traffic.NewRecorder(history.NewWriter(io.Discard, sc.Name, o.Seed, time.Now))
	s := &story{
		scenario: sc, rec: rec, unseen: unseen, seed: o.Seed, folder: folder, progress: o.Progress,
		ids: newProducerIDs(), watches: map[string]*gateWatch{},
	}
	for _, d := range o.Defects {
		name, _, _ := strings.Cut(d, "@")
		s.defects = append(s.defects, name)
	}
	if sc.Kafka {
		s.kafkaJars = o.KafkaJars
	}
	s.slow = sc.Kafka || o.Broker != nil
	var err error
	if s.writes, err = writesOf(sc.Topology); err != nil {
		return nil, err
	}
	for _, e := range sc.Topology.Episodes() {
		l, err := layOut(sc.Topology, e.Mirror)
		if err != nil {
			return nil, err
		}
		s.episodes = append(s.episodes, &episode{Episode: e, story: s, rec: rec.In(int32(e.Number)), layout: l})
	}
	return s, nil
}

// play runs the story up to its end. An error says that the run could not do
// what it claims; what brokers did wrong is for the checks to find.
func (s *story) play(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.whole = ctx
	defer s.close()
	for i := range s.scenario.Topology.Steps {
		for _, phase := range s.phases(i) {
			s.progress("%s", phase.name)
			if s.outside() {
				phase.limit *= targetPatience
			}
			if err := limited(ctx, phase.name, phase.limit, phase.do); err != nil {
				if s.stuck != nil && errors.Is(err, s.stuck) && ctx.Err() == nil {
					return nil // the evidence tells
				}
				return err
			}
		}
	}
	return s.rec.Err()
}

// phase is one bounded part of a step.
type phase struct {
	name  string
	limit time.Duration
	do    func(context.Context) error
}

// phases says how a step of the topology's story is played.
func (s *story) phases(i int) []phase {
	step := s.scenario.Topology.Steps[i]
	var all []phase
	add := func(e *episode, what string, limit time.Duration, do func(context.Context) error) {
		all = append(all, phase{fmt.Sprintf("%s: %s", e, what), limit, do})
	}
	switch step.Do {
	case topologies.CreateTopics:
		all = []phase{{"topics on " + step.Cluster, s.patience(launchLimit), func(ctx context.Context) error { return s.createTopics(ctx, step.Cluster) }}}
	case topologies.Write:
		if isAlone(s.scenario.Topology) {
			return s.aloneOn(step.Cluster)
		}
		w := s.writes[i]
		for _, n := range w.ends {
			e := s.episodes[n]
			add(e, "traffic on the promoted cluster", trafficLimit, e.trafficAfter)
			add(e, "reading to the end", readLimit+trafficLimit, e.readToEnd)
			if s.scenario.Wide > 0 && e.struck() {
				add(e, fmt.Sprintf("%d partitions", s.scenario.Wide), wideLimit, e.stopMany)
			}
			add(e, "raw logs of both clusters", captureLimit, e.end)
			if s.scenario.Vanish != "" && e.last() {
				add(e, "barriers gone", disturbLimit, e.vanish)
				add(e, "recovery without them", disturbLimit, e.recoverWithout)
			}
		}
		for _, n := range w.opens {
			e := s.episodes[n]
			add(e, "traffic on the source", s.patience(trafficLimit), e.trafficBefore)
		}
		for _, n := range w.zombies {
			e := s.episodes[n]
			if s.scenario.CleanPast && e.struck() {
				add(e, "cleaner past the parting", disturbLimit, e.cleanPast)
			}
			add(e, "zombies on the destination", trafficLimit, e.wakeZombies)
		}
	case topologies.StartMirror:
		for _, e := range s.episodes {
			if e.Start == i {
				add(e, "mirror start", catchUpLimit, e.startMirror)
				if s.scenario.Grows && e.struck() {
					add(e, "growth of the source", s.patience(growLimit), e.grow)
				}
				add(e, "read-only destination", trafficLimit, e.readOnly)
			}
		}
	case topologies.CatchUp:
		for _, e := range s.episodes {
			switch {
			case e.Mirror.Name != step.Mirror || i < e.Start || i > e.Stop:
			case s.lastCatchUp(e) == i:
				if s.scenario.SourceLoses && e.struck() {
					add(e, "the source loses its leader", lossLimit, e.sourceLoses)
				}
				add(e, "open transaction", catchUpLimit, e.openTransaction)
			default:
				add(e, "no lag", catchUpLimit, e.catchUp)
			}
		}
	case topologies.StopMirror:
		var stopping []*episode
		for _, e := range s.episodes {
			if e.Stop == i {
				stopping = append(stopping, e)
			}
		}
		limit := stopLimit + strikeLimit
		for _, e := range stopping {
			limit += time.Duration(len(e.holds())) * gateLimit
		}
		add(stopping[0], "stop", limit, func(ctx context.Context) error { return s.stop(ctx, stopping) })
		for _, e := range stopping {
			add(e, "after the stop", trafficLimit, e.late)
		}
	case topologies.Promote:
		for _, e := range s.episodes {
			if e.Promote == i {
				add(e, "promotion", writableLimit, e.writable)
			}
		}
	case topologies.Elect:
		all = []phase{{"elections on " + step.Cluster, launchLimit, func(ctx context.Context) error { return s.elect(ctx, step.Cluster) }}}
	}
	return all
}

// lastCatchUp is the place of the last time that an episode's mirror catches up
// before its stop.
func (s *story) lastCatchUp(e *episode) int {
	for i := e.Stop; i > e.Start; i-- {
		if step := s.scenario.Topology.Steps[i]; step.Do == topologies.CatchUp && step.Mirror == e.Mirror.Name {
			return i
		}
	}
	return -1
}

func (s *story) close() {
	if s.alone != nil {
		s.alone.close()
	}
	for _, e := range s.episodes {
		e.close()
	}
	for _, w := range s.watches {
		w.close()
	}
}

// patience is how long a phase may take: Apache Kafka starts slowly.
func (s *story) patience(limit time.Duration) time.Duration {
	if s.slow {
		return kafkaPatience * limit
	}
	return limit
}

// outside says whether the clusters are somebody else's, which others may use too.
func (s *story) outside() bool { return s.scenario.space != "" }

// targetPatience is how much longer the phases on a target may take: its nodes are
// stopped and started by commands, and it may be far away.
const targetPatience = 4

func (s *story) createTopics(ctx context.Context, cluster string) error {
	topics := map[string]int32{}
	var written string
	for _, t := range s.scenario.Topology.Topics {
		if t.Home != cluster {
			continue
		}
		topics[t.Name] = int32(t.Partitions) - s.late()
		if !t.Empty && written == "" {
			written = t.Name
		}
	}
	raw, err := traffic.NewRaw(ctx, s.rec, s.world.cluster(cluster), lower(cluster)+"-admin")
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := raw.CreateTopics(ctx, topics); err != nil {
		return err
	}
	// The first write says that the clusters are up.
	first, err := traffic.NewProducer(s.rec, s.world.cluster(cluster), traffic.ProducerOptions{
		Name: lower(cluster) + "-first", Mode: history.Plain, Attempts: traffic.Patiently,
	})
	if err != nil {
		return err
	}
	defer first.Close()
	err = first.Send(ctx, 1, traffic.Partition{Topic: written})
	if s.up == 0 {
		s.up = s.launched + time.Since(s.began)
	}
	return err
}

// elect gives every partition that a mirror brought to the cluster, or that it
// had, a new leader epoch: at least the one that the other clusters are at.
func (s *story) elect(ctx context.Context, cluster string) error {
	raw, err := traffic.NewRaw(ctx, s.unseen, s.world.cluster(cluster), "elect")
	if err != nil {
		return err
	}
	defer raw.Close()
	want := map[traffic.Partition]int32{}
	own, err := raw.LeaderEpochs(ctx)
	if err != nil {
		return err
	}
	for _, c := range s.scenario.Topology.Clusters {
		if c.Name == cluster {
			continue
		}
		other, err := traffic.NewRaw(ctx, s.unseen, s.world.cluster(c.Name), "elect")
		if err != nil {
			return err
		}
		epochs, err := other.LeaderEpochs(ctx)
		other.Close()
		if err != nil {
			return err
		}
		for p, epoch := range epochs {
			if _, here := own[p]; here && !strings.HasPrefix(p.Topic, "__") && strings.HasPrefix(p.Topic, s.scenario.space) {
				want[p] = max(want[p], epoch)
			}
		}
	}
	for {
		err := raw.Elect(ctx, want)
		if !errors.Is(err, traffic.ErrNoBump) {
			return err
		}
		// A cluster of one node elects when that one comes back.
		if err := s.world.restartAll(ctx, cluster); err != nil {
			return err
		}
		if own, err = raw.LeaderEpochs(ctx); err != nil {
			return err
		}
		if reached(own, want) {
			return nil
		}
	}
}

func reached(own, want map[traffic.Partition]int32) bool {
	for p, epoch := range want {
		if own[p] < epoch {
			return false
		}
	}
	return true
}

// nodes is how many nodes a cluster has.
func (s *story) nodes(cluster string) int {
	c, _ := s.scenario.Topology.Cluster(cluster)
	return c.Nodes
}

func lower(cluster string) string { return strings.ToLower(cluster) }

// prefix begins the names of the clients of an episode on one of its clusters.
func prefix(cluster string, episode int) string { return fmt.Sprintf("%s%d-", lower(cluster), episode) }
