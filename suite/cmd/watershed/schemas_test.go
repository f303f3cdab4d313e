package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/target"
	"watershed.example/suite/bundle"
	"watershed.example/suite/check"
	"watershed.example/suite/engine"
	"watershed.example/suite/postmortem"
	"watershed.example/suite/report"
)

// valid holds JSON to one of the published schemas, and says why it is not valid.
func valid(t *testing.T, schema string, data []byte) error {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(filepath.Join("../../../docs/schemas", schema+".schema.json"))
	require.NoError(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	return s.Validate(v)
}

// samples are files of each kind, with all their fields.
func samples(t *testing.T) map[string][]byte {
	t.Helper()
	var result, files bytes.Buffer
	require.NoError(t, report.JSON(&result, &report.Result{
		Launcher: "process: no Docker", Levels: []report.Standing{{Passed: true, Why: "all"}},
		Scenarios: []report.Scenario{{
			Run:      check.Run{Scenario: "s", Seed: 1 << 63, Profile: check.ProfileV42, Command: "again", Launcher: "process", Defects: []string{"d"}},
			Evidence: "out/s", Started: time.Unix(1, 5), Duration: time.Second, Trouble: "none", Accepted: map[string]string{"SC-1": "known"},
			Verdicts: []check.Verdict{
				{Requirement: "SC-1", Outcome: check.Violated, Reason: "r", Findings: []check.Finding{{
					Anomaly: check.LateBytes, Episode: 1, Mirror: "m", Cluster: "A", Node: 1, Topic: "t", Offset: 1 << 62, Batch: "b", Around: []string{"x"}, Expected: "e", Got: "g", Evidence: "f",
				}}},
				{Requirement: "SC-2", Outcome: check.Held},
				{Requirement: "SC-3", Outcome: check.Inconclusive},
				{Requirement: "SC-4", Outcome: check.NotApplicable},
			},
		}},
	}))
	r, err := postmortem.Judge(t.Context(), []postmortem.Side{
		{Name: "A", Folders: []string{realSegments + "/A"}}, {Name: "B", Folders: []string{realSegments + "/B"}},
	}, postmortem.Options{})
	require.NoError(t, err)
	require.NotEmpty(t, r.Findings)
	require.NoError(t, r.JSON(&files))
	replay, err := engine.Replay{
		Case: engine.Case{Seed: 1 << 63, Topology: "active-passive", Nodes: 1, Profile: check.ProfileV42, Defects: []string{"no-barrier"}}, Launcher: "process", Requirement: "BAR-1", Seen: 1, Tries: 2,
	}.Encode()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "x.txt"), []byte("password=x"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "large"), []byte("xx"), 0o600))
	file, _, err := bundle.Write(folder, t.TempDir(), bundle.Options{Product: "p", Time: time.Now(), Facts: map[string]string{"a": "b"}, MaxFile: 1})
	require.NoError(t, err)
	into := t.TempDir()
	_, err = bundle.Open(file, into)
	require.NoError(t, err)
	manifest, err := os.ReadFile(filepath.Join(into, bundle.ManifestFile))
	require.NoError(t, err)
	certified, err := json.MarshalIndent(engine.Found{
		Version: 1, Seed: 1 << 63, Asked: "L1", Chosen: true,
		Target: target.Described{
			Product: "p", Profile: string(check.ProfileV42), Prefix: "ws-", Level: "L4", Faults: []string{"kill"},
			Clusters: []target.DescribedCluster{{
				Name: "east", Bootstrap: []string{"h:1"}, TLS: &target.DescribedTLS{CA: true, ServerName: "s"}, SASL: "PLAIN", Nodes: []string{"kill", "start"},
				Source: target.DescribedSource{Bootstrap: []string{"h:2"}, Config: map[string]string{"a": target.Untold}, Proxies: "toxiproxy"},
			}},
			Mirroring: &target.DescribedMirroring{Adapter: target.Command, Commands: []string{"stop"}, Config: map[string]string{"b": "1"}},
		},
		Clusters: []engine.FoundCluster{{
			Name: "east", ID: "id", Brokers: []engine.FoundBroker{{ID: 1, Address: "h:1"}}, Features: map[string]int16{"metadata.version": 29}, Requests: []int16{0, 1},
		}},
	}, "", "  ")
	require.NoError(t, err)
	return map[string][]byte{"result": result.Bytes(), "postmortem": files.Bytes(), "replay": replay, "bundle": manifest, "certified": certified}
}

func TestWhatIsWrittenIsAsItsSchemaSays(t *testing.T) {
	for name, data := range samples(t) {
		require.NoError(t, valid(t, name, data), name)
		// A schema that takes anything is none.
		for _, change := range [][2]string{{`"version": 1`, `"version": 2`}, {"{\n", "{\n\"unheard\": 1,\n"}} {
			bad := strings.Replace(string(data), change[0], change[1], 1)
			require.NotEqual(t, bad, string(data), name)
			require.Error(t, valid(t, name, []byte(bad)), name)
		}
	}
	real, err := os.ReadFile("../../postmortem/testdata/kip1279.json")
	require.NoError(t, err)
	require.NoError(t, valid(t, "postmortem", real))
	require.Error(t, valid(t, "postmortem", bytes.Replace(real, []byte(`"nextOffset": "12"`), []byte(`"nextOffset": 12`), 1)), "64 bits are strings")
}
