package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"go.yaml.in/yaml/v3"

	"watershed.example/suite/check"
	"watershed.example/suite/contract"
)

// Known is a violation that somebody accepts for a while: it fails no run until
// it expires. A level that includes it is not passed.
type Known struct {
	Requirement string `yaml:"requirement"`
	// Scenario is a pattern as of [path.Match]; empty for every scenario.
	Scenario string `yaml:"scenario"`
	Reason   string `yaml:"reason"`
	// Until is the last day on which it counts, as 2006-01-02 in UTC.
	Until string `yaml:"until"`

	last time.Time
}

func (k Known) String() string {
	where := ""
	if k.Scenario != "" {
		where = " in " + k.Scenario
	}
	return fmt.Sprintf("%s%s (until %s: %s)", k.Requirement, where, k.Until, k.Reason)
}

// LoadKnown reads a YAML list of accepted violations. What is wrong with it is
// said with the entry's number, from 1.
func LoadKnown(file string) ([]Known, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read accepted violations: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	var all []Known
	if err := dec.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: want a list of requirement, scenario, reason, until: %w", file, err)
	}
	for i := range all {
		if err := all[i].check(); err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w", file, i+1, err)
		}
	}
	return all, nil
}

func (k *Known) check() (err error) {
	if _, ok := contract.Get(k.Requirement); !ok {
		return fmt.Errorf("requirement %q: there is none with this id", k.Requirement)
	}
	if _, err := path.Match(k.Scenario, ""); err != nil {
		return fmt.Errorf("scenario %q: %w", k.Scenario, err)
	}
	if k.Reason == "" {
		return fmt.Errorf("%s has no reason", k.Requirement)
	}
	if k.last, err = time.Parse(time.DateOnly, k.Until); err != nil {
		return fmt.Errorf("until %q: want a day such as 2027-01-31", k.Until)
	}
	return nil
}

// expired says whether the entry's last day is over.
func (k *Known) expired(now time.Time) bool { return !now.Before(k.last.AddDate(0, 0, 1)) }

// matches says whether the entry speaks of a requirement in a scenario.
func (k *Known) matches(requirement, scenario string) bool {
	if k.Requirement != requirement {
		return false
	}
	ok, _ := path.Match(k.Scenario, scenario) // the pattern was checked
	return ok || k.Scenario == ""
}

// Accepts returns, for the violated requirements of a scenario, the reasons of
// the entries that accept them. Expired entries accept nothing.
func Accepts(all []Known, scenario string, verdicts []check.Verdict, now time.Time) map[string]string {
	reasons := map[string]string{}
	for _, v := range verdicts {
		for i := range all {
			if k := &all[i]; v.Outcome == check.Violated && !k.expired(now) && k.matches(v.Requirement, scenario) {
				reasons[v.Requirement] = k.Reason
			}
		}
	}
	return reasons
}

// Notes says, one line each, which entries no violation of the scenarios met,
// and which would have accepted one had they not expired.
func Notes(all []Known, scenarios []Scenario, now time.Time) (lines []string) {
	for i := range all {
		k, met := &all[i], false
		for j := range scenarios {
			for _, v := range scenarios[j].Verdicts {
				met = met || v.Outcome == check.Violated && k.matches(v.Requirement, scenarios[j].Name)
			}
		}
		switch {
		case !met:
			lines = append(lines, "accepted, but not seen any more: "+k.String())
		case k.expired(now):
			lines = append(lines, "accepted once, expired: "+k.String())
		}
	}
	return lines
}
