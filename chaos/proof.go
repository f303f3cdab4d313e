package chaos

import (
	"fmt"
	"strings"
	"time"

	"watershed.example/fixtures"
)

// Proof is what a strike did, counted by the link between Began and Ended.
type Proof struct {
	Plan Plan
	// Began is when the strike first touched the link, Struck when the fault
	// happened, at the plan's point, and Ended when it was healed; zero for what
	// has not come yet.
	Began, Struck, Ended time.Time
	// InFlight is how many bytes were held when the stop was requested: a
	// response with records, or for faults towards the source a request.
	InFlight int64
	// Released bytes of those in flight reached their receiver after the point,
	// Undelivered ones found that it had hung up meanwhile.
	Released, Undelivered int64
	// Held, Dropped and Delayed bytes in either direction.
	Held, Dropped, Delayed int64
	// Stalled connections were made and led nowhere; Refused ones found nobody
	// behind the link; Reset ones were ended by the link.
	Stalled, Refused, Reset int64
	// Messages were held alone, and Cut ones got half through.
	Messages, Cut int64
}

// Bit says whether the fault took effect: what its kind promises was counted.
func (p Proof) Bit() bool {
	if p.Struck.IsZero() || (p.Plan.InFlight() && p.InFlight == 0) {
		return false
	}
	switch p.Plan.Kind {
	case None:
		return true
	case Partition, PartitionToSource, PartitionFromSource, HoldAndDrop:
		return p.Dropped > 0
	case Latency, Bandwidth:
		return p.Delayed > 0
	case CutInFrame:
		return p.Cut > 0
	case HoldOneFetch:
		return p.Messages > 0
	case HoldAndRelease:
		return p.Released+p.Undelivered > 0
	case Reset:
		return p.Reset > 0
	}
	return false
}

// String says in one line whether the fault bit, and by what one can tell.
func (p Proof) String() string {
	var parts []string
	add := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(p.InFlight, "B in flight when the stop was requested")
	add(p.Held, "B held")
	add(p.Dropped, "B dropped")
	add(p.Delayed, "B delayed")
	add(p.Released, "B of what was in flight delivered late")
	add(p.Undelivered, "B found their receiver gone")
	add(p.Stalled, "connections stalled")
	add(p.Refused, "connections refused")
	add(p.Reset, "connections reset")
	add(p.Messages, "messages held")
	add(p.Cut, "messages cut")
	if len(parts) == 0 {
		parts = []string{"nothing counted"}
	}
	verdict := "bit"
	switch {
	case p.Struck.IsZero():
		verdict = "has not struck"
	case !p.Bit():
		verdict = "did NOT bite"
	}
	return fmt.Sprintf("%s %s: %s", p.Plan, verdict, strings.Join(parts, ", "))
}

func (p *Proof) take(c fixtures.Counts) {
	p.Held = c.ToServer.Held + c.FromServer.Held
	p.Dropped = c.ToServer.Dropped + c.FromServer.Dropped
	p.Delayed = c.ToServer.Delayed + c.FromServer.Delayed
	p.Messages, p.Cut = c.ToServer.Messages+c.FromServer.Messages, c.ToServer.Cut+c.FromServer.Cut
	p.Stalled, p.Refused, p.Reset = c.Stalled, c.Refused, c.Reset
}
