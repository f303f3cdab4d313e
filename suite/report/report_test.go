package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/suite/check"
)

const nasty = "zero \x00 vt \x0b esc \x1b[31m ff \xff cdata ]]> emoji \U0001F600\nsecond line <&>\"'"

func sample() *Result {
	run := check.Run{
		Scenario: "active-passive/partition-both/before:truncated", Seed: 9007199254740993, Profile: check.ProfileV42,
		Command: "go test ./suite -run 'TestScenarios/active-passive' -seed 9007199254740993",
	}
	return &Result{Scenarios: []Scenario{
		{
			Run: run, Evidence: "out/latest/one", Duration: 1500 * time.Millisecond, Started: time.Unix(1, 0),
			Verdicts: []check.Verdict{
				{Requirement: "AP-1", Outcome: check.Violated, Reason: "BAR-3", Findings: []check.Finding{{Anomaly: check.LateBytes}}},
				{Requirement: "BAR-1", Outcome: check.Held, Reason: "one barrier in 2 partitions"},
				{Requirement: "BAR-3", Outcome: check.Violated, Reason: "late bytes: " + nasty, Findings: []check.Finding{{
					Anomaly: check.LateBytes, Episode: 2, Mirror: "a-to-b", Cluster: "B", Node: 1, Topic: "t", Partition: 0, Offset: 9223372036854775806,
					Batch: "pid 9007199254740993 " + nasty, Around: []string{"  [1..1] data", "> [2..2] data " + nasty, "  [3..3] data"},
					Expected: "nothing of cluster A after the barrier", Got: "timestamp -1", Evidence: "out/latest/one/logs/B/1/t-0/0.log",
				}}},
				{Requirement: "LINK-1", Outcome: check.Inconclusive, Reason: "no fetch response was held"},
				{Requirement: "LOG-4", Outcome: check.NotApplicable, Reason: "one replica"},
			},
		},
		{Run: run, Evidence: "out/latest/two", Verdicts: []check.Verdict{{Requirement: "BAR-3", Outcome: check.Held, Reason: "12 barriers"}}},
	}}
}

// strictXML holds data to XML 1.0, characters included.
func strictXML(t require.TestingT, data []byte) {
	require.True(t, utf8.Valid(data))
	for _, r := range string(data) {
		allowed := r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000
		require.True(t, allowed, "character %U", r)
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	d.Strict = true
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

// FA-23: what messages hold does not break the file.
func TestJUnitIsStrictXMLWhateverTheMessagesHold(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, JUnit(&out, sample()))
	strictXML(t, out.Bytes())
	var back junitSuites
	require.NoError(t, xml.Unmarshal(out.Bytes(), &back))
	require.Equal(t, []int{6, 3, 0, 1}, []int{back.Tests, back.Failures, back.Errors, back.Skipped})
	failure := back.Suites[0].Cases[2].Failure
	require.Equal(t, "violated", failure.Type)
	require.Contains(t, failure.Message, `zero \x00 vt \x0B esc \x1B[31m ff \xFF cdata ]]> emoji `+"\U0001F600\nsecond line <&>\"'")
	require.Contains(t, failure.Text, "9223372036854775806")
	require.Contains(t, failure.Text, "\n    > ", "newlines are kept")
	require.Equal(t, "inconclusive", back.Suites[0].Cases[3].Failure.Type)
	require.Equal(t, "1.500", back.Suites[0].Time)
}

func TestJUnitIsValidForAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := func(label string) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, label)) }
		r := &Result{Scenarios: []Scenario{{
			Run: check.Run{Scenario: any("name"), Command: any("command")}, Trouble: any("trouble"),
			Verdicts: []check.Verdict{{Requirement: any("id"), Outcome: check.Violated, Reason: any("reason"), Findings: []check.Finding{{Got: any("got"), Around: []string{any("around")}}}}},
		}}}
		var x, j, s bytes.Buffer
		require.NoError(t, JUnit(&x, r))
		strictXML(t, x.Bytes())
		require.NoError(t, JSON(&j, r))
		require.True(t, json.Valid(j.Bytes()))
		require.NoError(t, Story(&s, &r.Scenarios[0], 80))
		require.True(t, utf8.Valid(s.Bytes()))
		require.NotContains(t, s.String(), "\x1b")
	})
}

// A reader that holds numbers as doubles sees every 64-bit number exactly.
func TestJSONKeeps64BitNumbers(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, JSON(&out, sample()))
	var doubles map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &doubles))
	scenario := doubles["scenarios"].([]any)[0].(map[string]any)
	require.Equal(t, "9007199254740993", scenario["seed"])
	finding := scenario["verdicts"].([]any)[2].(map[string]any)["findings"].([]any)[0].(map[string]any)
	require.Equal(t, "9223372036854775806", finding["offset"])
	require.Contains(t, finding["batch"], "pid 9007199254740993")
	require.Equal(t, "timestamp -1", finding["got"])
	require.InDelta(t, 2.0, finding["episode"], 0)
	require.Equal(t, "a-to-b", finding["mirror"])
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case float64:
			require.Less(t, math.Abs(v), 1e9)
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(doubles)
	require.Equal(t, false, doubles["passed"])
	require.InDelta(t, float64(JSONVersion), doubles["version"], 0)
}

func TestStoryTellsEverythingNeeded(t *testing.T) {
	r := sample()
	var out bytes.Buffer
	require.NoError(t, Story(&out, &r.Scenarios[0], 100))
	story := out.String()
	for _, part := range []string{
		"FAILED  active-passive/partition-both/before:truncated",
		"BAR-3 VIOLATED", "Position: at L (v42)", "late bytes", "partition t-0 on cluster B, node 1, offset 9223372036854775806", "  episode   2, a stop of mirror a-to-b",
		"nothing of cluster A after the barrier", "pid 9007199254740993", "> [2..2] data", "out/latest/one/logs/B/1/t-0/0.log",
		"LINK-1 INCONCLUSIVE", "no fetch response was held", "AP-1 VIOLATED",
		"again:    go test ./suite -run 'TestScenarios/active-passive' -seed 9007199254740993",
	} {
		require.Contains(t, story, part)
	}
	out.Reset()
	require.NoError(t, Story(&out, &r.Scenarios[1], 100))
	require.Empty(t, out.String(), "a scenario that passed has no story")
}

func TestTableFitsTheTerminal(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		var out bytes.Buffer
		require.NoError(t, Table(&out, sample(), width))
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, line)
		}
		require.Contains(t, out.String(), "BAR-3   VIOLATED       1/2")
		require.Contains(t, out.String(), "LINK-1  INCONCLUSIVE   0/1")
		require.Contains(t, out.String(), "BAR-1   held           1/1")
		require.Contains(t, out.String(), "FAILED: 2 scenarios")
	}
	order := []string{}
	for _, row := range sample().Rows() {
		order = append(order, row.Requirement)
	}
	require.Equal(t, []string{"LOG-4", "BAR-1", "BAR-3", "LINK-1", "AP-1"}, order)
}

func TestPassed(t *testing.T) {
	held := []check.Verdict{{Outcome: check.Held}}
	require.True(t, (&Result{Scenarios: []Scenario{{Verdicts: held}}}).Passed())
	for name, s := range map[string]Scenario{
		"nothing judged": {},
		"trouble":        {Verdicts: held, Trouble: "x"},
		"inconclusive":   {Verdicts: []check.Verdict{{Outcome: check.Inconclusive}}},
		"violated":       {Verdicts: []check.Verdict{{Outcome: check.Violated}}},
		"no outcome":     {Verdicts: []check.Verdict{{}}},
	} {
		require.False(t, s.Passed(), name)
	}
	require.False(t, (&Result{}).Passed())
}

type fullDisk struct{ left int }

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

func TestWriteErrorsAreReturned(t *testing.T) {
	r := sample()
	for name, write := range map[string]func(io.Writer) error{
		"table": func(w io.Writer) error { return Table(w, r, 80) },
		"story": func(w io.Writer) error { return Story(w, &r.Scenarios[0], 80) },
		"junit": func(w io.Writer) error { return JUnit(w, r) },
		"json":  func(w io.Writer) error { return JSON(w, r) },
	} {
		require.ErrorContains(t, write(&fullDisk{}), "no space", name)
		require.ErrorContains(t, write(&fullDisk{left: 100}), "no space", name)
	}
	dir := t.TempDir()
	for name, save := range map[string]func(string, *Result) error{"junit.xml": SaveJUnit, "result.json": SaveJSON} {
		require.NoError(t, save(filepath.Join(dir, name), r))
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NotEmpty(t, data)
		require.Error(t, save(filepath.Join(dir, "missing", name), r))
	}
}
