package check

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// save writes a world as an evidence folder.
func (w *world) save(t testing.TB) string {
	dir := t.TempDir()
	require.NoError(t, w.run.Save(filepath.Join(dir, RunFile)))
	h, err := history.Create(filepath.Join(dir, HistoryFile), w.run.Scenario, w.run.Seed)
	require.NoError(t, err)
	for i, e := range w.events {
		e.At = int64(time.Duration(i+1) * time.Millisecond)
		_, err := h.Append(e)
		require.NoError(t, err)
	}
	require.NoError(t, h.Close())
	for _, l := range []struct {
		cluster, topic string
		log            []spec
	}{{"A", "t", w.a}, {"A", "e", nil}, {"B", "t", w.b}, {"B", "e", w.be}} {
		d := filepath.Join(dir, LogDir(l.cluster, 1, l.topic, 0))
		require.NoError(t, os.MkdirAll(d, 0o755))
		var data []byte
		for _, s := range l.log {
			data = append(data, s.encode()...)
		}
		require.NoError(t, os.WriteFile(filepath.Join(d, "00000000000000000000.log"), data, 0o644))
	}
	return dir
}

func TestSavedEvidenceIsJudgedAsItWas(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"good": func(*world) {},
		"bad":  func(w *world) { at(w.b, 7).payload = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(0)
			spoil(w)
			dir := w.save(t)
			ev, err := Load(dir)
			require.NoError(t, err)
			live := w.evidence(t)
			require.Equal(t, live.Run, ev.Run)
			_, events, err := history.ReadFile(filepath.Join(dir, HistoryFile))
			require.NoError(t, err)
			require.Equal(t, live.Events, events)
			want := All(live)
			live.Dir = dir
			for i, v := range All(ev) {
				require.Equal(t, want[i].Outcome, v.Outcome, v.Requirement)
				require.Equal(t, want[i].Reason, v.Reason)
				for _, f := range v.Findings {
					require.FileExists(t, f.Evidence)
				}
			}
		})
	}
}

// save writes a saga as an evidence folder.
func (s *saga) save(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, s.run.Save(filepath.Join(dir, RunFile)))
	h, err := history.Create(filepath.Join(dir, HistoryFile), s.run.Scenario, s.run.Seed)
	require.NoError(t, err)
	for _, e := range s.events {
		_, err := h.Append(e)
		require.NoError(t, err)
	}
	require.NoError(t, h.Close())
	write := func(path string, data []byte) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), data, 0o644))
	}
	ev := s.evidence(t)
	all := ev.Replicas
	for _, captured := range ev.Captured {
		all = append(all, captured...)
	}
	for _, r := range all {
		var data []byte
		for _, b := range r.Batches {
			data = append(data, b.Raw...)
		}
		write(filepath.Join(r.Dir, "00000000000000000000.log"), data)
	}
	for _, d := range s.dumps {
		write(d.Path, []byte(d.Text))
	}
	return dir
}

func TestSavedEpisodesAreJudgedAsTheyWere(t *testing.T) {
	for _, name := range []string{"failback", "chain"} {
		for _, spoil := range []func(*saga){
			func(*saga) {},
			func(s *saga) { s.captured(2, s.legs[2].dst, "t", 7).payload = "another" },
			func(s *saga) { s.redump(2, "e", "MirrorPidReset", "7") },
		} {
			s := shapes[name](nil).declareSamples(name)
			spoil(s)
			dir := s.save(t)
			ev, err := Load(dir)
			require.NoError(t, err)
			want := All(s.evidence(t))
			for i, v := range All(ev) {
				require.Equal(t, want[i].Outcome, v.Outcome, v.Requirement)
				require.Equal(t, want[i].Reason, v.Reason)
				for _, f := range v.Findings {
					require.FileExists(t, f.Evidence)
				}
			}
		}
	}
}

func TestATornTailIsAFindingUnlessItsBrokerWasKilled(t *testing.T) {
	require.Equal(t, Violated, tornTail(t, newWorld(0)))
	w := newWorld(0)
	w.add(history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 1, What: history.NodeKilled}})
	require.Equal(t, Held, tornTail(t, w))
	w.add(history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 1, What: history.NodeStarted}})
	require.Equal(t, Violated, tornTail(t, w))
}

// tornTail judges LOG-3 of a world whose log of t-0 on B ends within a batch.
func tornTail(t *testing.T, w *world) Outcome {
	dir := w.save(t)
	path := filepath.Join(dir, LogDir("B", 1, "t", 0), "00000000000000000000.log")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, data[:80]...), 0o644))
	ev, err := Load(dir)
	require.NoError(t, err)
	for _, v := range All(ev) {
		if v.Requirement != "LOG-3" {
			continue
		}
		for _, f := range v.Findings {
			require.Equal(t, BadBytes, f.Anomaly)
			require.Equal(t, int64(23), f.Offset)
		}
		return v.Outcome
	}
	return ""
}

func TestLoadNamesWhatIsBad(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string
	}{
		"no run":          {func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, RunFile))) }, "run.json"},
		"no history":      {func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, HistoryFile))) }, "history.jsonl"},
		"run is torn":     {func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, RunFile), 20)) }, "run.json"},
		"history is torn": {func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, HistoryFile), 200)) }, "torn"},
		"other version": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"version":9}`), 0o644))
		}, "version 9"},
		"unknown field": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"version":1,"zz":9}`), 0o644))
		}, "zz"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newWorld(0).save(t)
			tc.spoil(t, dir)
			_, err := Load(dir)
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// A plan may be somebody else's: it leads nowhere out of its folder, and has no more
// looked for there than a run has.
func TestAPlanStaysWithinItsFolder(t *testing.T) {
	folder := newWorld(0).save(t)
	outside := filepath.Join(filepath.Dir(folder), "outside")
	require.NoError(t, os.CopyFS(outside, os.DirFS(filepath.Join(folder, LogsDir))))
	good, err := Load(folder)
	require.NoError(t, err)
	require.NoError(t, good.Close())
	many := slices.Repeat([]Episode{{Mirror: "m", Logs: "episodes/1"}}, 20_000)
	for i := range many {
		many[i].Number = int32(i + 1)
	}
	for _, tc := range []struct {
		name  string
		spoil func(*Run)
		says  string
	}{
		{"logs beside it", func(r *Run) { r.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: "../outside"}} }, `episodes[0].logs "../outside": want a folder within`},
		{"logs far away", func(r *Run) { r.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: "logs/../../../outside"}} }, "episodes[0].logs"},
		{"logs anywhere", func(r *Run) { r.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: outside}} }, "episodes[0].logs"},
		{"logs of another system", func(r *Run) { r.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: `..\outside`}} }, "episodes[0].logs"},
		{"a cluster that is a way", func(r *Run) { r.Clusters[0].Name = "../A" }, `clusters[0].name "../A"`},
		{"a cluster that is the folder above", func(r *Run) { r.Clusters[0].Name = ".." }, `clusters[0].name ".."`},
		{"a cluster twice", func(r *Run) { r.Clusters[1].Name = r.Clusters[0].Name }, `clusters[1].name "A": it is there twice`},
		{"a node that is none", func(r *Run) { r.Clusters[0].Nodes = []int32{-1} }, "clusters[0].nodes[0] -1"},
		{"a node again and again", func(r *Run) { r.Clusters[0].Nodes = []int32{1, 1} }, "clusters[0].nodes[1] 1"},
		{"a topic that is a way", func(r *Run) { r.Topics[0].Name = "a/../../t" }, `topics[0].name "a/../../t"`},
		{"a topic without a name", func(r *Run) { r.Topics[0].Name = "" }, `topics[0].name ""`},
		{"a topic with too long a name", func(r *Run) { r.Topics[0].Name = strings.Repeat("t", 250) }, "topics[0].name"},
		{"a topic twice", func(r *Run) { r.Topics[1].Name = r.Topics[0].Name }, `topics[1].name "t": it is there twice`},
		{"partitions without end", func(r *Run) { r.Topics[0].Partitions = math.MaxInt32 }, "topics[0].partitions 2147483647: want 1 to 100000"},
		{"no partition", func(r *Run) { r.Topics[0].Partitions = 0 }, "topics[0].partitions 0"},
		{"logs without end", func(r *Run) { r.Topics[0].Partitions, r.Episodes = 1000, many }, "logs, want at most 1048576"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run := good.Run
			run.Clusters, run.Topics = slices.Clone(run.Clusters), slices.Clone(run.Topics)
			tc.spoil(&run)
			data, err := json.Marshal(run)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(folder, RunFile), data, 0o644))
			_, err = Load(folder)
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, filepath.Join(folder, RunFile))
		})
	}
}

func TestRunValidate(t *testing.T) {
	good := newWorld(0).run
	for name, spoil := range map[string]func(*Run){
		"profile": func(r *Run) { r.Profile = "x" },
		"id":      func(r *Run) { r.Clusters = []Cluster{{Name: "A"}} },
		"edge":    func(r *Run) { r.Edges = []Edge{{Source: "A", Destination: "C"}} },
		"topic":   func(r *Run) { r.Edges = []Edge{{Source: "A", Destination: "B", Topics: []string{"zz"}}} },
	} {
		r := good
		spoil(&r)
		require.Error(t, r.Validate(), name)
		require.Error(t, r.Save(filepath.Join(t.TempDir(), RunFile)), name)
	}
	require.Error(t, good.Save(filepath.Join(t.TempDir(), "no", "folder")))
}
