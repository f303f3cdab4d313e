package engine

import (
	"cmp"
	"slices"

	"watershed.example/chaos"
)

// CrashMatrix lists a scenario for each cell of {leader, follower, controller,
// source} × {kill, pause, cut-off} × {each gate of STOPPING}, all on clusters of
// several nodes.
func CrashMatrix() []Scenario {
	return slices.DeleteFunc(severalNodes(), func(s Scenario) bool {
		return s.Node == nil || s.Node.Act == chaos.Strand || s.Node.Point == chaos.FirstWrite
	})
}

// CoveringCrashes is a part of the crash matrix in which every pair of role and
// gate, of act and gate, and of role and act occurs. There is no smaller one: each
// role meets each gate once.
func CoveringCrashes() []Scenario {
	acts := []chaos.Act{chaos.Kill, chaos.Pause, chaos.CutOff}
	points := chaos.Points()
	roles := chaos.Roles()
	return slices.DeleteFunc(CrashMatrix(), func(s Scenario) bool {
		turn := slices.Index(roles, s.Node.Target.Role) + slices.Index(points, s.Node.Point)
		return s.Node.Act != acts[turn%len(acts)]
	})
}

// ShardOfCrashes is part i, from 1, of n parts of cells, which cost the same each.
// Up to as many parts of the covering cells as there are roles have each role, each
// act and each gate: the smallest meet each gate once, by one role after the other.
func ShardOfCrashes(cells []Scenario, i, n int) []Scenario {
	var roles []chaos.Role
	for _, s := range cells {
		if r := s.Node.Target.Role; !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	points := chaos.Points()
	class := func(s Scenario) int {
		return (slices.Index(roles, s.Node.Target.Role) + slices.Index(points, s.Node.Point)) % len(roles)
	}
	dealt := slices.Clone(cells)
	slices.SortStableFunc(dealt, func(a, b Scenario) int { return cmp.Compare(class(a), class(b)) })
	return dealt[len(dealt)*(i-1)/n : len(dealt)*i/n]
}
