package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what happens to the link. Names say the effect, and stay. "In flight"
// is what the strike has held since before the stop was requested; it is there
// at every point but the first, before:fetchers-removed, where the link is
// alive and the fault strikes what goes over it then (both hold kinds hold a
// response in flight there too).
type Kind string

// The kinds of faults.
const (
	// None strikes with nothing: the stop is only held at the point.
	None Kind = "none"
	// Partition loses everything in both directions until the heal, what is in
	// flight first. Connections hang, new ones too.
	Partition Kind = "partition"
	// PartitionToSource loses what goes to the source, and lets through what
	// comes from it. In flight is a fetch request.
	PartitionToSource Kind = "partition-to-source"
	// PartitionFromSource loses what comes from the source, and lets through
	// what goes to it.
	PartitionFromSource Kind = "partition-from-source"
	// Latency delays every byte, in both directions, until the heal; what is in
	// flight arrives so much after the point.
	Latency Kind = "latency"
	// HoldAndRelease delivers what is in flight at the point, late and in
	// order, and heals.
	HoldAndRelease Kind = "hold-and-release"
	// HoldAndDrop loses what is in flight at the point, and heals.
	HoldAndDrop Kind = "hold-and-drop"
	// Reset ends every connection of the link with RST on both sides, idle ones
	// too, and what is in flight with them.
	Reset Kind = "reset"
	// Bandwidth lets so few bytes a second through, in both directions, until the
	// heal.
	Bandwidth Kind = "bandwidth"
	// CutInFrame delivers the first half of the response in flight at the point, ends
	// its connection, and heals.
	CutInFrame Kind = "cut-in-frame"
	// HoldOneFetch holds one Fetch response, and what follows it on its connection,
	// from before the stop until the point. All other connections go on.
	HoldOneFetch Kind = "hold-one-fetch-response"
)

// Kinds lists the faults of the default matrix.
func Kinds() []Kind {
	return []Kind{
		Partition, PartitionToSource, PartitionFromSource, Latency, HoldAndRelease, HoldAndDrop, Reset,
	}
}

// AllKinds lists all faults, without [None].
func AllKinds() []Kind { return append(Kinds(), Bandwidth, CutInFrame, HoldOneFetch) }

// The point at which the link is still alive.
const firstPoint = "before:fetchers-removed"

// recordedPoint lies within the step truncated: the cut is recorded, and the
// log not cut yet.
const recordedPoint = "recorded:truncated"

// Points lists the points of STOPPING, in the order in which they are passed:
// before and after each step, and the one between the quorum's record of the cut
// and the cut.
func Points() []string {
	return []string{
		firstPoint, "after:fetchers-removed",
		"before:settled", "after:settled",
		"before:truncated", recordedPoint, "after:truncated",
		"before:last-mirrored-offset-persisted", "after:last-mirrored-offset-persisted",
		"before:barrier-appended", "after:barrier-appended",
		"before:barrier-committed", "after:barrier-committed",
		"before:stopped", "after:stopped",
	}
}

// AbortPoints are the points of the step that only stops in profile
// kip1279-latest have, between last-mirrored-offset-persisted and
// barrier-appended: what is open is aborted.
func AbortPoints() []string {
	return []string{"before:open-transactions-aborted", "after:open-transactions-aborted"}
}

// AllPoints lists the points of a stop in any profile, in their order.
func AllPoints() []string {
	all := Points()
	return slices.Insert(all, slices.Index(all, "before:barrier-appended"), AbortPoints()...)
}

// Plan is one fault, when it strikes, and whom.
type Plan struct {
	Kind Kind
	// Link is the name of the mirror's link, "A->B".
	Link string
	// Point is one of [AllPoints].
	Point string
	// Delay, and the most that Jitter adds to it, are for [Latency]; zero stands
	// for [DefaultDelay] and [DefaultJitter]. Seed decides the jitter.
	Delay, Jitter time.Duration
	Seed          uint64
	// Rate is for [Bandwidth], in bytes a second; zero stands for [DefaultRate].
	Rate int64
	When
}

// What [Latency] does when its plan does not say.
const (
	DefaultDelay  = 80 * time.Millisecond
	DefaultJitter = 40 * time.Millisecond
	// DefaultRate of [Bandwidth]: a response with records takes a noticeable while.
	DefaultRate = 20_000
)

// maxDelay keeps a plan from outlasting any scenario.
const maxDelay = time.Minute

// maxRate is more than any link here carries.
const maxRate = 1 << 40

// String prints the plan as one line, which [Parse] reads back:
//
//	latency link=A->B at=before:truncated delay=80ms jitter=40ms seed=7
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s link=%s at=%s", p.Kind, p.Link, p.Point)
	if p.Delay != 0 {
		fmt.Fprintf(&b, " delay=%s", p.Delay)
	}
	if p.Jitter != 0 {
		fmt.Fprintf(&b, " jitter=%s", p.Jitter)
	}
	if p.Seed != 0 {
		fmt.Fprintf(&b, " seed=%d", p.Seed)
	}
	if p.Rate != 0 {
		fmt.Fprintf(&b, " rate=%d", p.Rate)
	}
	return b.String() + p.When.String()
}

// Parse reads a plan from its line. The error names what is wrong.
func Parse(line string) (Plan, error) {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return Plan{}, errors.New("fault plan: empty line")
	}
	p := Plan{Kind: Kind(fields[0])}
	seen := map[string]bool{}
	for _, f := range fields[1:] {
		key, value, ok := strings.Cut(f, "=")
		if !ok {
			return Plan{}, fmt.Errorf("fault plan: %q is not key=value", f)
		}
		if seen[key] {
			return Plan{}, fmt.Errorf("fault plan: %s is there twice", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "link":
			p.Link = value
		case "at":
			p.Point = value
		case "delay":
			p.Delay, err = time.ParseDuration(value)
		case "jitter":
			p.Jitter, err = time.ParseDuration(value)
		case "seed":
			p.Seed, err = strconv.ParseUint(value, 10, 64)
		case "rate":
			p.Rate, err = strconv.ParseInt(value, 10, 64)
		case "stop":
			err = p.setStop(value)
		case "until":
			err = p.setUntil(value)
		default:
			return Plan{}, fmt.Errorf("fault plan: unknown key %q (known: link, at, delay, jitter, seed, rate, stop, until)", key)
		}
		if err != nil {
			return Plan{}, fmt.Errorf("fault plan: %s: %w", key, err)
		}
	}
	return p, p.Validate()
}

// Validate says what is wrong with a plan; nil when a [Strike] can prove it.
func (p Plan) Validate() error {
	switch {
	case p.Kind != None && !slices.Contains(AllKinds(), p.Kind):
		return fmt.Errorf("fault plan: unknown fault %q (known: %s)", p.Kind, join(append([]Kind{None}, AllKinds()...)))
	case p.Link == "" || strings.ContainsAny(p.Link, " \t\n="):
		return fmt.Errorf("fault plan: %q is no name of a link", p.Link)
	case !slices.Contains(AllPoints(), p.Point):
		return fmt.Errorf("fault plan: unknown point %q (known: %s)", p.Point, strings.Join(AllPoints(), ", "))
	case p.Delay < 0 || p.Delay > maxDelay || p.Jitter < 0 || p.Jitter > maxDelay:
		return fmt.Errorf("fault plan: delay %s and jitter %s must lie between 0 and %s", p.Delay, p.Jitter, maxDelay)
	case p.Kind != Latency && (p.Delay != 0 || p.Jitter != 0):
		return fmt.Errorf("fault plan: %s knows no delay", p.Kind)
	case p.Rate < 0 || p.Rate > maxRate:
		return fmt.Errorf("fault plan: rate %d must lie between 0 and %d", p.Rate, int64(maxRate))
	case p.Kind != Bandwidth && p.Rate != 0:
		return fmt.Errorf("fault plan: %s knows no rate", p.Kind)
	}
	if err := p.When.validate(); err != nil {
		return fmt.Errorf("fault plan: %w", err)
	}
	return nil
}

func join(kinds []Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, string(k))
	}
	return strings.Join(all, ", ")
}

// InFlight says whether the strike holds something in flight from before the
// stop is requested.
func (p Plan) InFlight() bool {
	switch p.Kind {
	case None:
		return false
	case HoldAndRelease, HoldAndDrop, HoldOneFetch:
		return true
	}
	return p.Point != firstPoint
}

// Schedule draws n plans against a link: every fault and every point come up as
// evenly as they can, in an order that the seed decides.
func Schedule(seed uint64, link string, n int) []Plan {
	r := rand.New(rand.NewPCG(seed, 0x57a7e75c4ed01e5))
	var plans []Plan
	var kinds []Kind
	var points []string
	for range n {
		if len(kinds) == 0 {
			kinds = Kinds()
			r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		if len(points) == 0 {
			points = Points()
			r.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		}
		p := Plan{Kind: kinds[0], Link: link, Point: points[0]}
		kinds, points = kinds[1:], points[1:]
		if p.Kind == Latency {
			p.Delay = time.Duration(20+r.IntN(180)) * time.Millisecond
			p.Jitter = time.Duration(r.IntN(100)) * time.Millisecond
			p.Seed = r.Uint64()
		}
		plans = append(plans, p)
	}
	return plans
}
