package engine

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"watershed.example/chaos"
	"watershed.example/topologies"
)

// Selection is a part of the matrix.
type Selection int

// The selections. A default run strikes with each fault, and at each point, at
// least once.
const (
	Short Selection = iota
	Default
	Full
)

// Scenarios lists the scenarios of a selection, the slowest kinds first.
func Scenarios(s Selection) []Scenario {
	return slices.DeleteFunc(matrix(), func(sc Scenario) bool {
		return s == Short && !sc.short || s == Default && !sc.deflt
	})
}

func matrix() []Scenario {
	all := activePassive()
	turn := 0
	for i, t := range topologies.All()[1:] {
		if isAlone(t) {
			continue
		}
		struck := strikeable(t)
		if isCrossing(t) {
			all = append(all, crossing(t, struck, turn, 2*i)...)
			continue
		}
		all = append(all, beyond(t, struck, turn, 2*i)...)
		turn += len(struck)
	}
	return slices.Concat(all, severalNodes(), barriersGone(), cleanedPast(), grown(), latestProfile(), clusterAlone())
}

// activePassive is the whole matrix of faults and points, and what goes wrong
// with whole clusters.
func activePassive() []Scenario {
	t := topologies.ActivePassive()
	all := []Scenario{
		{Name: t.Name + "/source-cut/destination-restarted", RestartDestination: true, short: true, deflt: true},
		{Name: t.Name + "/source-killed/before-stop", KillSource: true, short: true, deflt: true},
		{Name: t.Name + "/no-fault/every-gate", EveryGate: true, deflt: true},
		{Name: t.Name + "/no-fault/none", short: true, deflt: true},
		{Name: t.Name + "/operation/every-state", EveryGate: true, Operate: true, deflt: true},
		// Thousands of logs are made, and keep the disk from others meanwhile: by
		// default there are fewer.
		{Name: t.Name + "/operation/many-partitions", Wide: 200, deflt: true},
		{Name: t.Name + "/operation/thousand-partitions", Wide: 1000},
	}
	kinds := chaos.Kinds()
	for i, point := range chaos.Points() {
		for j, kind := range kinds {
			sc := Scenario{
				Name: t.Name + "/" + string(kind) + "/" + inName(point),
				Plan: &chaos.Plan{Kind: kind, Link: t.Mirrors[0].Link(), Point: point}, HealAfterStop: (i+j)%2 == 0,
				// Points and kinds are paired off along a diagonal: each point
				// once, and each kind at least once.
				deflt: i%len(kinds) == j,
			}
			sc.short = sc.deflt && slices.Contains(shortPoints, point)
			all = append(all, sc)
		}
		all = append(all, Scenario{
			Name: t.Name + "/crash/" + inName(point), CrashAt: point, deflt: slices.Contains(crashPoints, point),
		})
	}
	for _, how := range restarts {
		all = append(all, Scenario{Name: t.Name + "/restart/" + string(how), Restart: how, deflt: true})
	}
	all = append(all, Scenario{Name: t.Name + "/foreign-stop/" + string(KillNine), ForeignStop: true, Restart: KillNine, deflt: true})
	for i := range all {
		all[i].Topology = t
	}
	return all
}

// inName is a point as names of tests hold it.
func inName(point string) string { return strings.Replace(point, ":", "-", 1) }

// strikeable lists the episodes of a topology that a fault may strike: of
// mirrors that are stopped at the same moment the first one's.
func strikeable(t topologies.Topology) []topologies.Episode {
	var all []topologies.Episode
	stops := map[int]bool{}
	for _, e := range t.Episodes() {
		if !stops[e.Stop] {
			all = append(all, e)
		}
		stops[e.Stop] = true
	}
	return all
}

// beyond is what a topology with several episodes goes through: each of them is
// struck at each point, and by each fault. Faults and points are paired off
// along a diagonal that turns from episode to episode, so that all topologies
// together see every pair of them. A default run strikes twice, at different
// episodes where there are several, with the pairs that first and the next
// numbers stand for.
func beyond(t topologies.Topology, struck []topologies.Episode, turn, first int) []Scenario {
	all := []Scenario{{Name: t.Name + "/no-fault/none", Topology: t, deflt: true}}
	kinds, points := chaos.Kinds(), chaos.Points()
	type strike struct{ episode, point int }
	deflt := map[strike]bool{}
	for k := range 2 {
		// 4 has no factor in common with the number of points: no two are alike.
		deflt[strike{(first/2 + k) % len(struck), (4*(first+k) + 1) % len(points)}] = true
	}
	for n, e := range struck {
		for i, point := range points {
			kind := kinds[(i+turn+n)%len(kinds)]
			all = append(all, Scenario{
				Name:     fmt.Sprintf("%s/%s/%s-%s", t.Name, kind, e, inName(point)),
				Topology: t, Episode: e.Number,
				Plan:          &chaos.Plan{Kind: kind, Link: e.Mirror.Link(), Point: point},
				HealAfterStop: (i+n)%2 == 0,
				deflt:         deflt[strike{n, i}],
			})
		}
	}
	return all
}

// crashPoints are where the crashes of a default run strike.
var crashPoints = []string{"recorded:truncated", "after:barrier-appended", "before:stopped"}

// shortPoints are where the faults of a short run strike.
var shortPoints = []string{"before:truncated", "after:barrier-appended"}

// losesResponse says whether the plan holds a response in flight when the
// fetchers are removed, and loses it or delivers it late (LINK-1). Latency does
// so only where the stop is quicker than the delay, which is not for a plan to
// promise.
func losesResponse(p chaos.Plan) bool {
	switch p.Kind {
	case chaos.Partition, chaos.PartitionFromSource, chaos.HoldAndRelease, chaos.HoldAndDrop:
		return p.InFlight()
	}
	return false
}

// Costs of a run on two cores, for estimates.
const costOfScenario = 6 * time.Second

// Capacity is the weight that may run at the same time: eight for each processor.
// With four, two cores were idle half of the time, since clusters wait for elections;
// with twelve, a run hardly gets faster. The bound is Docker's, which has networks
// for some thirty clusters.
func Capacity() int64 { return int64(min(8*runtime.GOMAXPROCS(0), 24)) }

// Estimate says about how long scenarios take here.
func Estimate(scenarios []Scenario) time.Duration {
	var weight int64
	for _, s := range scenarios {
		weight += s.Weight()
	}
	return time.Duration(weight) * costOfScenario / time.Duration(Capacity())
}
