package broker

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// stopRow is one line of what BenchmarkStopTargets prints.
type stopRow struct {
	what   string
	costs  []stopCost
	ratio  float64 // 0 for none
	target string
	met    bool
}

// BenchmarkStopTargets measures stops against their targets, and prints a table:
// ci/bench stop runs it. WATERSHED_STOP_STRICT=yes has it fail when one is missed.
//
// What the time of a stop is depends on what else the machine does; ratios are of
// processor time, which depends on that less. Three nodes share the processors
// here, so half of the processor time, on two, is what no stop can be faster than.
func BenchmarkStopTargets(b *testing.B) {
	many := numbers(b, "WATERSHED_STOP_PARTITIONS", "1000,5000")
	producers := numbers(b, "WATERSHED_STOP_PRODUCERS", "1,10000")
	require.Len(b, many, 2)
	require.Len(b, producers, 2)
	stopMany := func(b *testing.B, partitions, producers int32, whole bool) stopCost {
		c := stopMany(b, partitions, producers, whole)
		fmt.Fprintln(os.Stderr, c.describe(nil)) // the whole takes minutes
		return c
	}
	for b.Loop() {
		one := stopRow{what: "1 partition, 100 producers", target: "<= 150 ms"}
		for range 5 {
			one.costs = append(one.costs, stopMany(b, 1, 100, false))
		}
		one.met = one.took() <= 150*time.Millisecond
		some := stopRow{what: fmt.Sprintf("%d partitions, 100 producers each", many[0]), target: "<= 3 s"}
		some.costs = append(some.costs, stopMany(b, many[0], 100, false))
		some.met = some.took() <= 3*time.Second
		larger := stopRow{what: fmt.Sprintf("%d partitions: processor time a partition, of that with %d", many[1], many[0]), target: "<= 1.1"}
		base := some
		if mayOpen(b, many[1]) {
			larger.costs = append(larger.costs, stopMany(b, many[1], 100, false))
		} else { // both of the ratio are in memory then
			base.costs = []stopCost{stopOn(b, &stopCluster{tb: b, inMemory: true}, many[0], 100)}
			larger.costs = append(larger.costs, stopOn(b, &stopCluster{tb: b, inMemory: true}, many[1], 100))
			larger.what += " (files in memory: too many to open)"
		}
		larger.ratio = larger.cpu().Seconds() / base.cpu().Seconds() * float64(many[0]) / float64(many[1])
		larger.met = larger.ratio <= 1.1
		few := stopRow{what: fmt.Sprintf("100 partitions, nothing to cut, producers each: %d", producers[0]), target: "-", met: true}
		crowd := stopRow{what: fmt.Sprintf("the same with %d: processor time, of that before", producers[1]), target: "<= 1.2"}
		for range 3 { // in turns: a stop of so few takes little
			few.costs = append(few.costs, stopMany(b, 100, producers[0], true))
			crowd.costs = append(crowd.costs, stopMany(b, 100, producers[1], true))
		}
		crowd.ratio = float64(crowd.cpu()) / float64(few.cpu())
		crowd.met = crowd.ratio <= 1.2
		rows := []stopRow{one, some, larger, few, crowd}
		fmt.Print(stopTable(rows))
		missed := slices.ContainsFunc(rows, func(r stopRow) bool { return !r.met })
		if missed && os.Getenv("WATERSHED_STOP_STRICT") == "yes" {
			b.Error("a target was missed")
		}
	}
}

func (r stopRow) took() time.Duration {
	return r.median(func(c stopCost) time.Duration { return c.took })
}

func (r stopRow) cpu() time.Duration {
	return r.median(func(c stopCost) time.Duration { return c.cpu })
}

func (r stopRow) median(of func(stopCost) time.Duration) time.Duration {
	var all []time.Duration
	for _, c := range r.costs {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func stopTable(rows []stopRow) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nFrom the request to STOPPED on each of three nodes in one process, three replicas of each partition, %d processors.\n", runtime.NumCPU())
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "stop of\ttime\tprocessor time\tquorum records\tsyncs a partition\tratio\ttarget\t\tothers")
	for _, r := range rows {
		c, ratio, verdict := r.costs[len(r.costs)/2], "-", "met"
		if r.ratio > 0 {
			ratio = fmt.Sprintf("%.2f", r.ratio)
		}
		switch {
		case r.target == "-":
			verdict = "-"
		case !r.met:
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.1f\t%s\t%s\t%s\t%.0f %%\n", r.what, r.took().Round(time.Millisecond), r.cpu().Round(time.Millisecond),
			c.records, float64(c.syncs)/float64(c.partitions), ratio, r.target, verdict, 100*c.others)
	}
	_ = t.Flush()
	return text.String()
}
