package engine

import (
	"context"
	"errors"
	"os"
	"time"

	"watershed.example/fixtures"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/suite/report"
	"watershed.example/suite/traffic"
)

// Options say how to run a scenario.
type Options struct {
	Seed uint64
	// Folder of the whole run; the scenario's lies in it, by Name.
	Folder, Name string
	Launcher     string
	// Target are clusters that run already, on which to play instead of on those of a
	// launcher; nil for none.
	Target *Target
	// Nodes is how many nodes each cluster has; 0 for as many as the scenario says.
	Nodes int
	// Profile is that of scenarios that have none of their own; "" for
	// kip1279-v42.
	Profile check.Profile
	// Defects of the brokers: of all clusters, or with "NAME@CLUSTER" of that one.
	Defects []string
	// KafkaJars is the folder of Apache Kafka's jars, for scenarios whose source is
	// that.
	KafkaJars string
	// Broker is what the cluster of a scenario without mirrors is, where it is not
	// the reference broker.
	Broker *Broker
	// Keep leaves the brokers' data folders.
	Keep bool
	// Known are violations that somebody accepts.
	Known []report.Known
	// Reproduce is the command that runs it again.
	Reproduce string
	// Progress is told what is going on; it may be nil.
	Progress func(format string, args ...any)
}

// Run plays one scenario on clusters of its own, saves what was asked, answered
// and stored, and judges that alone. An error says that it could not run: a fault
// of the environment, never a verdict. A story that got no further between
// clusters that live is judged as far as it went; where that shows nothing
// violated, it could not run. The result is never nil.
func Run(ctx context.Context, sc Scenario, o Options) (*Result, error) {
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	if o.Name == "" {
		o.Name = sc.Name
	}
	sc = sc.On(o.Nodes).In(o.Profile)
	if o.Target != nil {
		sc = o.Target.fit(sc)
	}
	if o.Broker != nil {
		able, na := sc.able(o.Broker.cannot(sc))
		if na != "" {
			return notApplicable(sc, o, na), nil
		}
		sc = able
	}
	res := &Result{
		Scenario: sc, Name: o.Name, Seed: o.Seed, Reproduce: o.Reproduce, Started: time.Now(),
		Folder: scenarioFolder(o.Folder, o.Name),
	}
	err := os.MkdirAll(res.Folder, 0o755)
	if err == nil {
		err = record(ctx, sc, o, res)
	}
	if err == nil {
		err = judge(res)
	}
	res.Took = time.Since(res.Started)
	res.Accepted = report.Accepts(o.Known, scenarioOf(o.Name), res.Verdicts, time.Now())
	if err == nil && res.trouble != nil && len(res.Violated()) == 0 {
		err = res.trouble
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // what follows from it tells nothing
		}
		res.Trouble = err.Error()
		return res, err
	}
	if res.trouble != nil {
		res.Trouble = res.trouble.Error()
	}
	return res, res.saveReports()
}

// record runs the scenario and saves its evidence.
func record(ctx context.Context, sc Scenario, o Options, res *Result) (err error) {
	w, err := history.Create(historyPath(res.Folder), o.Name, o.Seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	s, err := newStory(sc, o, traffic.NewRecorder(w), res.Folder)
	if err != nil {
		return err
	}
	o.Progress("launch")
	began := time.Now()
	if err := limited(ctx, "launch", s.patience(launchLimit), func(ctx context.Context) error {
		s.world, err = launch(ctx, s.rec, sc, o, res.Folder)
		return err
	}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, s.world.env.CallOff)()
	s.launched = time.Since(began)
	for _, e := range s.episodes {
		if e.fault, err = newFault(s.world, e.rec, sc, e.Mirror, e.layout.Written); err != nil {
			return errors.Join(err, s.world.close())
		}
		if e.nodes, err = newNodeFaults(s.world, e.rec, sc); err != nil {
			return errors.Join(err, s.world.close())
		}
	}
	run := s.plan(o) // before the episodes end, and their faults with them
	var played error
	if o.Target == nil { // its links are not ours to cut
		played = limited(ctx, "self-test of the links", selfTestLimit, s.world.selfTest)
	}
	if played == nil {
		s.began = time.Now()
		played = s.play(ctx)
	}
	res.Up, res.Stuck = s.up, s.stuck
	if played != nil && !s.began.IsZero() && ctx.Err() == nil && s.world.env.Lost() == nil {
		// The clusters worked and live: what was seen may say why.
		res.trouble, played = played, nil
	}
	s.uncaptured(run)
	ended := s.world.close()
	if !s.world.env.FollowersShown() {
		if run.NotApplicable == nil {
			run.NotApplicable = map[string]string{}
		}
		run.NotApplicable["LOG-4"] = "the brokers serve no consumer from a replica that does not lead (KIP-392), so its log is not seen"
	}
	left, ended := fixtures.Left(ended)
	// It is said, but what was played is judged; not so where the logs are not known.
	res.trouble = errors.Join(res.trouble, left)
	saved := errors.Join(run.Save(runPath(res.Folder)), s.world.save(res.Folder))
	if saved == nil && o.Target == nil {
		saved = s.dump(ctx)
	}
	return errors.Join(played, ended, saved)
}

// judge turns saved evidence into verdicts.
func judge(res *Result) error {
	ev, err := check.Load(res.Folder)
	if err != nil {
		return err
	}
	res.Evidence, res.Verdicts = ev, check.All(ev)
	return ev.Close()
}
