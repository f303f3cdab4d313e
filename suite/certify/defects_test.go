package certify_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/target"
	"watershed.example/suite/engine"
)

// unseen are defects that nobody sees from outside, with the reason.
var unseen = map[string]string{
	"barrier-not-named": "it is one of the dump tool, which needs files (BAR-7)",
}

// otherwise are defects that show another face outside, where a log is what a
// broker sends: what must be violated, and what may be.
var otherwise = map[string][2]string{
	// The record that it delivers is no control record, so there is no barrier.
	"control-record-delivered": {"BAR-1", "AP-1 LOG-1 TXN-3 GRP-1"},
	// Nobody sends what lies below the log start.
	"delete-records-while-mirroring": {"RO-3", "AP-1 LOG-1 BAR-6 TXN-2 TXN-4 PSM-4"},
}

// followerLeads is a story on three nodes: a follower that comes back from a kill leads.
const followerLeads = "active-passive-on-3/restart/follower-leads"

// What befalls three nodes of one cluster.
const (
	leadersChanged   = "single-on-3/outside/leaders-changed"
	coordinatorMoved = "single-on-3/outside/coordinator-moved"
)

// elsewhere are defects that another scenario shows outside, where no step of a stop can
// be held: which, what must be violated, and what may be.
var elsewhere = map[string][3]string{
	// The replica that comes to lead has read data and barrier in one go.
	"latest-expired-entries-put-back": {followerLeads, "PSM-3", "AP-1 PSM-1 PSM-2 PSM-4 PSM-7 IDEM-1 IDEM-2 IDEM-4"},
	// Clients write all the while, and STOPPING lasts.
	"write-before-barrier": {heldOpen, "RO-5", "AP-1 RO-1 BAR-3"},
	// The way to the source is cut for the whole of the stop.
	"fetched-after-healing": {cutOff, "LINK-3 BAR-3", "AP-1 LOG-3 TXN-2"},
	// Nothing cuts nodes off from each other.
	"follower-knows-no-producers": {leadersChanged, "SC-7", "SC-1 SC-3 SC-4 SC-5 SC-6"},
	// One coordinator after the other asks for ids.
	"id-blocks-not-reserved": {coordinatorMoved, "SC-8", "SC-1 SC-3 SC-5 SC-6 SC-7"},
}

// outside is a defect's case as it is certified.
func outside(t testing.TB, d engine.DefectCase) engine.DefectCase {
	t.Helper()
	if o, ok := otherwise[d.Name]; ok {
		d.Primary, d.Secondary = strings.Fields(o[0]), strings.Fields(o[1])
	}
	o, ok := elsewhere[d.Name]
	if !ok {
		return d
	}
	for _, sc := range append(engine.Scenarios(engine.Default), engine.Outside()...) {
		if sc.Name == o[0] {
			sc.Profile = d.Scenario.Profile
			d.Scenario, d.Primary, d.Secondary = sc, strings.Fields(o[1]), strings.Fields(o[2])
			return d
		}
	}
	require.Failf(t, "no such scenario", "%s is to show defect %s, and is none of the default run's", o[0], d.Name)
	return d
}

// TestWhatIsCertifiedIsThere holds the names by which defects are chosen: one that names
// nothing would leave its defect untested without a word.
func TestWhatIsCertifiedIsThere(t *testing.T) {
	there := map[string]bool{}
	for _, d := range engine.DefectCases() {
		there[d.Name] = true
		outside(t, d)
	}
	for name := range unseen {
		require.True(t, there[name], "defect %s", name)
	}
	for name := range otherwise {
		require.True(t, there[name], "defect %s", name)
	}
	for name := range elsewhere {
		require.True(t, there[name], "defect %s", name)
	}
	scenarios := map[string]bool{}
	for _, sc := range append(engine.Scenarios(engine.Default), engine.Outside()...) {
		scenarios[sc.Name] = true
	}
	for _, name := range showing {
		require.True(t, scenarios[name], "scenario %s", name)
	}
}

// showing are the scenarios whose defects are certified.
var showing = []string{
	failedOver, "active-passive/source-killed/before-stop", "active-passive/restart/kill-9", "active-passive/restart/clean", followerLeads, heldOpen, cutOff,
	"resumed/no-fault/none", "failback/no-fault/none", "fan-out/no-fault/none", "fan-in/no-fault/none", "chain-3/no-fault/none",
	"single/no-fault/none", "single/restart/clean", "single/cleaning/delete-records", "single/epochs/init-producer-id",
	leadersChanged, coordinatorMoved,
}

// TestDefectsOutside certifies clusters with each defect that a story on clusters which
// nobody can hold shows: the same requirements are violated as on clusters of a
// launcher's.
func TestDefectsOutside(t *testing.T) {
	named(t)
	for _, d := range engine.DefectCases() {
		d = outside(t, d)
		nodes := d.Scenario.Topology.Clusters[0].Nodes
		profile := cmp.Or(string(d.Scenario.Profile), "kip1279-v42")
		if !slices.Contains(showing, d.Scenario.Name) {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for mirrors that don't go on
			if why, ok := unseen[d.Name]; ok {
				t.Skip(why)
			}
			var flags []string
			tries := 1
			if d.Scenario.Name == heldOpen {
				// What the leader did alone goes with it where the follower that stood leads next, which
				// is the cluster's choice.
				flags, tries = patient, 4
			}
			s := plan{
				profile: profile, adapter: target.KIP1279, clusters: max(2, len(d.Scenario.Topology.Clusters)), nodes: nodes, flags: flags, defects: d.Names(),
			}.build(t)
			var seen error
			for range tries {
				cert, _, err := s.certify(t.Context(), d.Scenario.Name)
				require.NoError(t, err)
				require.Len(t, cert.Results, 1)
				if seen = d.Seen(cert.Results[0]); seen == nil {
					break
				}
			}
			require.NoError(t, seen)
			s.nothingLeft()
		})
	}
}
