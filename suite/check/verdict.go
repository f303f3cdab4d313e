package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Outcome is what a check came to.
type Outcome string

// The outcomes.
const (
	Held          Outcome = "held"
	Violated      Outcome = "violated"
	Inconclusive  Outcome = "inconclusive"   // the run did not exercise it: never a pass
	NotApplicable Outcome = "not-applicable" // the profile or the target says so
)

// Anomaly is the name of something that must not happen.
type Anomaly string

// The anomalies.
const (
	AlteredBatch      Anomaly = "altered batch"      // differs from the source's at that offset
	ForeignBatch      Anomaly = "foreign batch"      // lies where only the source's bytes may
	UncutSuffix       Anomaly = "uncut suffix"       // what the cluster wrote itself, before it mirrored again
	MissingBatch      Anomaly = "missing batch"      // the source has it, the destination does not
	CollidingSequence Anomaly = "colliding sequence" // two clusters' producers under one rewritten id and epoch, out of sequence
	CollidingEpoch    Anomaly = "colliding epoch"    // the same, a lower epoch behind a higher one
	RestoredID        Anomaly = "restored id"        // rewritten on one hop, and back on the next
	NegativeID        Anomaly = "negative id"        // producer id below -1
	NegativeEpoch     Anomaly = "negative epoch"     // or one that does not fence who had the last one
	TwiceGiven        Anomaly = "id given twice"     // a producer id has two owners
	VisibleControl    Anomaly = "visible control record"
	OldCoordinator    Anomaly = "old coordinator"   // its marker was accepted
	LostState         Anomaly = "lost state"        // what a broker knew is not what it knows after
	BrokenOrder       Anomaly = "broken order"      // offsets or epochs go back, or offsets jump
	BadBytes          Anomaly = "bad bytes"         // a checksum is wrong, or bytes are no batch
	MissingBarrier    Anomaly = "missing barrier"   //
	ExtraBarrier      Anomaly = "extra barrier"     //
	BadEncoding       Anomaly = "bad encoding"      // of a barrier
	MisplacedBarrier  Anomaly = "misplaced barrier" //
	WrongSource       Anomaly = "wrong source"      // the barrier names another cluster
	VisibleBarrier    Anomaly = "visible barrier"   // a control record reached an application
	StuckReader       Anomaly = "stuck reader"      //
	WriteInWindow     Anomaly = "write in window"   // accepted while the partition was read-only
	UnclearRefusal    Anomaly = "unclear refusal"   //
	RefusedWrite      Anomaly = "refused write"     // though the partition was writable
	EarlyWrite        Anomaly = "early write"       // accepted before the barrier
	BarrierResurrect  Anomaly = "barrier resurrect" // a producer from before the barrier is known after it
	WrongState        Anomaly = "wrong state"       // a producer is not shown as the log says, or shown though it says nothing
	InheritedExpiry   Anomaly = "inherited expiry"  // a barrier that came in with the records expired producers
	LostProducer      Anomaly = "lost producer"     // one from after the barrier is not known any more
	UnnamedBarrier    Anomaly = "unnamed barrier"   // the dump tool does not name it, or not its fields
	EpochBehind       Anomaly = "epoch behind"      // the leader epoch is below one in the log
	EpochsMisplaced   Anomaly = "epochs misplaced"  // a leader says that an epoch ends where its log says otherwise
	BarrierOverOpen   Anomaly = "barrier over an open transaction"
	Unlogged          Anomaly = "unlogged"           // an error that brokers do not tell
	StaleMarker       Anomaly = "stale marker"       // of a transaction that was cut when mirroring started
	WedgedId          Anomaly = "wedged id"          // a transactional id can't be used
	Mutation          Anomaly = "mutation"           // of a log that is read-only
	StaleDedupe       Anomaly = "stale dedupe"       // acknowledged with a mirrored batch's offset
	StaleFence        Anomaly = "stale fence"        // refused because of a mirrored entry
	PhantomAck        Anomaly = "phantom ack"        // acknowledged where the record is not
	LostWrite         Anomaly = "lost write"         // acknowledged and nowhere
	Duplicate         Anomaly = "duplicate"          //
	Reordered         Anomaly = "reordered"          //
	OrphanTransaction Anomaly = "orphan transaction" // nobody will finish it
	ForeignMarker     Anomaly = "foreign marker"     // closes a transaction of another provenance
	AbortedRead       Anomaly = "aborted read"       // shown, though not committed
	HiddenRead        Anomaly = "hidden read"        // committed, and not shown
	TornOutcome       Anomaly = "torn outcome"       // a transaction ended otherwise than at its source
	StaleAbort        Anomaly = "stale abort"        // an aborted-list entry without such a transaction
	MissingAbort      Anomaly = "missing abort"      //
	WrongLSO          Anomaly = "wrong last stable offset"
	LateBytes         Anomaly = "late bytes"       // of the source, after the barrier
	ZombieAppend      Anomaly = "zombie append"    // of a fenced producer, or after its transaction's end
	AcceptedGap       Anomaly = "accepted gap"     // a sequence above the next one
	DivergedLogs      Anomaly = "diverged logs"    // two logs differ where they are one history
	DisturbedMirror   Anomaly = "disturbed mirror" // by what befell another one
	AcceptedSource    Anomaly = "accepted source"  // a mirror that had to be refused
	RefusedStop       Anomaly = "refused stop"
	SlowStop          Anomaly = "slow stop"    // of many partitions: it grows faster than they do
	UntoldState       Anomaly = "untold state" // describe does not say what is going on, or why it does not go on
	StuckStop         Anomaly = "stuck stop"
	UnclampedCommit   Anomaly = "unclamped commit" // of a mirrored group, outside the log
	UnloweredCommit   Anomaly = "unlowered commit" // above L after a stop, or not where it was
	SkippedRecord     Anomaly = "skipped record"   // by a group that resumed
	SplitWriter       Anomaly = "split writer"     // a client found another cluster behind its address
)

// Finding is one place where a requirement is violated.
type Finding struct {
	Anomaly Anomaly
	// Episode and Mirror say which stop it is about; 0 and empty in a run that
	// tells no episodes, and for findings about the whole run.
	Episode   int32
	Mirror    string
	Cluster   string
	Node      int32
	Topic     string
	Partition int32
	// Offset is where it is; -1 when it is about no offset.
	Offset int64
	// Batch says what lies there and who wrote it; empty when nothing does.
	Batch string
	// Around are the batches before and after, one line each; the line of the
	// offending one starts with ">".
	Around   []string
	Expected string
	Got      string
	// Evidence is the file or folder that shows it.
	Evidence string
}

// String tells the finding in one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s-%d on %s/%d offset %d: expected %s, got %s", f.Anomaly, f.Topic, f.Partition, f.Cluster, f.Node, f.Offset, f.Expected, f.Got)
	if f.Episode > 0 {
		s = fmt.Sprintf("episode %d (%s): %s", f.Episode, f.Mirror, s)
	}
	return s
}

// Verdict is the outcome of one requirement in one run.
type Verdict struct {
	Requirement string
	Outcome     Outcome
	// Reason says in one line what was looked at, or what is missing.
	Reason   string
	Findings []Finding
}

// maxFindings bounds the findings of one verdict; the rest are counted in its reason.
const maxFindings = 50

// ruling collects what a check finds.
type ruling struct {
	id       string
	findings []Finding
	missing  []string
	na       string
	looked   []string
}

// need notes what the run lacks when ok is false.
func (r *ruling) need(ok bool, format string, args ...any) {
	if !ok {
		r.missing = append(r.missing, fmt.Sprintf(format, args...))
	}
}

// saw notes what was looked at.
func (r *ruling) saw(format string, args ...any) {
	r.looked = append(r.looked, fmt.Sprintf(format, args...))
}

func (r *ruling) verdict() Verdict {
	v := Verdict{Requirement: r.id}
	slices.SortStableFunc(r.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Episode, b.Episode), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Cluster, b.Cluster),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Anomaly, b.Anomaly), cmp.Compare(a.Got, b.Got))
	})
	switch {
	case len(r.findings) > 0:
		v.Outcome = Violated
		v.Findings = bounded(r.findings)
		v.Reason = r.findings[0].String()
		if more := len(r.findings) - 1; more > 0 {
			v.Reason += fmt.Sprintf(" (and %d more)", more)
		}
	case r.na != "":
		v.Outcome, v.Reason = NotApplicable, r.na
	case len(r.missing) > 0:
		v.Outcome, v.Reason = Inconclusive, strings.Join(r.missing, "; ")
	default:
		v.Outcome, v.Reason = Held, strings.Join(r.looked, "; ")
	}
	return v
}

// bounded returns the first findings, and the first of each anomaly that is not
// among them.
func bounded(all []Finding) []Finding {
	n := min(len(all), maxFindings)
	kept, shown := slices.Clone(all[:n]), map[Anomaly]bool{}
	for _, f := range kept {
		shown[f.Anomaly] = true
	}
	for _, f := range all[n:] {
		if !shown[f.Anomaly] {
			shown[f.Anomaly] = true
			kept = append(kept, f)
		}
	}
	return kept
}
