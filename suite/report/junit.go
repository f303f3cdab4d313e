package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"watershed.example/suite/check"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes the result as JUnit XML: a suite for each scenario, a case for
// each requirement. Violated and inconclusive are failures, not applicable is
// skipped, a scenario's trouble is an error. It is valid XML 1.0 whatever bytes
// a message holds (FA-23).
func JUnit(w io.Writer, r *Result) error {
	all := junitSuites{Name: "watershed"}
	var total time.Duration
	for i := range r.Scenarios {
		s := suite(&r.Scenarios[i])
		all.Suites = append(all.Suites, s)
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
		all.Skipped += s.Skipped
		total += r.Scenarios[i].Duration
	}
	all.Time = seconds(total)
	_, err := io.WriteString(w, xml.Header)
	if err == nil {
		e := xml.NewEncoder(w)
		e.Indent("", "  ")
		if err = e.Encode(all); err == nil {
			err = e.Close()
		}
	}
	if err == nil {
		_, err = io.WriteString(w, "\n")
	}
	if err != nil {
		return fmt.Errorf("write JUnit XML: %w", err)
	}
	return nil
}

func suite(s *Scenario) junitSuite {
	out := junitSuite{Name: printable(s.Run.Scenario), Time: seconds(s.Duration)}
	if !s.Started.IsZero() {
		out.Timestamp = s.Started.UTC().Format("2006-01-02T15:04:05")
	}
	for _, p := range [][2]string{
		{"seed", strconv.FormatUint(s.Run.Seed, 10)},
		{"profile", string(s.Run.Profile)},
		{"launcher", s.Run.Launcher},
		{"evidence", s.Evidence},
		{"command", s.Run.Command},
	} {
		out.Properties = append(out.Properties, junitProperty{p[0], printable(p[1])})
	}
	for _, v := range s.Verdicts {
		c := junitCase{Class: out.Name, Name: printable(v.Requirement), Time: "0.000"}
		reason, accepted := s.Accepted[v.Requirement]
		switch {
		case v.Outcome == check.Violated && accepted:
			out.Skipped++
			c.Skipped = &junitMessage{Message: printable("violated, and accepted: " + reason)}
		case v.Outcome == check.Violated, v.Outcome == check.Inconclusive:
			out.Failures++
			c.Failure = &junitMessage{Message: printable(v.Reason), Type: string(v.Outcome), Text: details(s, v)}
		case v.Outcome == check.NotApplicable:
			out.Skipped++
			c.Skipped = &junitMessage{Message: printable(v.Reason)}
		}
		out.Cases = append(out.Cases, c)
	}
	if s.Trouble != "" || len(s.Verdicts) == 0 {
		out.Errors++
		trouble := s.Trouble
		if trouble == "" {
			trouble = "nothing was judged"
		}
		out.Cases = append(out.Cases, junitCase{Class: out.Name, Name: "scenario", Time: "0.000", Error: &junitMessage{Message: printable(trouble), Type: "trouble"}})
	}
	out.Tests = len(out.Cases)
	return out
}

// details is the story of one verdict alone.
func details(s *Scenario, v check.Verdict) string {
	var out strings.Builder
	p := &printer{out: &out}
	if v.Outcome == check.Violated {
		violation(p, v, 120)
	}
	p.line("evidence: %s", printable(s.Evidence))
	p.line("again: %s", printable(s.Run.Command))
	return out.String()
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// SaveJUnit writes the JUnit XML to path and waits until the disk has it.
func SaveJUnit(path string, r *Result) error {
	return save(path, func(w io.Writer) error { return JUnit(w, r) })
}

// save writes a file and returns any error, also those of sync and close.
func save(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("save report %s: %w", path, err)
	}
	return nil
}
