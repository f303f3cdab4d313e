package postmortem

import (
	"fmt"
	"io"
	"strings"
)

// maxStories bounds the partitions whose story is printed though nothing was
// found in them; the JSON has all.
const maxStories = 20

// Text writes the report for a person.
func (r *Report) Text(w io.Writer) error {
	var s strings.Builder
	for _, side := range r.Sides {
		fmt.Fprintf(&s, "Side %s: %s", side.Name, strings.Join(side.Folders, ", "))
		if side.ClusterID != "" {
			fmt.Fprintf(&s, "; cluster id %s (%s)", side.ClusterID, side.ClusterIDBy)
		}
		s.WriteString("\n")
	}
	fmt.Fprintf(&s, "%s, %d bytes of segments", many(int64(len(r.Partitions)), "partition"), r.Bytes)
	if r.Internal > 0 {
		fmt.Fprintf(&s, "; %d folders of internal topics left out", r.Internal)
	}
	s.WriteString("\n")
	telling := map[string]bool{}
	for _, f := range r.Findings {
		if f.Sure >= Likely {
			telling[fmt.Sprint(f.Topic, "-", f.Partition)] = true
		}
	}
	told, silent := 0, 0
	for _, p := range r.Partitions {
		name := fmt.Sprint(p.Topic, "-", p.Partition)
		if !telling[name] && told >= maxStories {
			silent++
			continue
		}
		told++
		fmt.Fprintf(&s, "\n%s\n", name)
		for _, line := range p.Story {
			fmt.Fprintf(&s, "  %s\n", line)
		}
	}
	if silent > 0 {
		fmt.Fprintf(&s, "\n%d more partitions, in which nothing is likely or certain, are in the JSON.\n", silent)
	}
	counts := map[Sureness]int{}
	for i := range r.Findings {
		counts[r.Findings[i].Sure]++
		r.Findings[i].text(&s)
	}
	fmt.Fprintf(&s, "\n%s: %d findings certain, %d likely, %d possible, %d measured.\n", r.Outcome,
		counts[Certain], counts[Likely], counts[Possible], counts[Measured])
	if _, err := io.WriteString(w, s.String()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (f *Finding) text(s *strings.Builder) {
	place := f.Side
	if f.Topic != "" {
		place = fmt.Sprintf("%s-%d on %s", f.Topic, f.Partition, f.Side)
	}
	switch {
	case f.Offset >= 0 && f.LastOffset > f.Offset:
		place += fmt.Sprintf(", offsets %d to %d", f.Offset, f.LastOffset)
	case f.Offset >= 0:
		place += fmt.Sprintf(", offset %d", f.Offset)
	}
	fmt.Fprintf(s, "\n%s: %s", strings.ToUpper(f.Sure.String()), f.Kind)
	if len(f.Requirements) > 0 {
		fmt.Fprintf(s, " (%s)", strings.Join(f.Requirements, ", "))
	}
	fmt.Fprintf(s, ", %s\n  what: %s\n  why:  %s\n  do:   %s\n", place, f.What, f.Why, f.Do)
	if f.Times > 1 {
		fmt.Fprintf(s, "  %d places like this, of which this is the first\n", f.Times)
	}
	if len(f.Records) > 0 {
		var keys []string
		for _, r := range f.Records {
			switch {
			case r.Control != "":
				keys = append(keys, fmt.Sprintf("%d (%s)", r.Offset, r.Control))
			case r.Unread != "":
				keys = append(keys, fmt.Sprintf("%d (not read: %s)", r.Offset, r.Unread))
			case r.Key == nil:
				keys = append(keys, fmt.Sprintf("%d (no key)", r.Offset))
			default:
				keys = append(keys, fmt.Sprintf("%d (key %s)", r.Offset, *r.Key))
			}
		}
		more := ""
		if n := f.Affected - int64(len(f.Records)); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(s, "  records: %s%s\n", strings.Join(keys, ", "), more)
	}
	if f.Folder != "" {
		fmt.Fprintf(s, "  folder: %s\n", f.Folder)
	}
}
