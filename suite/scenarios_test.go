package suite_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"watershed.example/suite/check"
	"watershed.example/suite/engine"
)

// admission limits how much runs at the same time, by weight.
var admission = semaphore.NewWeighted(engine.Capacity())

// chosen says whether -run or -skip picked scenarios by name.
func chosen() bool {
	return strings.Contains(flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String(), "/")
}

// named says whether -run names a test.
func named(test string) bool {
	return strings.Contains(flag.Lookup("test.run").Value.String(), test)
}

// selection is which part of the matrix this run takes.
func selection() engine.Selection {
	switch {
	case settings.Full:
		return engine.Full
	case testing.Short():
		return engine.Short
	case chosen():
		return engine.Full // any scenario can be named
	}
	return engine.Default
}

// chosenScenarios are the scenarios of this run.
func chosenScenarios() []engine.Scenario {
	if settings.Broker != nil {
		return engine.Certifying()
	}
	if settings.Level != nil {
		return engine.UpTo(*settings.Level, engine.Scenarios(engine.Default))
	}
	return engine.Scenarios(selection())
}

// reproduce is the command that runs one test again as it ran here.
func reproduce(test string, seed uint64) string {
	var b strings.Builder
	b.WriteString("go test ./suite -run '")
	for i, part := range strings.Split(test, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString("^" + part + "$")
	}
	fmt.Fprintf(&b, "' -count=1 -seed=%d", seed)
	for _, d := range settings.Defects {
		b.WriteString(" -defect=" + d)
	}
	b.WriteString(settings.BrokerFlags())
	if settings.Nodes > 0 {
		fmt.Fprintf(&b, " -nodes=%d", settings.Nodes)
	}
	if settings.Profile == check.ProfileLatest {
		b.WriteString(" -profile=" + string(settings.Profile))
	}
	b.WriteString(" -launcher=" + settings.Launcher) // auto may choose another one elsewhere
	return b.String()
}

// TestScenarios runs each scenario on clusters of its own and judges what it
// left. Names are topology/fault/phase.
func TestScenarios(t *testing.T) {
	uncached(t)
	if settings.Duration > 0 {
		t.Skip("-duration: TestSoak runs the scenarios")
	}
	scenarios := chosenScenarios()
	total := len(scenarios)
	t.Cleanup(func() {
		if settings.Broker != nil || selection() != engine.Default || settings.Level != nil || len(settings.Defects) > 0 || t.Failed() || run.ctx.Err() != nil {
			return
		}
		if missing := engine.NotSelected(scenarios); len(missing) > 0 {
			t.Errorf("not selected: no scenario of a default run covers %s", strings.Join(missing, ", "))
		}
	})
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			runScenario(t, sc, total)
		})
	}
}

func runScenario(t *testing.T, sc engine.Scenario, total int) {
	res, err := play(t, run.ctx, sc, settings.Defects, t.Name())
	told(t, res, err, total)
}

// told adds a result to those of the run, says what it is, and fails the test
// that it failed.
func told(t *testing.T, res *engine.Result, err error, total int) {
	t.Helper()
	sc := res.Scenario
	run.mu.Lock()
	run.results = append(run.results, res)
	n := len(run.results)
	run.mu.Unlock()
	if err != nil {
		say("%d/%d %s could not run: %v", n, total, sc.Name, err)
		t.Fatalf("could not run: %v\nevidence: %s\nreproduce: %s", err, res.Folder, res.Reproduce)
	}
	say("%d/%d %s %s in %s (clusters up in %s)", n, total, sc.Name, res.Word(), engine.Seconds(res.Took), engine.Seconds(res.Up))
	if res.Failed() {
		t.Errorf("%s", res.Story())
	}
	shrinkViolated(t, res)
}

// shrinkViolated makes the case of a violation smaller, if that was asked for.
func shrinkViolated(t *testing.T, res *engine.Result) {
	t.Helper()
	if settings.Shrink == 0 || len(res.Unaccepted()) == 0 {
		return
	}
	shrunk, err := engine.ShrinkResult(run.ctx, res, settings.Shrink, engine.Options{
		Launcher: settings.Launcher, Keep: settings.Keep, Progress: func(format string, args ...any) { say(format, args...) },
	})
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	say("shrunk: %s", shrunk)
	t.Logf("shrunk: %s\nagain: %s", shrunk, engine.ReplayCommand(shrunk.File, settings.Launcher))
}

// play admits a scenario and runs it. An error says that it could not run.
func play(t *testing.T, ctx context.Context, sc engine.Scenario, defects []string, test string) (*engine.Result, error) {
	t.Helper()
	return playSeed(t, ctx, sc, engine.Options{Seed: settings.Seed, Defects: defects, Name: test, Reproduce: reproduce(test, settings.Seed)})
}

// playSeed is play with a seed of its own; the rest of the options is filled in.
func playSeed(t *testing.T, ctx context.Context, sc engine.Scenario, o engine.Options) (*engine.Result, error) {
	t.Helper()
	if !sc.Kafka { // whose clusters are what they are
		o.Launcher, o.Nodes, o.Broker = settings.Launcher, settings.Nodes, settings.Broker
	}
	room, weight := admission, min(sc.On(o.Nodes).Weight(), engine.Capacity())
	if o.Broker != nil {
		weight = o.Broker.Weight()
	}
	if named("TestCrashMatrix") || named("TestMatrix") {
		room, weight = crashes, int64(len(sc.Topology.Clusters)-1)
	}
	if err := room.Acquire(ctx, weight); err != nil {
		t.Fatalf("not started: %v", context.Cause(ctx))
	}
	defer room.Release(weight)
	o.Folder, o.Keep, o.Known, o.Profile = run.folder, settings.Keep, settings.Known, settings.Profile
	o.Progress = func(format string, args ...any) { t.Logf(format, args...) }
	return engine.Run(ctx, sc, o)
}
