package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the table at the end.
type report struct {
	rows              [][]string
	details           []string
	times             []string
	same, differences int
}

func (r *report) took(what string, since time.Time) {
	r.times = append(r.times, fmt.Sprintf("%s %.1f s", what, time.Since(since).Seconds()))
}

// row adds the outcome of one behaviour: how many facts are the same, and each
// difference in words.
func (r *report) row(client, behaviour string, same, explained int, differences []string) {
	r.same += same
	r.differences += len(differences)
	outcome := fmt.Sprintf("same, %d facts", same)
	if explained > 0 {
		outcome += fmt.Sprintf(", and %d explained differences", explained)
	}
	if len(differences) > 0 {
		outcome = fmt.Sprintf("DIFFERS in %d, same in %d", len(differences), same)
	}
	r.rows = append(r.rows, []string{client, behaviour, outcome})
	for _, d := range differences {
		r.details = append(r.details, fmt.Sprintf("%s, %s: %s", client, behaviour, d))
	}
}

// compare sets side by side what one client saw of both clusters.
func (r *report) compare(c client, kafka, ours facts) {
	for _, behaviour := range c.behaviours {
		a, b := kafka[behaviour], ours[behaviour]
		var differences []string
		same, explained := 0, 0
		names := map[string]bool{}
		for name := range a {
			names[name] = true
		}
		for name := range b {
			names[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			for _, d := range differing(name, a[name], b[name]) {
				if explain(c.name, behaviour, d) {
					explained++
				} else {
					differences = append(differences, d.String())
				}
			}
			if reflect.DeepEqual(a[name], b[name]) {
				same++
			}
		}
		// Failing in the same way is no agreement.
		if a["failed"] != nil && reflect.DeepEqual(a["failed"], b["failed"]) {
			differences = append(differences, fmt.Sprintf("failed against both: %v", a["failed"]))
		}
		if len(names) == 0 {
			differences = append(differences, "no fact at all")
		}
		r.row(c.name, behaviour, same, explained, differences)
	}
}

// difference is one value that is not the same; nil is one that is not there.
type difference struct {
	fact        string
	kafka, ours any
}

func (d difference) String() string {
	return fmt.Sprintf("%s\n    Kafka      %s\n    refbroker  %s", d.fact, text(d.kafka), text(d.ours))
}

func text(v any) string {
	if v == nil {
		return "(nothing)"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// differing compares two values, maps entry by entry.
func differing(name string, kafka, ours any) []difference {
	a, isMap := kafka.(map[string]any)
	b, both := ours.(map[string]any)
	if !isMap || !both {
		if reflect.DeepEqual(kafka, ours) {
			return nil
		}
		return []difference{{name, kafka, ours}}
	}
	var all []difference
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, differing(name+" / "+k, a[k], b[k])...)
	}
	return all
}

func (r *report) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "CLIENT\tBEHAVIOUR\tKAFKA 4.4.0 AND REFBROKER")
	for _, row := range r.rows {
		_, _ = fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush()
	for _, d := range r.details {
		_, _ = fmt.Fprintf(w, "\n%s\n", d)
	}
	_, _ = fmt.Fprintf(w, "\n%d facts are the same, %d differ (%s)\n", r.same, r.differences, strings.Join(r.times, ", "))
}
