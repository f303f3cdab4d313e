package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/check"
	"watershed.example/suite/engine/explore"
)

// fakeRuns are a search whose plays take ten seconds of a clock of their own, and show
// what shows says.
type fakeRuns struct {
	now    time.Time
	played []Case
	said   []string
	shows  func(Case) (features []string, word check.Outcome, err error)
}

func (f *fakeRuns) exploring(folder string) Exploring {
	features := map[*Result][]string{}
	return Exploring{
		Seed: 7, Profile: check.ProfileV42, Limit: 5 * time.Minute, Corpus: Corpus{Folder: folder},
		Now: func() time.Time { return f.now },
		Play: func(_ context.Context, _ int, c Case) (*Result, error) {
			f.now = f.now.Add(10 * time.Second)
			f.played = append(f.played, c)
			shown, outcome, err := f.shows(c)
			res := &Result{Name: "x", Verdicts: []check.Verdict{{Requirement: "BAR-1", Outcome: outcome}}}
			features[res] = shown
			return res, err
		},
		Features: func(r *Result) ([]string, error) { return features[r], nil },
		Violated: func(c Case, _ *Result) { f.said = append(f.said, "VIOLATED "+c.key()) },
		Say:      func(format string, args ...any) { f.said = append(f.said, fmt.Sprintf(format, args...)) },
	}
}

// topologyAndFaults is what a play shows whose runs do just what their plans say.
func topologyAndFaults(c Case) []string {
	all := []string{c.Topology}
	for _, f := range c.list() {
		if f.link != nil {
			all = append(all, string(f.link.Kind))
		} else {
			all = append(all, string(f.node.Act))
		}
	}
	return all
}

func TestASearchKeepsWhatIsNewAndGoesOnFromIt(t *testing.T) {
	folder := t.TempDir()
	f := &fakeRuns{shows: func(c Case) ([]string, check.Outcome, error) { return topologyAndFaults(c), check.Held, nil }}
	got, err := Explore(t.Context(), f.exploring(folder))
	require.NoError(t, err)
	require.Equal(t, 30, got.Played, "a play takes ten seconds of five minutes")
	require.Equal(t, "the time is up", got.Why)
	require.Equal(t, 5*time.Minute, got.Took)
	corpus, err := LoadCorpus(folder)
	require.NoError(t, err)
	require.Len(t, corpus.Entries, got.Entries)
	features := map[string]bool{}
	for _, e := range corpus.Entries {
		require.True(t, slices.ContainsFunc(f.played, func(c Case) bool { return c.key() == e.Case.key() }))
		for _, first := range e.First {
			require.False(t, features[first], "%s is new twice", first)
			features[first] = true
		}
	}
	require.Len(t, features, got.Features)
	require.Equal(t, got.Features, got.Known)
	told := strings.Join(f.said, "\n")
	for _, e := range corpus.Entries {
		require.Contains(t, told, "new: "+e.Case.key()+": "+strings.Join(e.First, "; "))
	}
	for _, row := range []string{"played             30", "could not run       0", "new entries", "corpus: " + folder} {
		require.Contains(t, got.String(), row)
	}

	// The same again, from the same beginning; and on from what was kept.
	same := &fakeRuns{shows: f.shows}
	_, err = Explore(t.Context(), same.exploring(t.TempDir()))
	require.NoError(t, err)
	require.Equal(t, f.played, same.played)
	more := &fakeRuns{shows: f.shows}
	x := more.exploring(folder)
	x.Corpus = corpus
	after, err := Explore(t.Context(), x)
	require.NoError(t, err)
	for _, c := range more.played {
		require.False(t, slices.ContainsFunc(corpus.Entries, func(e explore.Entry[Case]) bool { return e.Case.key() == c.key() }), "played again: %s", c.key())
	}
	require.Equal(t, got.Known+after.Features, after.Known)
}

func TestASearchTellsWhatIsNoGoodPlay(t *testing.T) {
	n := 0
	f := &fakeRuns{shows: func(Case) ([]string, check.Outcome, error) {
		n++
		switch n % 4 {
		case 1:
			return []string{"a"}, check.Violated, nil
		case 2:
			return []string{"b"}, check.Inconclusive, nil
		case 3:
			return nil, check.Held, errors.New("no port is free")
		}
		return []string{"c"}, check.Held, nil
	}}
	got, err := Explore(t.Context(), f.exploring(t.TempDir()))
	require.NoError(t, err)
	require.Equal(t, []int{30, 8, 8, 7, 3}, []int{got.Played, got.Violated, got.Inconclusive, got.CouldNot, got.Features})
	told := strings.Join(f.said, "\n")
	require.Equal(t, 8, strings.Count(told, "VIOLATED -topology"), "each is told of")
	require.Equal(t, 7, strings.Count(told, "no port is free"))
	require.Equal(t, 8, strings.Count(told, "inconclusive BAR-1"))
}

// What violated something once is played again first, and a stop that comes to a
// standstill is told as a violation is, whatever else went wrong.
func TestASearchLosesNoViolation(t *testing.T) {
	folder, bad := t.TempDir(), ""
	f := &fakeRuns{}
	f.shows = func(c Case) ([]string, check.Outcome, error) {
		if len(f.played) == 20 {
			bad = c.key()
		}
		if c.key() == bad {
			return []string{"violated BAR-1 | late barrier"}, check.Violated, nil
		}
		return topologyAndFaults(c), check.Held, nil
	}
	_, err := Explore(t.Context(), f.exploring(folder))
	require.NoError(t, err)
	corpus, err := LoadCorpus(folder)
	require.NoError(t, err)
	again := &fakeRuns{shows: f.shows}
	x := again.exploring(folder)
	x.Corpus = corpus
	got, err := Explore(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, bad, again.played[0].key())
	require.Positive(t, got.Violated)

	for name, wrong := range map[string]func(*Result) error{
		"stuck":                func(r *Result) error { r.Stuck = errors.New("no leader"); return nil },
		"its report unwritten": func(r *Result) error { r.Verdicts[0].Outcome = check.Violated; return errors.New("disk full") },
	} {
		f := &fakeRuns{shows: func(Case) ([]string, check.Outcome, error) { return []string{"a"}, check.Held, nil }}
		x := f.exploring(t.TempDir())
		play := x.Play
		x.Play = func(ctx context.Context, n int, c Case) (*Result, error) {
			res, _ := play(ctx, n, c)
			return res, wrong(res)
		}
		got, err := Explore(t.Context(), x)
		require.Equal(t, []int{30, 30, 0, 0}, []int{got.Played, got.Violated, got.Inconclusive, got.CouldNot}, "%s: %v", name, err)
		require.Equal(t, 30, strings.Count(strings.Join(f.said, "\n"), "VIOLATED -topology"), name)
	}
}

func TestASearchThatLearnsLittleFails(t *testing.T) {
	n := 0
	folders := t.TempDir()
	f := &fakeRuns{shows: func(Case) ([]string, check.Outcome, error) {
		if n++; n%3 == 0 {
			return []string{"a"}, check.Held, nil
		}
		return []string{"b"}, check.Inconclusive, nil
	}}
	x := f.exploring(t.TempDir())
	play := x.Play
	x.Play = func(ctx context.Context, n int, c Case) (*Result, error) {
		res, err := play(ctx, n, c)
		res.Folder = filepath.Join(folders, strconv.Itoa(n))
		return res, errors.Join(err, os.Mkdir(res.Folder, 0o755))
	}
	_, err := Explore(t.Context(), x)
	require.ErrorIs(t, err, errLittleKnown)
	left, err := os.ReadDir(folders)
	require.NoError(t, err)
	require.Len(t, left, keepUnknown)
	require.DirExists(t, filepath.Join(folders, "29"), "the last of them")
}

func TestASearchThatPlaysNothingFails(t *testing.T) {
	f := &fakeRuns{shows: func(Case) ([]string, check.Outcome, error) { return nil, "", errors.New("no broker") }}
	got, err := Explore(t.Context(), f.exploring(t.TempDir()))
	require.ErrorIs(t, err, errNothingPlayed)
	require.Equal(t, []int{30, 30}, []int{got.Played, got.CouldNot})

	// go test would end it before the first play ends.
	f = &fakeRuns{now: time.Now(), shows: f.shows}
	ctx, cancel := context.WithDeadline(t.Context(), f.now.Add(LeastRoom-time.Second))
	defer cancel()
	got, err = Explore(ctx, f.exploring(t.TempDir()))
	require.ErrorIs(t, err, errNothingPlayed)
	require.Zero(t, got.Played)
	require.Contains(t, got.Why, "the deadline of the whole run")
}

func TestNoPlayIsBegunThatWouldNotEndInTime(t *testing.T) {
	f := &fakeRuns{now: time.Now(), shows: func(c Case) ([]string, check.Outcome, error) { return topologyAndFaults(c), check.Held, nil }}
	ctx, cancel := context.WithDeadline(t.Context(), f.now.Add(2*time.Hour))
	defer cancel()
	x := f.exploring(t.TempDir())
	x.Limit = 24 * time.Hour
	play := x.Play
	x.Play = func(ctx context.Context, n int, c Case) (*Result, error) {
		f.now = f.now.Add(10 * time.Minute)
		return play(ctx, n, c)
	}
	began := f.now
	got, err := Explore(ctx, x)
	require.NoError(t, err)
	require.Contains(t, got.Why, "less than the 20m20s that a play may take")
	require.LessOrEqual(t, f.now.Sub(began), 2*time.Hour)
	require.Equal(t, 10, got.Played)
}

func TestASearchThatIsCalledOffEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &fakeRuns{}
	f.shows = func(c Case) ([]string, check.Outcome, error) {
		if len(f.played) == 3 {
			cancel(errors.New("interrupted"))
			return nil, "", errors.New("the broker is gone")
		}
		return topologyAndFaults(c), check.Held, nil
	}
	got, err := Explore(ctx, f.exploring(t.TempDir()))
	require.NoError(t, err)
	require.Equal(t, []int{2, 0}, []int{got.Played, got.CouldNot})
	require.Contains(t, got.Why, "interrupted")
}
