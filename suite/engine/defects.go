package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"watershed.example/suite/check"
)

// DefectCase is one defect and the scenario that shows it most cheaply.
type DefectCase struct {
	// Name is the test's: the defect's own, or what several of them show together.
	Name string
	// Defects are the brokers', as [Options.Defects] takes them, so that they may
	// be those of one cluster only; empty for the one that Name is.
	Defects  []string
	Scenario Scenario
	// Primary requirements must be seen violated; of others only the Secondary
	// ones may be: they follow from the defect.
	Primary, Secondary []string
	// Anomalies must be among what the primary requirements show.
	Anomalies []check.Anomaly
	// Short is one of the ten most telling: bugs that were seen, or are near at
	// hand, of each kind one, and that few scenarios show.
	Short bool
}

// Names are the broker's defects in the case.
func (d DefectCase) Names() []string {
	if len(d.Defects) > 0 {
		return d.Defects
	}
	return []string{d.Name}
}

// Control names the scenario as it is played without the defect.
func (d DefectCase) Control() string {
	if d.Scenario.Profile == check.ProfileLatest {
		return "latest/" + d.Scenario.Name
	}
	return d.Scenario.Name
}

// shortDefects are those of a short run.
var shortDefects = []string{
	"no-barrier", "barrier-before-truncation", "barrier-after-writable", "stale-dedupe-ack", "open-transactions-dropped-with-data",
	"recovery-does-not-expire", "replica-misses-stops", "late-fetch-appended", "pid-rewrite-once", "alignment-by-epochs-alone",
}

// KnownDefects lists the names of the defects.
func KnownDefects() []string {
	var names []string
	for _, d := range DefectCases() {
		for _, name := range d.Names() {
			name, _, _ = strings.Cut(name, "@")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// defectCase is a [DefectCase] with its scenario's name and ids in one string.
type defectCase struct {
	name, scenario, primary, secondary string
	defects                            []string
	// latest plays it in profile kip1279-latest.
	latest    bool
	anomalies []check.Anomaly
}

// Names of scenarios that show defects.
const (
	failedOver   = "active-passive/no-fault/none"
	everyGate    = "active-passive/no-fault/every-gate"
	lateResponse = "active-passive/hold-and-release/after-barrier-appended"
	compacted    = "failback/barrier-gone/compaction"
	cleanedFork  = "failback/cleaned/past-the-parting"
	sourceDead   = "active-passive/source-killed/before-stop"
	operated     = "active-passive/operation/every-state"
	wide         = "active-passive/operation/many-partitions"
	restarted    = "active-passive/restart/kill-9"
	foreign      = "active-passive/foreign-stop/kill-9"
	stoppedClean = "active-passive/restart/clean"
	resumed      = "resumed/no-fault/none"
	failedBack   = "failback/no-fault/none"
	chained      = "chain-3/no-fault/none"
	chainedLong  = "chain-4/no-fault/none"
	fannedOut    = "fan-out/no-fault/none"
	healedLate   = "active-passive/partition/before-fetchers-removed"
	fannedIn     = "fan-in/no-fault/none"
	stranded     = "active-passive-on-3/strand-leader/before-barrier-appended"
	cutFollower  = "active-passive-on-3/cut-off-follower/before-settled"
	leaderLost   = "active-passive-on-3/kill-leader/first-write"
	barrierLeft  = "active-passive-on-3/kill-leader/before-barrier-committed"

	aloneOnce      = "single/no-fault/none"
	aloneRestarted = "single/restart/clean"
	leadersChanged = "single-on-3/leaders/changed"
	reassigned     = "single-on-3/replicas/reassigned"
	recordsDeleted = "single/cleaning/delete-records"
	rolledOver     = "single/epochs/init-producer-id"
)

var defectCases = []defectCase{
	// Ids.
	// A negative id has nothing behind it that its own producer, a reader or a
	// stop could be right about.
	{
		name: "pid-rewrite", scenario: chained, primary: "LOG-1 LOG-2 CH-1", secondary: "PSM-4",
		anomalies: []check.Anomaly{check.NegativeID, check.RestoredID},
	},
	{
		name: "pid-rewrite-once", scenario: chained, primary: "LOG-1 LOG-2 CH-1", secondary: "PSM-4",
		anomalies: []check.Anomaly{check.NegativeID, check.CollidingSequence, check.CollidingEpoch},
	},
	// What A left open comes to C under the id that B's producer has there: B's
	// marker ends both.
	{
		name: "rewritten-transactions-interleaved", scenario: chained, defects: []string{"pid-rewrite-once", "open-transactions-kept"},
		primary: "TXN-2", secondary: "PSM-8 BAR-6 LOG-1 LOG-2 CH-1 PSM-1 PSM-4 TXN-1 TXN-3 TXN-4 TXN-6", anomalies: []check.Anomaly{check.ForeignMarker},
	},

	// The barrier. Without one, mirrored producer state lives on.
	{name: "no-barrier", scenario: failedOver, primary: "BAR-1 IDEM-1 PSM-1 AP-1", secondary: "IDEM-2 IDEM-4 TXN-2 TXN-4"},
	{name: "no-barrier-on-empty", scenario: failedOver, primary: "BAR-1", secondary: "AP-1"},
	{name: "no-barrier-when-source-dead", scenario: sourceDead, primary: "BAR-1 PSM-1 IDEM-1", secondary: "AP-1 IDEM-2 IDEM-4 TXN-2 TXN-4"},
	{name: "two-barriers", scenario: failedOver, primary: "BAR-1", secondary: "AP-1"},
	{name: "next-leader-adds-barrier", scenario: barrierLeft, primary: "BAR-1", secondary: "AP-1"},
	{name: "wrong-source-id", scenario: failedOver, primary: "BAR-4", secondary: "AP-1"},
	// Where something is cut the barrier is gone, and so is what it does.
	{name: "barrier-before-truncation", scenario: failedOver, primary: "BAR-1 PSM-1", secondary: "AP-1 BAR-3 IDEM-1 IDEM-2 TXN-1 TXN-2 TXN-4 TXN-6"},
	// It ends what local producers had begun before it.
	{name: "barrier-after-writable", scenario: failedOver, primary: "RO-5", secondary: "AP-1 BAR-1 BAR-3 PSM-1 IDEM-1 IDEM-2 IDEM-3 IDEM-4 TXN-1 TXN-2 TXN-4 TXN-6"},
	// Of several replicas. What a leader did alone goes with it.
	{name: "barrier-not-waited-for", scenario: stranded, primary: "BAR-1 BAR-5", secondary: "AP-1 PSM-1 IDEM-1 IDEM-2 IDEM-4 TXN-2 TXN-4"},
	{
		name: "follower-keeps-suffix", scenario: cutFollower, primary: "LOG-4",
		secondary: "AP-1 PSM-8 GRP-1 LOG-1 LOG-3 LOG-5 BAR-1 BAR-3 BAR-6 BAR-7 PSM-1 PSM-4 IDEM-1 IDEM-2 IDEM-4 TXN-1 TXN-2 TXN-3 TXN-4 TXN-6",
	},
	{name: "replica-misses-stops", scenario: leaderLost, primary: "PSM-2", secondary: "AP-1 PSM-1 IDEM-1 IDEM-2 IDEM-4"},
	{name: "control-record-delivered", scenario: failedOver, primary: "BAR-6", secondary: "AP-1"},

	{name: "barriers-compacted-into-one", scenario: compacted, primary: "BAR-8"},
	{name: "barrier-value-padded", scenario: failedOver, primary: "BAR-2", secondary: "AP-1"},
	{name: "barrier-not-named", scenario: failedOver, primary: "BAR-7", secondary: "AP-1"},

	// Producer state and transactions.
	{name: "cut-barrier-still-expires", scenario: resumed, primary: "PSM-9", secondary: "PSM-8 PSM-4 TXN-1 TXN-2 TXN-3 TXN-4"},
	{name: "healed-link-aborts", scenario: healedLate, primary: "TXN-5", secondary: "AP-1 TXN-2 TXN-6 IDEM-4"},
	{name: "recovery-does-not-expire", scenario: restarted, primary: "PSM-3", secondary: "AP-1 PSM-7 IDEM-1 IDEM-2"},
	{name: "expired-entries-put-back", scenario: restarted, primary: "PSM-7 PSM-3", secondary: "AP-1 PSM-1 PSM-4 IDEM-1 IDEM-2"},
	{name: "state-lost-on-restart", scenario: restarted, primary: "PSM-6 IDEM-3", secondary: "AP-1 PSM-7 IDEM-4"},
	{name: "inherited-barrier-expires", scenario: chained, primary: "PSM-5", secondary: "PSM-4"},
	{name: "stale-dedupe-ack", scenario: failedOver, primary: "IDEM-1", secondary: "AP-1 IDEM-4"},
	{name: "open-transactions-kept", scenario: failedOver, primary: "TXN-1 TXN-3 PSM-1 PSM-8", secondary: "AP-1 IDEM-1 TXN-2 TXN-4 TXN-6 BAR-6"},
	{name: "open-transactions-dropped-with-data", scenario: failedOver, primary: "TXN-3 TXN-2 PSM-8", secondary: "AP-1 TXN-4"},
	{name: "barrier-over-open-transaction", scenario: failedOver, primary: "PSM-8 TXN-3", secondary: "AP-1 TXN-2"},
	// Of what another leader left open the barrier's records are shown, or pin.
	{name: "foreign-open-transactions-dropped", scenario: foreign, defects: []string{"open-transactions-dropped-with-data"}, primary: "PSM-8", secondary: "AP-1 TXN-2 TXN-4"},
	{name: "foreign-open-transactions-kept", scenario: foreign, defects: []string{"open-transactions-kept"}, primary: "PSM-8", secondary: "AP-1 PSM-1 PSM-3 PSM-7 IDEM-1 TXN-1 TXN-2 TXN-4 TXN-6 BAR-6"},
	{name: "aborted-index-lost-on-truncation", scenario: failedOver, primary: "TXN-4", secondary: "AP-1 TXN-2"},
	{name: "late-produce-opens-transaction", scenario: failedOver, primary: "TXN-6", secondary: "AP-1 TXN-1 TXN-2 TXN-4"},

	{name: "stale-epoch-fences", scenario: failedOver, primary: "IDEM-2", secondary: "AP-1"},
	{name: "first-write-lost", scenario: failedOver, primary: "IDEM-4", secondary: "AP-1"},

	// Consumer groups. What is above L is skipped by whoever resumes.
	{name: "group-offsets-unclamped", scenario: failedOver, primary: "GRP-1", secondary: "AP-1", anomalies: []check.Anomaly{check.UnclampedCommit}},
	{
		name: "group-offsets-not-lowered", scenario: failedOver, primary: "GRP-1", secondary: "AP-1",
		anomalies: []check.Anomaly{check.UnloweredCommit, check.SkippedRecord},
	},

	// The read-only window.
	{name: "write-before-barrier", scenario: everyGate, primary: "RO-5", secondary: "AP-1 RO-1 BAR-3"},
	{name: "refused-without-a-word", scenario: failedOver, primary: "RO-1", secondary: "AP-1"},
	{name: "refused-producers-stay-refused", scenario: failedOver, primary: "RO-4", secondary: "AP-1"},
	{name: "delete-records-while-mirroring", scenario: failedOver, primary: "RO-3", secondary: "AP-1 LOG-1 BAR-6 TXN-4 PSM-4"},
	// The marker takes the place of a batch of the source, so the mirror hangs.
	{name: "local-markers-appended-while-mirroring", scenario: resumed, primary: "RO-2", secondary: "LOG-1 PSM-8 LOG-3 BAR-3 PSM-4 TXN-2 TXN-6"},
	{name: "read-only-after-restart", scenario: stoppedClean, primary: "OPS-5", secondary: "AP-1 RO-4 IDEM-3"},

	// The link, and what comes over it.
	{name: "late-fetch-appended", scenario: lateResponse, primary: "LINK-1 BAR-3", secondary: "AP-1 LINK-3 LOG-3 TXN-1 TXN-2 TXN-4 TXN-6 PSM-1"},
	{name: "fetched-after-healing", scenario: healedLate, primary: "LINK-3 BAR-3", secondary: "AP-1 LOG-3 TXN-2"},
	{name: "other-cluster-accepted", scenario: operated, primary: "LINK-4"},
	{name: "epochs-go-backwards", scenario: failedOver, primary: "LOG-3", secondary: "AP-1 LOG-5 TXN-2"},
	{name: "epochs-cached-with-leadership", scenario: failedOver, primary: "LOG-5", secondary: "AP-1"},
	{name: "epoch-below-log", scenario: chained, primary: "LOG-5", secondary: "LOG-3"},
	// The mirror hangs where the logs differ: what it does not show is not judged.
	{name: "downstream-not-realigned", scenario: chained, primary: "CH-3 LOG-1", secondary: "PSM-8 RO-2 BAR-3 CH-1 CH-2 CH-4 PSM-4 TXN-2 TXN-3 LOG-5"},
	{name: "cleaned-log-truncated", scenario: cleanedFork, primary: "AL-1 LOG-1", secondary: "PSM-8 LOG-3 FB-1 FB-2 FB-3 PSM-4 PSM-5 TXN-2 TXN-3 IDEM-4"},
	{name: "alignment-by-epochs-alone", scenario: failedBack, primary: "AL-1 FB-1 FB-4", secondary: "LOG-1 LOG-3 RO-2 BAR-3 FB-2 PSM-4 TXN-2 LOG-5"},

	// A cluster by itself.
	{name: "window-of-one", scenario: aloneOnce, primary: "SC-1"},
	{name: "epoch-goes-negative", scenario: rolledOver, primary: "SC-2", secondary: "SC-5"},
	{name: "aborted-list-missing-after-long-poll", scenario: aloneOnce, primary: "SC-3"},
	{name: "unstable-records-shown", scenario: aloneOnce, primary: "SC-3"},
	{name: "old-coordinator-accepted", scenario: aloneOnce, primary: "SC-5", secondary: "SC-6"},
	{name: "late-end-txn-accepted", scenario: aloneOnce, primary: "SC-6", secondary: "SC-5"},
	{name: "producers-forgotten-with-records", scenario: recordsDeleted, primary: "SC-7", secondary: "SC-1 SC-2"},
	{name: "ids-handed-out-twice", scenario: aloneRestarted, primary: "SC-8", secondary: "SC-1 SC-2 SC-5"},

	{name: "control-batches-withheld", scenario: aloneOnce, primary: "SC-4"},
	{name: "follower-knows-no-producers", scenario: leadersChanged, primary: "SC-7", secondary: "SC-1 SC-3 SC-4 SC-5 SC-6"},
	{name: "id-blocks-not-reserved", scenario: reassigned, primary: "SC-8", secondary: "SC-1 SC-3 SC-5 SC-6 SC-7"},

	// What one cluster of several does to the others.
	{name: "resumes-at-old-end", scenario: failedBack, primary: "FB-3 LOG-1", secondary: "PSM-8 LOG-3 LOG-5 FB-1 FB-2 BAR-3 IDEM-4 TXN-2 TXN-3 PSM-4 PSM-5"},
	{name: "fan-out-without-second-barrier", scenario: fannedOut, defects: []string{"no-barrier@C"}, primary: "FO-1 BAR-1", secondary: "IDEM-1 IDEM-2 IDEM-4 PSM-1 TXN-2 TXN-4"},
	{name: "lost-mirror-takes-others-along", scenario: fannedOut, primary: "FO-2"},
	{name: "failback-with-two-barriers", scenario: failedBack, defects: []string{"two-barriers@A"}, primary: "FB-2 BAR-1"},
	{name: "chain-without-middle-barrier", scenario: chained, defects: []string{"no-barrier@B"}, primary: "CH-2 BAR-1", secondary: "IDEM-1 IDEM-2 IDEM-4 PSM-1 TXN-2 TXN-4"},
	{name: "second-failover-with-two-barriers", scenario: chainedLong, defects: []string{"two-barriers@C"}, primary: "CH-4 BAR-1", secondary: "CH-2"},

	// Operation.
	{name: "stop-refused-without-source", scenario: operated, primary: "OPS-1", secondary: "AP-1 OPS-2 LINK-2"},
	{name: "stop-refused-when-source-dead", scenario: sourceDead, defects: []string{"stop-refused-without-source"}, primary: "LINK-2", secondary: "AP-1"},
	{name: "describe-hides-cause", scenario: operated, primary: "OPS-2", secondary: "AP-1 LINK-4"},
	{name: "stop-not-idempotent", scenario: operated, primary: "OPS-1", secondary: "AP-1"},
	{name: "stop-takes-a-hundred", scenario: wide, primary: "OPS-3", secondary: "AP-1"},
	{name: "describe-hides-cut", scenario: everyGate, primary: "OPS-4", secondary: "AP-1"},
	{name: "paused-stop-does-nothing", scenario: operated, primary: "OPS-1", secondary: "AP-1 OPS-2"},
	{name: "mirror-stop-stops-others", scenario: fannedIn, primary: "FI-1", secondary: "BAR-1"},
	{name: "same-topic-two-sources", scenario: fannedIn, primary: "FI-2", secondary: "LOG-1 BAR-4 BAR-1"},
}

// DefectCases lists what the suite must see of every defect of the reference
// broker that it can show.
func DefectCases() []DefectCase {
	scenarios := map[string]Scenario{}
	for _, s := range matrix() {
		scenarios[s.Name] = s
	}
	var all []DefectCase
	for _, d := range append(defectCases, latestDefects...) {
		sc := scenarios[d.scenario]
		if d.latest {
			sc.Profile = check.ProfileLatest
		}
		all = append(all, DefectCase{
			Name: d.name, Defects: d.defects, Scenario: sc,
			Primary: strings.Fields(d.primary), Secondary: strings.Fields(d.secondary), Anomalies: d.anomalies,
			Short: slices.Contains(shortDefects, d.name),
		})
	}
	return all
}

// Seen says whether the defect was found as it must be.
func (d DefectCase) Seen(r *Result) error {
	violated := r.Violated()
	shown := map[check.Anomaly]bool{}
	for _, v := range r.Verdicts {
		for _, f := range v.Findings {
			shown[f.Anomaly] = shown[f.Anomaly] || slices.Contains(d.Primary, v.Requirement)
		}
	}
	for _, id := range d.Primary {
		if !slices.Contains(violated, id) {
			return fmt.Errorf("defect %s went unseen: %s is not violated (violated: %v)", d.Name, id, violated)
		}
	}
	for _, a := range d.Anomalies {
		if !shown[a] {
			return fmt.Errorf("defect %s shows no %q under %v", d.Name, a, d.Primary)
		}
	}
	for _, id := range violated {
		if !slices.Contains(d.Primary, id) && !slices.Contains(d.Secondary, id) {
			return fmt.Errorf("defect %s was reported under %s, which it does not explain", d.Name, id)
		}
	}
	return nil
}

// EstimateDefects says about how long TestDefects takes here.
func EstimateDefects() time.Duration {
	var all []Scenario
	seen := map[string]bool{}
	for _, d := range DefectCases() {
		all = append(all, d.Scenario)
		if !seen[d.Scenario.Name] { // the clean control, once for each scenario
			seen[d.Scenario.Name] = true
			all = append(all, d.Scenario)
		}
	}
	return Estimate(all)
}
