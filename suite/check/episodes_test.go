package check

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

const (
	idC = "CcCdEfGhIjKlMnOpQrStUv"
	idD = "DdCdEfGhIjKlMnOpQrStUv"
)

// renamed is w with clusters C and D in place of A and B, and another mirror.
var renamed = strings.NewReplacer(
	`"cluster":"A"`, `"cluster":"C"`, `"cluster":"B"`, `"cluster":"D"`,
	`"source":"A"`, `"source":"C"`, `"destination":"B"`, `"destination":"D"`,
	`"name":"A"`, `"name":"C"`, `"name":"B"`, `"name":"D"`,
	`"mirror":"m"`, `"mirror":"n"`, "ws1/A/", "ws1/C/", "ws1/B/", "ws1/D/",
	`A->B`, `C->D`, `A-\u003eB`, `C-\u003eD`, idA, idC, idB, idD, `"id":"f1"`, `"id":"f2"`,
)

func rename[T any](t testing.TB, v *T) {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var out T
	require.NoError(t, json.Unmarshal([]byte(renamed.Replace(string(data))), &out))
	*v = out
}

func (w *world) rename(t testing.TB) {
	rename(t, &w.run)
	for i := range w.events {
		rename(t, &w.events[i])
	}
	for _, log := range [][]spec{w.a, w.b, w.be} {
		for i := range log {
			s := &log[i]
			s.tags = slices.Clone(s.tags)
			for k := range s.tags {
				s.tags[k].Cluster = renamed.Replace(`"cluster":"` + s.tags[k].Cluster + `"`)[11:12]
			}
			s.value = bytes.ReplaceAll(bytes.ReplaceAll(s.value, []byte(idA), []byte(idC)), []byte(idB), []byte(idD))
		}
	}
}

// together makes one run of two: A to B in episode 1 and C to D in episode 2.
// They follow each other, or happen at the same time.
func together(t testing.TB, one, two *world, atOnce bool) *Evidence {
	two.rename(t)
	first, second := one.evidence(t), two.evidence(t)
	for _, r := range second.Replicas {
		r.Cluster = map[string]string{"A": "C", "B": "D"}[r.Cluster]
		r.Dir = LogDirIn(EpisodeDir(2), r.Cluster, 1, r.Topic, 0)
	}
	for _, r := range first.Replicas {
		r.Dir = LogDirIn(EpisodeDir(1), r.Cluster, 1, r.Topic, 0)
	}
	ev := &Evidence{Run: one.run, Captured: map[int32][]*Replica{1: first.Replicas, 2: second.Replicas}}
	ev.Run.Clusters = append(slices.Clone(one.run.Clusters), two.run.Clusters...)
	ev.Run.Edges = append(slices.Clone(one.run.Edges), two.run.Edges...)
	ev.Run.Faults = append(slices.Clone(one.run.Faults), two.run.Faults...)
	ev.Run.Faults[0].Episode, ev.Run.Faults[1].Episode = 1, 2
	ev.Run.Episodes = []Episode{
		{Number: 1, Mirror: "m", Logs: EpisodeDir(1), Exercises: one.run.Exercises},
		{Number: 2, Mirror: "n", Logs: EpisodeDir(2), Exercises: two.run.Exercises},
	}
	require.NoError(t, ev.Run.Validate())
	add := func(e history.Event, episode int32) {
		e.Episode = episode
		if e.Op > 0 {
			e.Op = 2*e.Op + int64(episode)
		}
		e.Seq = int64(len(ev.Events) + 1)
		e.At = e.Seq * 1_000_000
		ev.Events = append(ev.Events, e)
	}
	n := max(len(first.Events), len(second.Events))
	for i := range n {
		if i < len(first.Events) {
			add(first.Events[i], 1)
		}
		if atOnce && i < len(second.Events) {
			add(second.Events[i], 2)
		}
	}
	for i := range second.Events {
		if !atOnce {
			add(second.Events[i], 2)
		}
	}
	return ev
}

func judged(ev *Evidence) map[string]Verdict {
	byID := map[string]Verdict{}
	for _, v := range All(ev) {
		byID[v.Requirement] = v
	}
	return byID
}

func TestEpisodesThatAreGoodHoldEverything(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		got := judged(together(t, newWorld(0), newWorld(0), atOnce))
		for _, c := range checks {
			v := got[c.id]
			require.Equal(t, Held, v.Outcome, "%s: %s %v", c.id, v.Reason, v.Findings)
			require.Contains(t, v.Reason, "episode 1 (m): ")
			require.Contains(t, v.Reason, "; episode 2 (n): ")
		}
		require.Equal(t, NotApplicable, got["AP-1"].Outcome)
	}
}

// Whatever is wrong in one episode is found, and is not laid to the other.
func TestEachEpisodeAnswersForItself(t *testing.T) {
	for _, tc := range badRuns {
		if tc.name == "the stop took too long" {
			continue // its times are those of the run by itself
		}
		if tc.name == "a reader asks without a pause" {
			continue
		}
		for bad := int32(1); bad <= 2; bad++ {
			for _, atOnce := range []bool{false, true} {
				worlds := []*world{newWorld(0), newWorld(0)}
				worlds[bad-1] = newWorld(tc.keep)
				tc.spoil(t, worlds[bad-1])
				got := judged(together(t, worlds[0], worlds[1], atOnce))
				var violated []string
				for id, v := range got {
					if v.Outcome != Violated {
						continue
					}
					violated = append(violated, id)
					for _, f := range v.Findings {
						require.Equal(t, bad, f.Episode, "%s %s: %v", tc.id, tc.name, f)
						require.Equal(t, []string{"m", "n"}[bad-1], f.Mirror)
						require.Contains(t, f.String(), "episode ")
					}
				}
				require.ElementsMatch(t, append([]string{tc.id}, tc.also...), violated, "%s %s in episode %d", tc.id, tc.name, bad)
				if f := got[tc.id].Findings[0]; f.Offset >= 0 && !strings.Contains(f.Evidence, HistoryFile) {
					require.Contains(t, f.Evidence, LogDirIn(EpisodeDir(bad), []string{"B", "D"}[bad-1], 1, f.Topic, 0))
				}
			}
		}
	}
}

// What one episode did not exercise is inconclusive where it declares that, and
// only there.
func TestWhatAnEpisodeDidNotExerciseIsInconclusive(t *testing.T) {
	for _, tc := range vacuousRuns {
		if tc.id == "AP-1" || strings.Contains(tc.says, "floor") || tc.says == "split writer" || tc.says == "profile" || strings.Contains(tc.says, "no partition was empty") {
			continue // they are about the whole run's plan
		}
		one, two := newWorld(0), newWorld(0)
		tc.spoil(t, two)
		ev := together(t, one, two, false)
		v := judged(ev)[tc.id]
		require.Equal(t, Inconclusive, v.Outcome, "%s %s: %s %v", tc.id, tc.says, v.Reason, v.Findings)
		require.Contains(t, v.Reason, "episode 2 (n): ")
		require.NotContains(t, v.Reason, "episode 1 (m): ")
		require.Contains(t, v.Reason, tc.says)

		ev.Run.Episodes[1].Exercises = slices.DeleteFunc(slices.Clone(ev.Run.Episodes[1].Exercises), func(id string) bool { return id == tc.id })
		v = judged(ev)[tc.id]
		require.Equal(t, Held, v.Outcome, "%s %s: %s %v", tc.id, tc.says, v.Reason, v.Findings)
	}
}

func TestADeclarationOfTheRunNeedsOneEpisode(t *testing.T) {
	one, two := newWorld(0), newWorld(0)
	withoutCollision(history.LowerEpoch)(t, two)
	ev := together(t, one, two, false)
	for i := range ev.Run.Episodes {
		ev.Run.Episodes[i].Exercises = nil
	}
	require.Equal(t, Held, judged(ev)["IDEM-2"].Outcome)
	withoutCollision(history.LowerEpoch)(t, one)
	ev.Events = slices.DeleteFunc(ev.Events, func(e history.Event) bool {
		return e.Produce != nil && e.Produce.Collision == history.LowerEpoch
	})
	v := judged(ev)["IDEM-2"]
	require.Equal(t, Inconclusive, v.Outcome)
	require.Contains(t, v.Reason, "no episode exercised it")
}

// A run that broke off amid the stop of a chain's middle leaves a log there that
// was cut since the end of the chain mirrored it.
func TestARunThatBrokeOffAmidAStopUpstreamIsNotHeldAgainstTheOneBelow(t *testing.T) {
	s := shapes["chain"](nil)
	k := slices.IndexFunc(s.events, func(e history.Event) bool {
		return e.Episode == 1 && e.Phase != nil && e.Phase.Name == history.StopRequested
	})
	require.Positive(t, k)
	request, epoch := s.events[k], int32(0)
	s.events = s.events[:k]
	s.ep = 2
	// The end of the chain as it was: as long as the source, and shown to a reader.
	s.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: "C", Node: 1, Topic: "t", HighWatermark: 13, LastStableOffset: 13, LogEndOffset: 13, LeaderEpoch: &epoch}})
	tag := at(s.logs["A"]["t"], 12).tags[0]
	s.add(history.Event{Kind: history.KindRead, Read: &history.Observed{Reader: "early", Cluster: "C", Topic: "t", Isolation: history.ReadCommitted, Offset: 12, Tag: tag.String()}})
	s.events = append(s.events, request)
	got := judged(s.evidence(t))
	for _, id := range []string{"LOG-5", "TXN-2", "PSM-4", "PSM-5"} {
		require.NotEqual(t, Violated, got[id].Outcome, "%s: %v", id, got[id].Findings)
	}
}
