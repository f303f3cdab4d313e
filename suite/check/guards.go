package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// guards says what of its plan the run did not do, in words. A run with such a
// flaw proves nothing by what it did not find.
func (j *judge) guards() []string {
	var all []string
	flaw := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, f := range j.run.Faults {
		if f.Episode != 0 && j.number != 0 && f.Episode != j.number {
			continue // another episode's
		}
		started, bit := false, false
		for i := range j.trial.ev.Events { // of the whole run, as the plan is
			if got := j.trial.ev.Events[i].Fault; got != nil && got.ID == f.ID {
				started = true
				bit = bit || got.Bit()
			}
		}
		switch {
		case !started:
			flaw("fault %s (%s on %s) never started", f.ID, f.Name, f.Link)
		case !bit:
			flaw("fault %s (%s on %s) did not bite: no byte was held or dropped, no connection refused", f.ID, f.Name, f.Link)
		}
	}
	e, floors := j.edge, j.run.Floors
	before, during, after := j.traffic(e)
	if before < floors.Before {
		flaw("%d records acknowledged on cluster %s before the stop, the floor is %d", before, e.Source, floors.Before)
	}
	if during < floors.During {
		flaw("%d writes tried while STOPPING, the floor is %d", during, floors.During)
	}
	if after < floors.After {
		flaw("%d records acknowledged on cluster %s after the stop, the floor is %d", after, e.Destination, floors.After)
	}
	for i := range j.trial.ev.Events {
		c := j.trial.ev.Events[i].Connection
		if c == nil {
			continue
		}
		if want := j.run.Cluster(c.Cluster); want != nil && c.ClusterID != "" && c.ClusterID != want.ID {
			flaw("%s: client %s at %s meant cluster %s and found cluster id %s", SplitWriter, c.Client, c.Address, c.Cluster, c.ClusterID)
		}
	}
	return all
}

// traffic counts the records acknowledged on the source before the stop's
// request, the writes tried anywhere between it and STOPPED, and the records
// acknowledged on the destination after that.
func (j *judge) traffic(e *edge) (before, during, after int) {
	for _, o := range j.order {
		ok := o.result.Outcome == history.OK
		switch {
		case ok && o.sent.Cluster == e.Source && o.ended < e.stopRequested:
			before += int(o.sent.Count)
		case ok && o.sent.Cluster == e.Destination && o.began > e.stopped:
			after += int(o.sent.Count)
		}
		if o.ended > e.stopRequested && o.began < e.stopped {
			during++
		}
	}
	return before, during, after
}
