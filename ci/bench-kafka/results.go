package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
)

// measure is one thing that is measured.
type measure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Ratio is the target against Kafka, for refbroker/Kafka; 0 for none.
	Ratio float64 `json:"targetRatio,omitempty"`
	// Limit is the target by itself; 0 for none.
	Limit float64 `json:"targetLimit,omitempty"`
	// Less: the lower the better.
	Less bool `json:"lessIsBetter,omitempty"`
}

// The brokers that are compared.
const (
	ours     = "refbroker"
	theirs   = "kafka"      // as it comes
	theirsTx = "kafka-txn1" // with add.partitions.to.txn.retry.backoff.ms=1
)

// sample is one number.
type sample struct {
	Value float64 `json:"value"`
	// Others is the share of the processors that other processes took meanwhile.
	Others float64 `json:"othersShare"`
	// CPU is the broker's processor time over the whole load, of which this may
	// be one measure of two.
	CPU float64 `json:"brokerCpuSeconds,omitempty"`
}

type results struct {
	rounds   int
	measures []measure
	samples  map[string]map[string][]sample // by measure and broker
}

func newResults(o options) *results {
	return &results{rounds: o.rounds, samples: map[string]map[string][]sample{}}
}

func (r *results) add(m measure, broker string, s sample) {
	if r.samples[m.Name] == nil {
		r.measures = append(r.measures, m)
		r.samples[m.Name] = map[string][]sample{}
	}
	r.samples[m.Name][broker] = append(r.samples[m.Name][broker], s)
}

func median(s []sample, of func(sample) float64) float64 {
	if len(s) == 0 {
		return 0
	}
	var v []float64
	for _, x := range s {
		v = append(v, of(x))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func value(s sample) float64  { return s.Value }
func others(s sample) float64 { return s.Others }

// row is a measure as it is reported.
type row struct {
	measure
	Ours   float64 `json:"refbroker"`
	Kafka  float64 `json:"kafka,omitempty"`
	Tx     float64 `json:"kafkaTxn1,omitempty"`
	Factor float64 `json:"ratio,omitempty"`
	// Others is the median share of other processes over all samples.
	Others  float64             `json:"othersShare"`
	Verdict string              `json:"verdict"`
	Samples map[string][]sample `json:"samples"`
}

// report makes the rows. The ratio is against Kafka with the setting that
// favours it, where there is one.
func (r *results) report() []row {
	var rows []row
	for _, m := range r.measures {
		s := r.samples[m.Name]
		out := row{measure: m, Samples: s, Verdict: "-"}
		out.Ours, out.Kafka, out.Tx = median(s[ours], value), median(s[theirs], value), median(s[theirsTx], value)
		var all []sample
		for _, b := range s {
			all = append(all, b...)
		}
		out.Others = median(all, others)
		met, judged := true, false
		if base := cmp.Or(out.Tx, out.Kafka); base > 0 && len(s[ours]) > 0 {
			out.Factor = out.Ours / base
			if m.Ratio > 0 {
				judged, met = true, m.Less == (out.Factor <= m.Ratio)
			}
		}
		if m.Limit > 0 && len(s[ours]) > 0 {
			judged, met = true, met && m.Less == (out.Ours <= m.Limit)
		}
		switch {
		case judged && met:
			out.Verdict = "met"
		case judged:
			out.Verdict = "MISSED"
		case m.Ratio > 0 || m.Limit > 0:
			out.Verdict = "not judged"
		}
		rows = append(rows, out)
	}
	return rows
}

// met reports whether every target was reached.
func (r *results) met() bool {
	return !slices.ContainsFunc(r.report(), func(w row) bool { return w.Verdict == "MISSED" || w.Verdict == "not judged" })
}

func (m measure) target() string {
	sign := "≥"
	if m.Less {
		sign = "≤"
	}
	switch {
	case m.Ratio > 0:
		return fmt.Sprintf("%s %.2g ×", sign, m.Ratio)
	case m.Limit > 0:
		return fmt.Sprintf("%s %.4g %s", sign, m.Limit, m.Unit)
	}
	return "-"
}

func (r *results) print(w io.Writer) {
	number := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.4g", v)
	}
	fmt.Fprintf(w, "\nMedians of %d rounds in turns, %d processors. \"others\": what other processes took of them meanwhile.\n", r.rounds, runtime.NumCPU())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "measure\tunit\trefbroker\tKafka\tKafka, 1 ms\tratio\ttarget\t\tothers")
	for _, row := range r.report() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f %%\n", row.Name, row.Unit,
			number(row.Ours), number(row.Kafka), number(row.Tx), number(row.Factor), row.target(), row.Verdict, 100*row.Others)
	}
	_ = t.Flush()
}
