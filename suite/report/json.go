package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"watershed.example/suite/check"
)

// JSONVersion is the version of the result's JSON.
const JSONVersion = 1

type jsonResult struct {
	Version   int            `json:"version"`
	Passed    bool           `json:"passed"`
	Launcher  string         `json:"launcher,omitempty"` // and why it was chosen
	Levels    []jsonLevel    `json:"levels,omitempty"`
	Scenarios []jsonScenario `json:"scenarios"`
}

type jsonLevel struct {
	Level  string `json:"level"`
	Passed bool   `json:"passed"`
	Why    string `json:"why"`
}

type jsonScenario struct {
	Name       string        `json:"name"`
	Seed       uint64        `json:"seed,string"`
	Profile    string        `json:"profile"`
	Launcher   string        `json:"launcher,omitempty"`
	Defects    []string      `json:"defects,omitempty"`
	Command    string        `json:"command"`
	Evidence   string        `json:"evidence"`
	Started    string        `json:"started,omitempty"` // RFC 3339
	DurationMs int64         `json:"durationMs,string"`
	Passed     bool          `json:"passed"`
	Trouble    string        `json:"trouble,omitempty"`
	Verdicts   []jsonVerdict `json:"verdicts"`
}

type jsonVerdict struct {
	Requirement string        `json:"requirement"`
	Outcome     check.Outcome `json:"outcome"`
	Reason      string        `json:"reason"`
	Accepted    string        `json:"accepted,omitempty"` // why the violation is
	Findings    []jsonFinding `json:"findings,omitempty"`
}

type jsonFinding struct {
	Anomaly   string   `json:"anomaly"`
	Episode   int32    `json:"episode,omitempty"` // of the run, from 1
	Mirror    string   `json:"mirror,omitempty"`  // that the episode stops
	Cluster   string   `json:"cluster"`
	Node      int32    `json:"node"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset,string"` // -1: about no offset
	Batch     string   `json:"batch,omitempty"`
	Around    []string `json:"around,omitempty"`
	Expected  string   `json:"expected"`
	Got       string   `json:"got"`
	Evidence  string   `json:"evidence"`
}

// JSON writes the result as JSON. Numbers of 64 bits are strings, since many
// readers hold numbers as doubles (FA-24); bytes that are no text are escaped.
func JSON(w io.Writer, r *Result) error {
	out := jsonResult{Version: JSONVersion, Passed: r.Passed(), Launcher: printable(r.Launcher), Scenarios: []jsonScenario{}}
	for _, l := range r.Levels {
		out.Levels = append(out.Levels, jsonLevel{l.Level.String(), l.Passed, printable(l.Why)})
	}
	for i := range r.Scenarios {
		out.Scenarios = append(out.Scenarios, scenarioJSON(&r.Scenarios[i]))
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("write result JSON: %w", err)
	}
	return nil
}

func scenarioJSON(s *Scenario) jsonScenario {
	out := jsonScenario{
		Name: printable(s.Run.Scenario), Seed: s.Run.Seed, Profile: printable(string(s.Run.Profile)),
		Launcher: printable(s.Run.Launcher), Defects: s.Run.Defects, Command: printable(s.Run.Command),
		Evidence: printable(s.Evidence), DurationMs: s.Duration.Milliseconds(),
		Passed: s.Passed(), Trouble: printable(s.Trouble), Verdicts: []jsonVerdict{},
	}
	if !s.Started.IsZero() {
		out.Started = s.Started.UTC().Format(time.RFC3339Nano)
	}
	for _, v := range s.Verdicts {
		jv := jsonVerdict{Requirement: printable(v.Requirement), Outcome: v.Outcome, Reason: printable(v.Reason)}
		if v.Outcome == check.Violated {
			jv.Accepted = printable(s.Accepted[v.Requirement])
		}
		for _, f := range v.Findings {
			jf := jsonFinding{
				Anomaly: string(f.Anomaly), Episode: f.Episode, Mirror: printable(f.Mirror),
				Cluster: printable(f.Cluster), Node: f.Node, Topic: printable(f.Topic),
				Partition: f.Partition, Offset: f.Offset, Batch: printable(f.Batch),
				Expected: printable(f.Expected), Got: printable(f.Got), Evidence: printable(f.Evidence),
			}
			for _, l := range f.Around {
				jf.Around = append(jf.Around, printable(l))
			}
			jv.Findings = append(jv.Findings, jf)
		}
		out.Verdicts = append(out.Verdicts, jv)
	}
	return out
}

// Readable says what keeps data from being a result, as JSON writes it.
func Readable(data []byte) error {
	var r jsonResult
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("decode result: %w", err)
	}
	if r.Version != JSONVersion {
		return fmt.Errorf("result: version %d, only %d is read", r.Version, JSONVersion)
	}
	for _, s := range r.Scenarios {
		for _, v := range s.Verdicts {
			switch v.Outcome {
			case check.Held, check.Violated, check.Inconclusive, check.NotApplicable:
			default:
				return fmt.Errorf("result: %s: outcome %q", s.Name, v.Outcome)
			}
		}
	}
	return nil
}

// SaveJSON writes the result's JSON to path and waits until the disk has it.
func SaveJSON(path string, r *Result) error {
	return save(path, func(w io.Writer) error { return JSON(w, r) })
}
