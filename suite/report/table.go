package report

import (
	"fmt"
	"io"
	"strings"

	"watershed.example/suite/check"
)

// Table writes the verdict of each requirement over all scenarios, one line
// each, at most width characters wide, and a last line that sums up.
func Table(w io.Writer, r *Result, width int) error {
	width = max(width, 40)
	p := &printer{out: w}
	const idWidth, outcomeWidth, countWidth = 8, 15, 8
	rest := width - idWidth - outcomeWidth - countWidth
	p.line("%-*s%-*s%-*s%s", idWidth, "id", outcomeWidth, "verdict", countWidth, "held", oneLine("why", rest))
	rows := r.Rows()
	counts := map[check.Outcome]int{}
	for _, row := range rows {
		counts[row.Outcome]++
		all := 0
		for _, n := range row.Counts {
			all += n
		}
		why := row.Reason
		if row.Outcome != check.Held && len(r.Scenarios) > 1 {
			why = row.Scenario + ": " + why
		}
		verdict := string(row.Outcome)
		if row.Outcome == check.Violated || row.Outcome == check.Inconclusive {
			verdict = strings.ToUpper(verdict)
		}
		if row.Accepted {
			verdict = "accepted" // violated, and known to be
		}
		line := fmt.Sprintf("%-*s%-*s%-*s%s", idWidth, oneLine(row.Requirement, idWidth), outcomeWidth, verdict, countWidth,
			fmt.Sprintf("%d/%d", row.Counts[check.Held], all), oneLine(why, rest))
		p.line("%s", strings.TrimRight(line, " "))
	}
	for i := range r.Scenarios {
		if t := r.Scenarios[i].Trouble; t != "" {
			p.line("%s", oneLine("trouble in "+r.Scenarios[i].Run.Scenario+": "+t, width))
		}
	}
	for _, note := range r.Notes {
		p.line("%s", oneLine(note, width))
	}
	for _, s := range r.Levels {
		word := "not passed: "
		if s.Passed {
			word = "passed, "
		}
		p.line("%s", oneLine(fmt.Sprintf("level %s %s%s", s.Level, word, s.Why), width))
	}
	played := 0
	for i := range r.Scenarios {
		if r.Scenarios[i].Name != Unplayed {
			played++
		}
	}
	end := "PASSED"
	if !r.Passed() {
		end = "FAILED"
	}
	p.line("%s", oneLine(fmt.Sprintf("%s: %d scenarios; requirements: %d held, %d violated, %d inconclusive, %d not applicable",
		end, played, counts[check.Held], counts[check.Violated], counts[check.Inconclusive], counts[check.NotApplicable]), width))
	if p.err != nil {
		return fmt.Errorf("write the verdict table: %w", p.err)
	}
	return nil
}
