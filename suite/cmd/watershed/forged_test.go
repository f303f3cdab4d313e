package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/bundle"
)

// forgery makes the bundle of a certificate say what is not so.
type forgery struct {
	name string
	// result and plan change result.json, and run.json of the failover without a fault.
	result, plan func(*testing.T, map[string]any)
	// files changes the run's folder.
	files func(t *testing.T, run string)
	code  int
	says  string
}

const failover = "active-passive/no-fault/none"

// scenario is one of a result's.
func scenario(t *testing.T, result map[string]any, name string) map[string]any {
	t.Helper()
	for _, s := range result["scenarios"].([]any) {
		if s := s.(map[string]any); s["name"] == name {
			return s
		}
	}
	require.FailNow(t, "no scenario "+name)
	return nil
}

func level(t *testing.T, result map[string]any, n int) map[string]any {
	t.Helper()
	all := result["levels"].([]any)
	require.Greater(t, len(all), n)
	return all[n].(map[string]any)
}

// but are verdicts without the first of a requirement.
func but(verdicts any, id string) []any {
	return slices.DeleteFunc(slices.Clone(verdicts.([]any)), func(v any) bool { return v.(map[string]any)["requirement"] == id })
}

// askOnly has a plan ask for one requirement, and tellOnly the result tell of it alone.
func askOnly(plan map[string]any, id string) {
	plan["exercises"] = []any{id}
	for _, e := range plan["episodes"].([]any) {
		e.(map[string]any)["exercises"] = []any{id}
	}
}

func tellOnly(t *testing.T, result map[string]any, id string) {
	t.Helper()
	s := scenario(t, result, failover)
	s["verdicts"] = slices.DeleteFunc(s["verdicts"].([]any), func(v any) bool { return v.(map[string]any)["requirement"] != id })
}

// moved puts the failover's evidence elsewhere.
func moved(t *testing.T, run, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(run, filepath.Dir(to)), 0o755))
	require.NoError(t, os.Rename(filepath.Join(run, failover), filepath.Join(run, to)))
}

func forgeries() []forgery {
	return []forgery{
		{name: "a level more", says: "differs: level L2 is recorded, and the run was not out for it", code: exitViolated, result: func(_ *testing.T, r map[string]any) {
			for _, l := range []string{"L2", "L3", "L4"} {
				r["levels"] = append(r["levels"].([]any), map[string]any{"level": l, "passed": true, "why": "69 requirements held"})
			}
		}},
		{name: "a level is not told", says: "differs: level L1 is not recorded, and is passed", code: exitViolated, result: func(_ *testing.T, r map[string]any) {
			r["levels"] = r["levels"].([]any)[:1]
		}},
		{name: "no level is told", says: "differs: no level is recorded", code: exitViolated, result: func(_ *testing.T, r map[string]any) { delete(r, "levels") }},
		{name: "a level is not passed", says: "differs: level L1 is recorded as not passed, and is passed", code: exitViolated, result: func(t *testing.T, r map[string]any) { level(t, r, 1)["passed"] = false }},
		{name: "a level says more", says: `differs: level L0: recorded is "all of it"`, code: exitViolated, result: func(t *testing.T, r map[string]any) { level(t, r, 0)["why"] = "all of it" }},
		{name: "the run", says: "differs: the run is recorded as not passed, and is passed", code: exitViolated, result: func(_ *testing.T, r map[string]any) { r["passed"] = false }},
		{name: "a scenario's name", says: "differs: chain-3/no-fault/none: name is recorded as chain-3/no-fault/none, and is " + failover, code: exitViolated, result: func(t *testing.T, r map[string]any) {
			scenario(t, r, failover)["name"] = "chain-3/no-fault/none"
		}},
		{name: "a seed", says: "differs: " + failover + ": seed is recorded as 8, and is 7", code: exitViolated, result: func(t *testing.T, r map[string]any) { scenario(t, r, failover)["seed"] = "8" }},
		{name: "a profile", says: "differs: " + failover + ": profile is recorded as kip1279-latest, and is kip1279-v42", code: exitViolated, result: func(t *testing.T, r map[string]any) {
			scenario(t, r, failover)["profile"] = "kip1279-latest"
		}},
		{name: "a scenario passed", says: "differs: " + failover + ": passed is recorded as false, and is true", code: exitViolated, result: func(t *testing.T, r map[string]any) { scenario(t, r, failover)["passed"] = false }},
		{name: "a verdict", says: "differs: " + failover + ": BAR-1 is recorded as violated, and is held", code: exitViolated, result: func(t *testing.T, r map[string]any) {
			for _, v := range scenario(t, r, failover)["verdicts"].([]any) {
				if v := v.(map[string]any); v["requirement"] == "BAR-1" {
					v["outcome"] = "violated"
				}
			}
		}},
		{name: "a verdict less", says: "differs: " + failover + ": BAR-1 is not recorded, and is held", code: exitViolated, result: func(t *testing.T, r map[string]any) {
			s := scenario(t, r, failover)
			s["verdicts"] = but(s["verdicts"], "BAR-1")
		}},
		{name: "a scenario more, without verdicts", says: "differs: fan-out/no-fault/none: it has neither evidence nor verdicts", code: exitViolated, result: func(t *testing.T, r map[string]any) {
			r["scenarios"] = append(r["scenarios"].([]any), map[string]any{
				"name": "fan-out/no-fault/none", "seed": "7", "profile": "kip1279-v42", "evidence": "out/fan-out/no-fault/none", "passed": true, "verdicts": []any{},
			})
		}},
		{name: "a scenario more, with verdicts", says: "not judged anew: chain-3/no-fault/none: its evidence is not there", code: exitViolated, result: func(t *testing.T, r map[string]any) {
			r["scenarios"] = append(r["scenarios"].([]any), map[string]any{
				"name": "chain-3/no-fault/none", "seed": "7", "profile": "kip1279-v42", "evidence": "out/chain-3/no-fault/none", "passed": true,
				"verdicts": []any{map[string]any{"requirement": "CH-1", "outcome": "held", "reason": "seen"}},
			})
		}},
		{name: "a scenario twice", says: "tells twice of the evidence in " + failover, code: exitViolated, result: func(t *testing.T, r map[string]any) {
			r["scenarios"] = append(r["scenarios"].([]any), scenario(t, r, failover))
		}},
		{name: "a scenario less", says: "differs: " + failover + ": its evidence is there, and result.json does not tell of it", code: exitViolated, result: func(_ *testing.T, r map[string]any) {
			r["scenarios"] = slices.DeleteFunc(r["scenarios"].([]any), func(s any) bool { return s.(map[string]any)["name"] == failover })
		}},
		{name: "what can't be shown is held", says: "is recorded as held, and is not-applicable", code: exitViolated, result: func(t *testing.T, r map[string]any) { notShown(t, r)["outcome"] = "held" }},
		{name: "what can't be shown is less", says: "is not recorded, and is not-applicable", code: exitViolated, result: func(t *testing.T, r map[string]any) {
			s := scenario(t, r, "not played")
			s["verdicts"] = but(s["verdicts"], notShown(t, r)["requirement"].(string))
		}},
		{name: "what can be shown is said not to be", says: "differs: not played: BAR-1 is recorded as not-applicable, and is not judged", code: exitViolated, result: func(t *testing.T, r map[string]any) {
			s := scenario(t, r, "not played")
			s["verdicts"] = append(s["verdicts"].([]any), map[string]any{"requirement": "BAR-1", "outcome": "not-applicable", "reason": "so"})
		}},
		{name: "nothing is said not to be shown", says: "differs: not played: it is not recorded", code: exitViolated, result: func(_ *testing.T, r map[string]any) {
			r["scenarios"] = slices.DeleteFunc(r["scenarios"].([]any), func(s any) bool { return s.(map[string]any)["name"] == "not played" })
		}},
		{name: "no result", says: "not judged anew: there is no result.json", code: exitInconclusive, files: func(t *testing.T, run string) {
			require.NoError(t, os.Remove(filepath.Join(run, resultFile)))
		}},
		{name: "no target", says: "not judged anew: levels and what could not be played", code: exitInconclusive, files: func(t *testing.T, run string) {
			require.NoError(t, os.Remove(filepath.Join(run, "target.json")))
		}},
		{name: "a scenario's evidence is gone", says: "not judged anew: " + failover + ": its evidence is not there", code: exitInconclusive, files: func(t *testing.T, run string) {
			require.NoError(t, os.RemoveAll(filepath.Join(run, failover)))
		}},
		{name: "evidence in the folder of another", says: "it lies in the folder of scenario failback/no-fault/none", code: exitViolated, files: func(t *testing.T, run string) {
			moved(t, run, "failback/no-fault/none")
		}, result: func(t *testing.T, r map[string]any) { scenario(t, r, failover)["evidence"] = "failback/no-fault/none" }},
		{
			name: "a plan that asks for one requirement", says: failover + ": exercises lacks LOG-1, LOG-2", code: exitViolated,
			plan: func(_ *testing.T, p map[string]any) { askOnly(p, "BAR-1") }, result: func(t *testing.T, r map[string]any) { tellOnly(t, r, "BAR-1") },
		},
		{
			name: "and levels that are no more", says: failover + ": exercises lacks LOG-1, LOG-2", code: exitInconclusive,
			plan: func(_ *testing.T, p map[string]any) { askOnly(p, "BAR-1") },
			result: func(t *testing.T, r map[string]any) {
				tellOnly(t, r, "BAR-1")
				level(t, r, 1)["passed"], level(t, r, 1)["why"] = false, "not selected: LOG-1"
			},
		},
		{name: "a stop that asks for nothing", says: failover + ": episodes[0].exercises lacks ", code: exitInconclusive, plan: func(_ *testing.T, p map[string]any) {
			p["episodes"].([]any)[0].(map[string]any)["exercises"] = []any{}
		}},
		{name: "a topic less", says: failover + ": topics are not those of topology active-passive", code: exitInconclusive, plan: func(_ *testing.T, p map[string]any) {
			p["topics"] = append(p["topics"].([]any), map[string]any{"name": "more", "partitions": 1})
		}},
		{name: "what it can show", says: failover + ": notApplicable names BAR-1", code: exitViolated, plan: func(_ *testing.T, p map[string]any) {
			p["notApplicable"].(map[string]any)["BAR-1"] = "so"
		}},
		{name: "lower floors", says: failover + ": floors are lower", code: exitInconclusive, plan: func(_ *testing.T, p map[string]any) {
			p["floors"] = map[string]any{"before": 0, "during": 0, "after": 0}
		}},
		{name: "a plan of another scenario", says: failover + ": name is recorded as " + failover + ", and is chain-3/no-fault/none", code: exitViolated, plan: func(_ *testing.T, p map[string]any) {
			p["scenario"] = "chain-3/no-fault/none"
		}},
		{
			name: "a scenario of another version", says: "active-passive/of-tomorrow/none: this version has no scenario of that name", code: exitInconclusive,
			plan: func(_ *testing.T, p map[string]any) { p["scenario"] = "active-passive/of-tomorrow/none" },
			result: func(t *testing.T, r map[string]any) {
				s := scenario(t, r, failover)
				s["name"], s["evidence"] = "active-passive/of-tomorrow/none", "active-passive/of-tomorrow/none"
			},
			files: func(t *testing.T, run string) { moved(t, run, "active-passive/of-tomorrow/none") },
		},
	}
}

// judged packs the forged run and has it judged.
func (f forgery) judged(t *testing.T, run string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.CopyFS(dir, os.DirFS(run)))
	for file, change := range map[string]func(*testing.T, map[string]any){resultFile: f.result, filepath.Join(failover, "run.json"): f.plan} {
		if change != nil {
			rewrite(t, filepath.Join(dir, file), change)
		}
	}
	if f.files != nil {
		f.files(t, dir)
	}
	archive, _, err := bundle.Write(dir, t.TempDir(), bundle.Options{Product: "x", Time: time.Now(), Tool: buildVersion()})
	require.NoError(t, err)
	code, out, errs := called(t, "judge", archive)
	require.Contains(t, out, f.says, errs)
	require.Equal(t, f.code, code, "%s\n%s", out, errs)
}

func rewrite(t *testing.T, file string, change func(*testing.T, map[string]any)) {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&all))
	change(t, all)
	raw, err = json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, raw, 0o600))
}
