package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"watershed.example/suite/check"
	"watershed.example/suite/engine"
	"watershed.example/suite/report"
)

// recordedResult is what a run's result.json says, as far as it is compared.
type recordedResult struct {
	Version   int
	Passed    bool
	Levels    []recordedLevel
	Scenarios []recordedScenario

	missing bool // there was no such file
}

type recordedLevel struct {
	Level  string
	Passed bool
	Why    string
}

type recordedScenario struct {
	Name, Evidence, Profile, Launcher, Trouble string

	Seed     uint64 `json:",string"`
	Passed   bool
	Defects  []string
	Verdicts []recordedVerdict
}

type recordedVerdict struct {
	Requirement, Reason, Accepted string

	Outcome  check.Outcome
	Findings []struct {
		Cluster, Topic  string
		Node, Partition int32
		Offset          int64 `json:",string"`
	}
}

const resultFile = "result.json"

// readRecorded reads the verdicts in a run's folder; none where it has no result.
func readRecorded(folder string) (*recordedResult, error) {
	data, err := os.ReadFile(filepath.Join(folder, resultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &recordedResult{Version: report.JSONVersion, missing: true}, nil
	}
	if err != nil {
		return nil, err
	}
	var r recordedResult
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, resultFile), err)
	}
	if r.Version != report.JSONVersion {
		return nil, fmt.Errorf("%s: version %d, only %d is read", filepath.Join(folder, resultFile), r.Version, report.JSONVersion)
	}
	return &r, nil
}

// outcomes are a scenario's, by requirement.
func (s *recordedScenario) outcomes() map[string]check.Outcome {
	all := map[string]check.Outcome{}
	for _, v := range s.Verdicts {
		all[v.Requirement] = v.Outcome
	}
	return all
}

// anew is the scenario as it is summed up: by verdicts that were judged anew where res is
// not nil, else by those that are recorded. What kept it from its end, and what somebody
// accepts, is told by nobody else.
func (s *recordedScenario) anew(name string, res *engine.Result) *engine.Result {
	sum := &engine.Result{Name: name, Seed: s.Seed, Trouble: s.Trouble, Accepted: map[string]string{}}
	for _, v := range s.Verdicts {
		sum.Verdicts = append(sum.Verdicts, check.Verdict{Requirement: v.Requirement, Outcome: v.Outcome, Reason: v.Reason})
		if v.Accepted != "" {
			sum.Accepted[v.Requirement] = v.Accepted
		}
	}
	if res != nil {
		sum.Verdicts, sum.Evidence, sum.Folder = res.Verdicts, res.Evidence, res.Folder
		if res.Trouble != "" {
			sum.Trouble = res.Trouble
		}
	}
	return sum
}

// passed says whether a scenario did, as result.json counts it.
func passed(r *engine.Result) bool {
	s := report.Scenario{Verdicts: r.Verdicts, Trouble: r.Trouble, Accepted: r.Accepted}
	return s.Passed()
}
