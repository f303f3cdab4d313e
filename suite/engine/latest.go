package engine

import (
	"watershed.example/suite/check"
	"watershed.example/topologies"
)

// latestProfile are the scenarios of a default run in profile kip1279-latest,
// where a stop cuts nothing: it ends what is open by ABORT markers, before its
// barrier. A crash between them and the barrier doubles neither; and after a
// failback the logs part at the first of the markers. With -profile every other
// scenario is played in it too.
func latestProfile() []Scenario {
	once, back := topologies.ActivePassive(), topologies.Failback()
	all := []Scenario{
		{Name: once.Name + "/profile-latest/crash-before-barrier-appended", Topology: once, CrashAt: "before:barrier-appended", deflt: true},
		{Name: once.Name + "/profile-latest/crash-before-open-transactions-aborted", Topology: once, CrashAt: "before:open-transactions-aborted"},
		{Name: once.Name + "/profile-latest/crash-after-open-transactions-aborted", Topology: once, CrashAt: "after:open-transactions-aborted"},
		{Name: back.Name + "/profile-latest/none", Topology: back},
	}
	for i := range all {
		all[i].Profile = check.ProfileLatest
	}
	return all
}

// latestDefects are what a broker of profile kip1279-latest may do wrong: producers
// from before the barrier come back, after a restart or on a replica that fetched
// data and barrier together; a stop is refused where the source is dead, or says
// that it stopped a paused topic; what was open pins the last stable offset; and an
// inherited barrier expires nothing.
var latestDefects = []defectCase{
	{name: "latest-recovery-does-not-expire", defects: []string{"recovery-does-not-expire"}, latest: true, scenario: restarted, primary: "PSM-3", secondary: "AP-1 PSM-7 IDEM-1 IDEM-2"},
	{name: "latest-expired-entries-put-back", defects: []string{"expired-entries-put-back"}, latest: true, scenario: leaderLost, primary: "PSM-2", secondary: "AP-1 PSM-1 PSM-4 IDEM-1 IDEM-2 IDEM-4"},
	{name: "latest-stop-refused-when-source-dead", defects: []string{"stop-refused-without-source"}, latest: true, scenario: sourceDead, primary: "LINK-2", secondary: "AP-1"},
	{name: "latest-paused-stop-does-nothing", defects: []string{"paused-stop-does-nothing"}, latest: true, scenario: operated, primary: "OPS-1", secondary: "AP-1 OPS-2"},
	{name: "latest-open-transactions-kept", defects: []string{"open-transactions-kept"}, latest: true, scenario: failedOver, primary: "TXN-1 TXN-3 PSM-1 PSM-8", secondary: "AP-1 IDEM-1 TXN-2 TXN-4 TXN-6 BAR-6 OPS-4"},
	{name: "inherited-barrier-kept", latest: true, scenario: chained, primary: "PSM-4"},
}
