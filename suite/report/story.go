package report

import (
	"fmt"
	"io"
	"strings"

	"watershed.example/suite/check"
	"watershed.example/suite/contract"
)

// storyFindings is how many findings of one verdict a story tells in full.
const storyFindings = 3

// Story writes what a person needs who sees the failure for the first time:
// for each verdict that fails the scenario the requirement's text, the place,
// the offending batch among those around it, what was expected, where the
// evidence lies and how to run it again. Nothing for a scenario that passed.
func Story(w io.Writer, s *Scenario, width int) error {
	if s.Passed() {
		return nil
	}
	p := &printer{out: w}
	p.line("FAILED  %s", oneLine(s.Run.Scenario, max(width-8, 20)))
	if s.Trouble != "" {
		p.field("trouble", s.Trouble, width)
	}
	if len(s.Verdicts) == 0 {
		p.field("verdict", "none: nothing was judged", width)
	}
	for _, v := range s.Verdicts {
		if v.Outcome == check.Violated && v.Requirement != "AP-1" {
			violation(p, v, width)
		}
	}
	for _, v := range s.Verdicts {
		switch {
		case v.Outcome == check.Inconclusive:
			p.line("")
			p.line("%s INCONCLUSIVE: the run does not show whether it holds", oneLine(v.Requirement, width))
			p.field("reason", v.Reason, width)
		case v.Outcome == check.Violated && v.Requirement == "AP-1":
			p.line("")
			p.line("AP-1 VIOLATED: it sums up the above")
		}
	}
	p.line("")
	p.field("evidence", s.Evidence, width)
	// A command is printed whole, on its own line, so that it can be copied.
	p.line("  again:    %s", printable(s.Run.Command))
	if p.err != nil {
		return fmt.Errorf("write the story of %s: %w", s.Run.Scenario, p.err)
	}
	return nil
}

func violation(p *printer, v check.Verdict, width int) {
	p.line("")
	p.line("%s VIOLATED", oneLine(v.Requirement, width))
	if req, ok := contract.Get(v.Requirement); ok {
		p.field("promise", req.Text, width)
		p.field("source", string(req.Source), width)
	}
	for i, f := range v.Findings {
		if i == storyFindings {
			p.line("")
			p.field("more", fmt.Sprintf("%d further findings, in result.json", len(v.Findings)-i), width)
			break
		}
		finding(p, f, width)
	}
}

func finding(p *printer, f check.Finding, width int) {
	p.line("")
	p.field("what", string(f.Anomaly), width)
	where := fmt.Sprintf("partition %s-%d on cluster %s, node %d", f.Topic, f.Partition, f.Cluster, f.Node)
	if f.Offset >= 0 {
		where += fmt.Sprintf(", offset %d", f.Offset)
	}
	if f.Episode > 0 {
		p.field("episode", fmt.Sprintf("%d, a stop of mirror %s", f.Episode, f.Mirror), width)
	}
	p.field("where", where, width)
	p.field("expected", f.Expected, width)
	p.field("got", f.Got, width)
	if f.Batch != "" {
		p.field("batch", f.Batch, width)
	}
	if len(f.Around) > 0 {
		p.line("  around:")
		for _, l := range f.Around {
			p.line("    %s", strings.ReplaceAll(printable(l), "\n", `\n`))
		}
	}
	p.field("shown by", f.Evidence, width)
}
