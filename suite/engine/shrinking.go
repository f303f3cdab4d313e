package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"watershed.example/chaos"
	"watershed.example/suite/engine/shrink"
	"watershed.example/topologies"
)

// Shrunk is what became of the search for a smaller case.
type Shrunk struct {
	Replay
	// File is where it was written.
	File string
	// Runs that were played for it, and Whole says whether nothing smaller was left to
	// try.
	Runs  int
	Whole bool
}

func (s Shrunk) String() string {
	until := "nothing smaller shows it"
	if !s.Whole {
		until = "time was up"
	}
	line := noPlan
	if s.Faults.Count() > 0 {
		line = s.Faults.String()
	}
	return fmt.Sprintf("%s by %q on %s with %d node(s) each, seed %d, in %d of %d runs (%d runs, %s)\nreplay: %s",
		s.Requirement, line, s.Topology, max(s.Nodes, 1), s.Seed, s.Seen, s.Tries, s.Runs, until, s.File)
}

// proofsOfShrunk is how often the smallest case is played again for its rate.
const proofsOfShrunk = 2

// Shrink makes the case smaller as long as a run of it violates the requirement, for so
// long at the most, and writes the smallest as a replay file in folder. The options are
// those of the runs, whose evidence lies below folder too, the smallest's at the end.
func Shrink(ctx context.Context, c Case, requirement, folder string, limit time.Duration, o Options) (Shrunk, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	say := o.Progress
	if say == nil {
		say = func(string, ...any) {}
	}
	runs := 0
	o.Progress = nil
	found, err := shrink.Minimise(limited, c, shrink.Problem[Case]{
		Smaller: Case.smaller, Size: Case.size, Key: func(c Case) string { return c.Flags() + fmt.Sprint(c.Nodes) },
		Shows: func(ctx context.Context, c Case) (bool, error) {
			runs++
			res, err := c.play(ctx, fmt.Sprintf("shrink/%03d", runs), folder, o)
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			// A run that could not be played to its end shows nothing.
			shows := err == nil && slices.Contains(res.Violated(), requirement)
			say("shrink %s: %s: %s", requirement, c.Flags(), map[bool]string{true: "still", false: "not"}[shows])
			return shows, res.Forget(false)
		},
		Tries: 1, Needs: 2, Proofs: proofsOfShrunk,
	})
	s := Shrunk{
		Replay: Replay{Case: found.Case, Launcher: o.Launcher, Requirement: requirement, Seen: found.Seen, Tries: found.Tries},
		File:   filepath.Join(folder, "replay-"+requirement+".json"), Runs: runs, Whole: found.Whole,
	}
	if err != nil {
		return s, fmt.Errorf("shrink: %w", err)
	}
	return s, s.Save(s.File)
}

// play runs the case.
func (c Case) play(ctx context.Context, name, folder string, o Options) (*Result, error) {
	sc, err := c.Scenario()
	if err != nil {
		return &Result{Scenario: sc, Trouble: err.Error()}, err
	}
	o.Seed, o.Profile, o.Defects, o.Name, o.Folder = c.Seed, c.Profile, c.Defects, name, folder
	o.Nodes, o.Reproduce = 0, PlanCommand(c, o.Launcher)
	return Run(ctx, sc, o)
}

// smaller lists cases that are smaller than c: with fewer faults, in a simpler topology,
// on fewer nodes, with weaker faults. Only such as can be played.
func (c Case) smaller() (all []Case) {
	add := func(d Case) {
		if _, err := d.Scenario(); err == nil {
			all = append(all, d)
		}
	}
	for _, left := range shrink.Without(c.list()) {
		add(c.with(left))
	}
	for _, t := range Planned() {
		simpler := c
		simpler.Topology = t
		if simpler.size() >= c.size() {
			continue
		}
		add(simpler)
		// Stops have other numbers there.
		first := c.list()
		for i := range first {
			first[i] = first[i].weaken(func(w *chaos.When) { w.Stop = 0 })
		}
		add(simpler.with(first))
	}
	if c.Nodes > 1 {
		d := c
		d.Nodes = 1
		add(d)
	}
	list := c.list()
	for i, f := range list {
		for _, weaker := range f.weaker() {
			changed := slices.Clone(list)
			changed[i] = weaker
			add(c.with(changed))
		}
	}
	return all
}

// size counts faults first, then what a run of it takes, then how strong the faults are.
func (c Case) size() int {
	size := 0
	for _, f := range c.list() {
		size += 100_000 + f.strength()
	}
	if t := slices.IndexFunc(topologies.All(), func(t topologies.Topology) bool { return t.Name == c.Topology }); t >= 0 {
		top := topologies.All()[t]
		size += 1000*len(top.Episodes()) + 500*len(top.Clusters)*max(c.Nodes, 1) + t
	}
	return size
}

// oneFault is a fault of either kind.
type oneFault struct {
	link *chaos.Plan
	node *chaos.NodePlan
}

func (c Case) list() (all []oneFault) {
	for _, p := range c.Faults.Links {
		all = append(all, oneFault{link: &p})
	}
	for _, p := range c.Faults.Nodes {
		all = append(all, oneFault{node: &p})
	}
	return all
}

// with is the case with these faults.
func (c Case) with(list []oneFault) Case {
	c.Faults = chaos.Several{}
	for _, f := range list {
		if f.link != nil {
			c.Faults.Links = append(c.Faults.Links, *f.link)
		} else {
			c.Faults.Nodes = append(c.Faults.Nodes, *f.node)
		}
	}
	return c
}

// weaken is a copy of the fault with its time changed.
func (f oneFault) weaken(change func(*chaos.When)) oneFault {
	if f.link != nil {
		p := *f.link
		change(&p.When)
		return oneFault{link: &p}
	}
	p := *f.node
	change(&p.When)
	return oneFault{node: &p}
}

// weakerKinds and weakerActs lead from a fault to those that do a part of it.
var (
	weakerKinds = map[chaos.Kind][]chaos.Kind{
		chaos.Partition:           {chaos.None, chaos.PartitionToSource, chaos.PartitionFromSource},
		chaos.PartitionToSource:   {chaos.None},
		chaos.PartitionFromSource: {chaos.None, chaos.HoldAndDrop},
		chaos.HoldAndDrop:         {chaos.None, chaos.HoldAndRelease},
		chaos.HoldAndRelease:      {chaos.None, chaos.HoldOneFetch},
		chaos.HoldOneFetch:        {chaos.None},
		chaos.CutInFrame:          {chaos.None, chaos.Reset},
		chaos.Reset:               {chaos.None},
		chaos.Bandwidth:           {chaos.None, chaos.Latency},
		chaos.Latency:             {chaos.None},
	}
	weakerActs = map[chaos.Act][]chaos.Act{
		chaos.CutOff:  {chaos.CutInbound, chaos.CutOutbound},
		chaos.Strand:  {chaos.Kill, chaos.CutOff},
		chaos.Vanish:  {chaos.Kill, chaos.Stop},
		chaos.Kill:    {chaos.Stop, chaos.Restart, chaos.Pause},
		chaos.Stop:    {chaos.Restart},
		chaos.Restart: {chaos.Pause, chaos.ResetPeers},
	}
)

// strength orders faults: how far it is down to one that has none weaker, and whether it
// stays until STOPPED.
func (f oneFault) strength() (strength int) {
	if f.link != nil {
		strength = 100 * height(f.link.Kind, weakerKinds)
		if f.link.UntilStopped {
			strength += 50
		}
		if f.link.Delay+f.link.Jitter > 0 || f.link.Rate > 0 || f.link.Seed > 0 {
			strength += 5 // than by its defaults
		}
		if f.link.Stop > 0 {
			strength++
		}
		return strength
	}
	strength = 50 + 100*height(f.node.Act, weakerActs)
	if f.node.UntilStopped {
		strength += 50
	}
	if f.node.Delay != 0 || f.node.Rate != 0 {
		strength += 5
	}
	if f.node.Stop > 0 {
		strength++
	}
	return strength
}

func height[K comparable](k K, weaker map[K][]K) (most int) {
	for _, w := range weaker[k] {
		most = max(most, 1+height(w, weaker))
	}
	return most
}

// weaker lists faults that do less.
func (f oneFault) weaker() (all []oneFault) {
	for _, change := range []func(*chaos.When){
		func(w *chaos.When) { w.UntilStopped = false },
		func(w *chaos.When) { w.Stop = 0 },
	} {
		all = append(all, f.weaken(change))
	}
	if f.link != nil {
		plain := *f.link
		plain.Delay, plain.Jitter, plain.Rate, plain.Seed = 0, 0, 0, 0
		all = append(all, oneFault{link: &plain})
		for _, k := range weakerKinds[f.link.Kind] {
			p := plain
			p.Kind = k
			all = append(all, oneFault{link: &p})
		}
	} else {
		plain := *f.node
		plain.Delay, plain.Rate = 0, 0
		all = append(all, oneFault{node: &plain})
		for _, a := range weakerActs[f.node.Act] {
			p := plain
			p.Act = a
			p.UntilStopped = p.UntilStopped && !a.Passing() && !a.AtOnce()
			all = append(all, oneFault{node: &p})
		}
	}
	return slices.DeleteFunc(all, func(w oneFault) bool { return w.strength() >= f.strength() })
}

// caseOfFailed is the requirement to shrink by: the first that was violated.
func caseOfFailed(res *Result) (Case, string, error) {
	violated := res.Unaccepted()
	if len(violated) == 0 {
		return Case{}, "", fmt.Errorf("%s: nothing is violated", res.Name)
	}
	var defects []string
	if res.Evidence != nil {
		defects = res.Evidence.Run.Defects
	}
	c, err := CaseOf(res.Scenario, res.Seed, defects)
	return c, violated[0], err
}

// ShrinkResult makes the case of a result that violates something smaller. The files lie
// beside the result's evidence.
func ShrinkResult(ctx context.Context, res *Result, limit time.Duration, o Options) (Shrunk, error) {
	c, requirement, err := caseOfFailed(res)
	if err != nil {
		return Shrunk{}, fmt.Errorf("shrink: %w", err)
	}
	return Shrink(ctx, c, requirement, res.Folder, limit, o)
}
