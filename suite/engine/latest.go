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
		{Name: back.Name + "/profile-latest/none", Topology: back, deflt: true},
	}
	for i := range all {
		all[i].Profile = check.ProfileLatest
	}
	return all
}
