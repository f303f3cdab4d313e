package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/topologies"
)

// Played are the settings of runs of one case, and of what is done with its violations.
type Played struct {
	// Faults are those of -plan; PlanGiven is false when there was no such flag, which
	// is not the same as a plan without faults.
	Faults    chaos.Several
	PlanGiven bool
	// Topology is the name of the one that the plan is played on.
	Topology string
	// ReplayFile is the file that is played; "" for none.
	ReplayFile string
	// Healthy plays it with brokers that are not wrong on purpose.
	Healthy bool
	// Shrink bounds how long a violation is made smaller; 0 for not at all.
	Shrink time.Duration
	// Explore is how long a search begins plays; 0 for no search. CorpusFolder is where it
	// keeps what showed something new; "" for a folder beside the evidence.
	Explore      time.Duration
	CorpusFolder string
}

// noPlan stands for a plan without faults.
const noPlan = "none"

func playedSettings() []*setting {
	return []*setting{
		{name: "plan", usage: "faults that TestPlan plays, `'LINE'`: \"kill leader of=orders-0 cluster=B at=before:settled\", several with \" + \" between, or none"},
		{name: "topology", usage: "what -plan is played on, `NAME` (default: active-passive): " + strings.Join(Planned(), ", ")},
		{name: "replay", usage: "the replay `FILE` that TestReplay plays"},
		{name: "healthy", isBool: true, usage: "play the replay file without the defects that it names"},
		{name: "shrink", usage: "make the case of a violation smaller for so long, such as `5m`, and write it as a replay file"},
		{name: "explore", usage: "search for so long, such as `10m`: TestExplore plays cases that it makes from those that showed something new"},
		{name: "corpus", usage: "`folder` of what a search found, which it goes on from and adds to (default: one beside the evidence)"},
	}
}

func (p *Played) resolve(f *setting) (err error) {
	switch f.name {
	case "plan":
		if f.value == "" {
			return nil
		}
		p.PlanGiven = true
		if strings.TrimSpace(f.value) != noPlan {
			p.Faults, err = chaos.ParseSeveral(f.value)
		}
		return err
	case "topology":
		p.Topology = f.value
	case "replay":
		p.ReplayFile = f.value
	case "healthy":
		if f.source != "" {
			if p.Healthy, err = strconv.ParseBool(f.value); err != nil {
				return errors.New("want true or false")
			}
		}
	case "corpus":
		p.CorpusFolder = f.value
	case "explore":
		if f.value == "" {
			return nil
		}
		if p.Explore, err = time.ParseDuration(f.value); err != nil || p.Explore <= 0 {
			return errors.New("want a time such as 10m")
		}
	case "shrink":
		if f.value == "" {
			return nil
		}
		if p.Shrink, err = time.ParseDuration(f.value); err != nil || p.Shrink < 0 {
			return errors.New("want a time such as 5m")
		}
	}
	return nil
}

// Case is what -plan and the flags beside it say.
func (s *Settings) Case() Case {
	c := Case{
		Seed: s.Seed, Topology: cmp.Or(s.Topology, topologies.ActivePassive().Name), Nodes: s.Nodes, Profile: s.Profile, Defects: s.Defects, Faults: s.Faults,
	}
	if c.Nodes == 0 {
		c.Nodes = 1
		if len(c.Faults.Nodes) > 0 {
			c.Nodes = several
		}
	}
	return c
}

// Flags are those of a command that plays the case.
func (c Case) Flags() string { return c.flags("-") }

func (c Case) flags(dash string) string {
	line := noPlan
	if c.Faults.Count() > 0 {
		line = c.Faults.String()
	}
	return fmt.Sprintf("%stopology=%s %splan='%s'", dash, c.Topology, dash, line)
}

// PlanCommand is the command that plays a case from its plans.
func PlanCommand(c Case, launcher string) string {
	again := fmt.Sprintf("go test ./suite -run '^TestPlan$' -count=1 %s -nodes=%d -seed=%d", c.Flags(), max(c.Nodes, 1), c.Seed)
	if c.Profile == check.ProfileLatest {
		again += " -profile=" + string(c.Profile)
	}
	for _, d := range c.Defects {
		again += " -defect=" + d
	}
	return again + " -launcher=" + launcher
}

// ReplayCommand is the command that plays a replay file.
func ReplayCommand(path, launcher string) string {
	return fmt.Sprintf("go test ./suite -run '^TestReplay$' -count=1 -replay='%s' -launcher=%s", path, launcher)
}

// Over is the replay with what a person chose beside it: a seed, other defects or none.
func (s *Settings) Over(r Replay) Replay {
	if s.SeedGiven {
		r.Seed = s.Seed
	}
	switch {
	case len(s.Defects) > 0:
		r.Defects = s.Defects
	case s.Healthy:
		r.Defects = nil
	}
	return r
}

// Told says in a line what became of a replay.
func (r Replay) Told(res *Result) string {
	violated := res.Violated()
	switch {
	case r.Requirement == "":
		return "replay: " + res.Word()
	case slices.Contains(violated, r.Requirement):
		return "replay: " + r.Requirement + " is violated again"
	case len(violated) > 0:
		return fmt.Sprintf("replay: not %s, but %s is violated", r.Requirement, strings.Join(violated, ", "))
	}
	return fmt.Sprintf("replay: %s was not violated this time (%s; it was in %d of %d runs)", r.Requirement, res.Word(), r.Seen, r.Tries)
}

// OneCase is the scenario that -plan or -replay give. Of a replay the settings take what it
// says: seed, profile, defects.
func (s *Settings) OneCase() (Scenario, error) {
	c := s.Case()
	if s.ReplayFile != "" {
		r, err := LoadReplay(s.ReplayFile)
		if err != nil {
			return Scenario{}, err
		}
		c = s.Over(r).Case
		s.Seed, s.SeedGiven, s.Profile, s.Defects, s.Nodes = c.Seed, true, c.Profile, c.Defects, 0
	}
	return c.Scenario()
}

// CaseFlags name what is played: by its name, or as -plan or -replay gave it.
func (s *Settings) CaseFlags(name string) string {
	switch {
	case s.ReplayFile != "":
		return "--replay='" + s.ReplayFile + "'"
	case s.PlanGiven:
		return s.Case().flags("--")
	}
	return "'" + name + "'"
}
