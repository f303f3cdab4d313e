package engine

import (
	"strings"

	"watershed.example/suite/contract"
	"watershed.example/suite/report"
)

// Level is the level that the scenario belongs to (contract, "Levels"): what
// happens to it decides, not which requirements it exercises.
func (s Scenario) Level() contract.Level {
	switch {
	case len(s.Topology.Mirrors) == 0:
		return contract.L0
	case len(s.Topology.Mirrors) > 1 || len(s.Topology.Episodes()) > 1 || s.Operate || s.Wide > 0:
		return contract.L4
	case len(s.links())+len(s.nodes()) > 0, s.Amid != "":
		return contract.L3
	case s.KillSource, s.RestartDestination, s.CrashAt != "", s.Restart != "", s.Vanish != "":
		return contract.L2
	}
	return contract.L1
}

// members are the scenarios that the levels consist of: those of a default run.
func members() []report.Member {
	var all []report.Member
	for _, sc := range Scenarios(Default) {
		all = append(all, report.Member{Scenario: sc.Name, Level: sc.Level(), Requirements: sc.Requirements()})
	}
	return all
}

// certifying are the scenarios of a level of a broker that has no mirroring.
func certifying() []report.Member {
	var all []report.Member
	for _, sc := range Certifying() {
		all = append(all, report.Member{Scenario: sc.Name, Level: sc.Level(), Requirements: sc.Requirements()})
	}
	return all
}

// UpTo leaves the scenarios that a level includes.
func UpTo(level contract.Level, scenarios []Scenario) []Scenario {
	var out []Scenario
	for _, sc := range scenarios {
		if sc.Level() <= level {
			out = append(out, sc)
		}
	}
	return out
}

// scenarioOf is the scenario's name within that of its test.
func scenarioOf(test string) string {
	if _, name, ok := strings.Cut(test, "TestScenarios/"); ok {
		return name
	}
	return test
}
