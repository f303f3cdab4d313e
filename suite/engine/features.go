package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
)

// Features are what a run has shown: combinations of a step, a state and an event, such as
//
//	truncated | node down | write on source answered 6
//
// The step is how far the stop had come that was on its way, or "mirroring" before its
// request and "writable" after STOPPED, with "later" before it from the second stop on:
// there logs were aligned before. The state is what ailed just then, by its kind: seven
// kinds at links and at nodes. The event is that a step was reached, or again, or on
// another node than before; that a mirror's state changed, a fault bit, a node came or
// went, a partition's leader moved or its in-sync set changed; and every answer that was
// an error, by its code. A violation is one too, by its anomaly, without step and state.
//
// What a plan says itself is left out as far as it can be: which fault it was exactly, which
// node, partition or side of the step. Else each plan would show something new, and a search
// would go through plans instead of what they do. Counts and times are left out since they
// differ from run to run of one plan. Measured on sixty cells of the crash matrix: a run
// shows 24 to 45 features, all together 208; the first shows 36 that are new, and of the
// second half every other one shows some, four at the most.
func Features(run *check.Run, events func(yield func(*history.Event) error) error, verdicts []check.Verdict) ([]string, error) {
	f := &featuring{
		run: run, seen: map[string]bool{}, stops: map[int32]*stopSeen{}, ail: map[string]string{},
		mirror: map[string]string{}, leaders: map[string]int32{}, inSync: map[string]int{},
	}
	if err := events(func(e *history.Event) error { f.add(e); return nil }); err != nil {
		return nil, err
	}
	for _, v := range verdicts {
		for _, finding := range v.Findings {
			f.seen[fmt.Sprintf("%s%s | %s", violatedFeature, v.Requirement, finding.Anomaly)] = true
		}
	}
	return slices.Sorted(maps.Keys(f.seen)), nil
}

// FeaturesOf are those of a result, whose evidence still lies in its folder.
func FeaturesOf(res *Result) ([]string, error) {
	if res.Evidence == nil {
		return nil, errors.New("features: the run was not judged")
	}
	all, err := Features(&res.Evidence.Run, func(yield func(*history.Event) error) error {
		return history.ScanFile(filepath.Join(res.Folder, check.HistoryFile), func(s *history.Scanner) error {
			for {
				e, err := s.Next()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err == nil {
					err = yield(e)
				}
				if err != nil {
					return err
				}
			}
		})
	}, res.Verdicts)
	if res.Stuck != nil {
		all = append(all, stuckFeature)
		slices.Sort(all)
	}
	return all, err
}

// Features of runs that show a mistake: what a violation's begins with, and the one of a
// stop that did not come to its end.
const (
	violatedFeature = "violated "
	stuckFeature    = "stuck"
)

// featuring gathers features from the events of a history, in their order.
type featuring struct {
	run     *check.Run
	seen    map[string]bool
	stops   map[int32]*stopSeen // by episode
	now     int32               // the episode whose phase began last
	ail     map[string]string   // kinds of the faults at work, by id
	mirror  map[string]string   // what was told of a mirror's partition
	leaders map[string]int32    // node that leads, by cluster and place
	inSync  map[string]int
}

// stopSeen is how far a stop has come.
type stopSeen struct {
	step    string
	order   int              // of its furthest point
	arrived map[string]int32 // node that reached a point last, by point and place
}

func (f *featuring) stop(episode int32) *stopSeen {
	episode = cmp.Or(episode, f.now)
	s := f.stops[episode]
	if s == nil {
		s = &stopSeen{step: "before", order: -1, arrived: map[string]int32{}}
		f.stops[episode] = s
	}
	return s
}

// happens notes a combination.
func (f *featuring) happens(e *history.Event, format string, args ...any) {
	step := f.stop(e.Episode).step
	if cmp.Or(e.Episode, f.now) > 1 {
		step = "later " + step
	}
	state := slices.Sorted(maps.Values(f.ail))
	ails := strings.Join(slices.Compact(state), ", ")
	f.seen[step+" | "+cmp.Or(ails, "well")+" | "+fmt.Sprintf(format, args...)] = true
}

// answered notes an answer that is an error.
func (f *featuring) answered(e *history.Event, what, cluster string, r *history.Result) {
	switch {
	case r == nil || r.Code == 0 && r.Outcome == history.OK:
	case r.Code == 0:
		f.happens(e, "%s on %s not answered", what, f.side(e.Episode, cluster))
	default:
		f.happens(e, "%s on %s answered %d", what, f.side(e.Episode, cluster), r.Code)
	}
}

// side is what a cluster is to the mirror of an episode.
func (f *featuring) side(episode int32, cluster string) string {
	episode = cmp.Or(episode, f.now)
	for _, e := range f.run.Episodes {
		if e.Number != episode {
			continue
		}
		for _, edge := range f.run.Edges {
			switch {
			case edge.Mirror == e.Mirror && edge.Destination == cluster:
				return "destination"
			case edge.Mirror == e.Mirror && edge.Source == cluster:
				return "source"
			}
		}
	}
	return "another"
}

func (f *featuring) add(e *history.Event) {
	switch e.Kind {
	case history.KindPhase:
		f.phase(e)
	case history.KindGate:
		f.gate(e)
	case history.KindMirrorState:
		f.told(e)
	case history.KindFaultStart, history.KindFaultProof, history.KindFaultStop:
		f.fault(e)
	case history.KindNode:
		f.happens(e, "node of %s %s", f.side(e.Episode, e.Node.Cluster), e.Node.What)
	case history.KindListOffsets:
		f.sampled(e)
	case history.KindProduceAck:
		f.answered(e, "write", e.Produce.Cluster, e.Produce.Result)
	case history.KindTxnEnd:
		f.answered(e, "end of a transaction", e.Txn.Cluster, e.Txn.Result)
	case history.KindInitProducerID:
		f.answered(e, "producer id", e.InitPID.Cluster, e.InitPID.Result)
	case history.KindAddPartitions:
		f.answered(e, "partitions of a transaction", e.AddPartitions.Cluster, e.AddPartitions.Result)
	case history.KindMirrorRPC:
		f.answered(e, e.MirrorRPC.API, e.MirrorRPC.Cluster, e.MirrorRPC.Result)
	case history.KindProbe:
		f.answered(e, string(e.Probe.What), e.Probe.Cluster, e.Probe.Result)
	case history.KindGroupCommit:
		f.answered(e, "commit of a group", e.Group.Cluster, e.Group.Result)
	case history.KindFetch:
		if e.Fetch.Code != 0 {
			f.happens(e, "fetch on %s answered %d", f.side(e.Episode, e.Fetch.Cluster), e.Fetch.Code)
		}
	}
}

func (f *featuring) phase(e *history.Event) {
	f.now = cmp.Or(e.Episode, 1)
	s := f.stop(e.Episode)
	switch e.Phase.Name {
	case history.Mirroring:
		s.step = "mirroring"
	case history.StopRequested:
		s.step = "stopping"
	case history.Stopped:
		s.step = "writable"
	}
}

func (f *featuring) gate(e *history.Event) {
	if e.Gate.What != history.GateArrived && e.Gate.What != history.GateHeld {
		return
	}
	s := f.stop(e.Episode)
	order := slices.Index(chaos.AllPoints(), e.Gate.Point)
	_, step, ok := strings.Cut(e.Gate.Point, ":")
	if !ok {
		return
	}
	if order > s.order && s.step != "writable" {
		s.order, s.step = order, step
		f.happens(e, "reached")
	}
	at := e.Gate.Point + " " + e.Gate.Partition
	if node, before := s.arrived[at]; before {
		if node == e.Gate.Node {
			f.happens(e, "%s again", step)
		} else {
			f.happens(e, "%s again, on another node", step)
		}
	}
	s.arrived[at] = e.Gate.Node
}

func (f *featuring) told(e *history.Event) {
	m := e.Mirror
	at, state := m.Mirror+" "+history.Place(m.Topic, m.Partition), m.State
	if m.Error != "" {
		state += " with an error"
	}
	if f.mirror[at] != state {
		f.mirror[at] = state
		f.happens(e, "mirror is %s", state)
	}
}

func (f *featuring) fault(e *history.Event) {
	kind := kindOf(e.Fault)
	if e.Kind == history.KindFaultStart {
		f.ail[e.Fault.ID] = kind
		return
	}
	f.ail[e.Fault.ID] = kind // it may have begun without a word
	if e.Fault.Bit() {
		f.happens(e, "bites")
	}
	if e.Kind == history.KindFaultStop {
		delete(f.ail, e.Fault.ID)
	}
}

// kindOf sorts faults by what they do.
func kindOf(p *history.Fault) string {
	where := "link"
	if strings.HasPrefix(p.Link, "node:") {
		where = "node"
	}
	act := chaos.Act(p.Name)
	switch {
	case act.Ends() && act != chaos.Strand, act == chaos.Restart:
		return where + " down"
	case act == chaos.Pause, act == chaos.Depose:
		return where + " paused"
	case act == chaos.DelayPeers, act == chaos.SlowPeers: // links have them by the same names
		return where + " slow"
	case act == chaos.ResetPeers, act == chaos.CutPeersInFrame:
		return where + " reset"
	case strings.HasPrefix(p.Name, "hold-one"), act == chaos.HoldPeers:
		return where + " late"
	case act == chaos.DiskFull, act == chaos.SlowSync, act == chaos.ClockSkew:
		return where + " ails"
	}
	return where + " cut"
}

func (f *featuring) sampled(e *history.Event) {
	o := e.Offsets
	at := o.Cluster + " " + history.Place(o.Topic, o.Partition)
	side := f.side(e.Episode, o.Cluster)
	if before, known := f.leaders[at]; known && before != o.Node {
		f.happens(e, "leader of %s moved", side)
	}
	f.leaders[at] = o.Node
	if len(o.InSync) == 0 {
		return
	}
	switch before := f.inSync[at]; {
	case before > len(o.InSync):
		f.happens(e, "in-sync set of %s shrank", side)
	case before > 0 && before < len(o.InSync):
		f.happens(e, "in-sync set of %s grew", side)
	}
	f.inSync[at] = len(o.InSync)
}
