package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"watershed.example/suite/check"
	"watershed.example/suite/engine/explore"
)

// Exploring is what a search is made with.
type Exploring struct {
	// Seed decides what is played, as far as what was seen does not.
	Seed    uint64
	Profile check.Profile
	Defects []string
	// Limit is how long plays are begun.
	Limit time.Duration
	// Corpus is where entries lie and come to.
	Corpus Corpus
	// Play plays a case, the number of which is that of the play; an error says that it
	// could not run.
	Play func(ctx context.Context, number int, c Case) (*Result, error)
	// Features are those of a result; [FeaturesOf].
	Features func(*Result) ([]string, error)
	// Violated is told of each play that violates something or came to a standstill, while
	// its evidence is there.
	Violated func(Case, *Result)
	// Keep leaves the evidence of every play. Else that of what was held goes, and of what
	// was inconclusive or could not run all but the last few.
	Keep bool
	// Say shows progress; it may be nil.
	Say func(format string, args ...any)
	// Now is the wall clock; nil for [time.Now].
	Now func() time.Time
}

// Explored is what became of a search.
type Explored struct {
	// Played are all plays that were begun and came to an end; of these Violated
	// violate something or came to a standstill, Inconclusive show less than they were to,
	// and CouldNot could not be played to their end.
	Played, Violated, Inconclusive, CouldNot int
	// Features are new, and Entries cases that showed some of them.
	Features, Entries int
	// Known is how many features are known now, with those of the corpus before.
	Known int
	// Why it ended.
	Why    string
	Folder string
	Took   time.Duration
}

// String is a table for people.
func (e Explored) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "search: %s, after %s\n", e.Why, e.Took.Round(time.Second))
	for _, row := range []struct {
		what string
		n    int
	}{
		{"played", e.Played},
		{"violated", e.Violated},
		{"inconclusive", e.Inconclusive},
		{"could not run", e.CouldNot},
		{"new features", e.Features},
		{"new entries", e.Entries},
		{"known features", e.Known},
	} {
		fmt.Fprintf(&b, "  %-14s %6d\n", row.what, row.n)
	}
	fmt.Fprintf(&b, "corpus: %s\n", e.Folder)
	return b.String()
}

// What fails a search that found no violation: of what it played it knows too little.
var (
	errNothingPlayed = errors.New("search: nothing was played to its end")
	errLittleKnown   = errors.New("search: more than half of the plays were inconclusive or could not run")
)

// keepUnknown is how many plays that were inconclusive or could not run leave their
// evidence: each can be played again by its plan.
const keepUnknown = 5

// LeastRoom is the time that a play is given before anything is known of how long one
// takes here.
const LeastRoom = time.Minute

// Explore plays cases until its time is up, ctx ends, or nothing is left to play. No
// play is begun that would not end before ctx's deadline, if it took twice as long as the
// longest so far. What violated something in the corpus is played again before all else. An
// error says that the search is worth nothing: nothing was played, most of it told nothing, or
// an entry could not be kept.
func Explore(ctx context.Context, x Exploring) (Explored, error) {
	now, say := x.Now, x.Say
	if now == nil {
		now = time.Now
	}
	if say == nil {
		say = func(string, ...any) {}
	}
	corpus := x.Corpus.Of(x.Profile, x.Defects)
	ways, bad := Ways(x.Seed, x.Profile), []Case(nil)
	for i := range ways {
		ways[i].Defects = x.Defects
	}
	for _, entry := range corpus {
		if slices.ContainsFunc(entry.First, badFeature) {
			bad = append(bad, entry.Case)
		}
	}
	search := explore.New(x.Seed, explore.Problem[Case]{Ways: ways, Corpus: corpus, Again: bad, Key: Case.key, Mutate: mutant})
	e := Explored{Folder: x.Corpus.Folder, Known: search.Features()}
	say("corpus of %d entries and %d features in %s (%d more of another profile or of other defects)",
		len(corpus), e.Known, e.Folder, len(x.Corpus.Entries)-len(corpus))
	began, longest, judged := now(), time.Duration(0), 0
	var unknown []string // folders of what was inconclusive or could not run
	end := func(why string, err error) (Explored, error) {
		e.Why, e.Took, e.Known = why, now().Sub(began), search.Features()
		switch {
		case err != nil:
		case judged == 0:
			err = errNothingPlayed
		case 2*(e.Inconclusive+e.CouldNot) > e.Played:
			err = errLittleKnown
		}
		return e, err
	}
	for number := 1; ; number++ {
		if ctx.Err() != nil {
			return end(context.Cause(ctx).Error(), nil)
		}
		if now().Sub(began) >= x.Limit {
			return end("the time is up", nil)
		}
		room := max(LeastRoom, 2*longest)
		if deadline, any := ctx.Deadline(); any && deadline.Sub(now()) < room {
			return end(fmt.Sprintf("the deadline of the whole run is in less than the %s that a play may take", room.Round(time.Second)), nil)
		}
		c, more := search.Next()
		if !more {
			return end("nothing is left to play", nil)
		}
		at := now()
		res, err := x.Play(ctx, number, c)
		longest = max(longest, now().Sub(at))
		// A violation is told of before anything else can go wrong.
		violated := len(res.Unaccepted()) > 0 || res.Stuck != nil
		if ctx.Err() != nil && !violated {
			return end(context.Cause(ctx).Error()+", amid a play that is not counted", nil)
		}
		e.Played++
		switch {
		case violated:
			e.Violated++
			say("%d %s: %s", number, res.Word(), c.key())
			x.Violated(c, res)
		case err != nil:
			e.CouldNot++
			unknown = append(unknown, res.Folder)
			say("%d could not run: %s: %v", number, c.key(), err)
		case res.Failed():
			e.Inconclusive++
			unknown = append(unknown, res.Folder)
			say("%d %s: %s", number, res.Word(), c.key())
		}
		if len(unknown) > keepUnknown && !x.Keep {
			if err := os.RemoveAll(unknown[0]); err != nil {
				return end("evidence of what told nothing could not be removed", err)
			}
			unknown = unknown[1:]
		}
		if err != nil {
			continue
		}
		judged++
		features, err := x.Features(res)
		if err != nil {
			return end("features could not be read", err)
		}
		first := search.Saw(c, features)
		if len(first) > 0 {
			e.Entries++
			e.Features += len(first)
			path, err := x.Corpus.Add(explore.Entry[Case]{Case: c, First: first})
			if err != nil {
				return end("an entry could not be kept", err)
			}
			say("%d new: %s: %s (%s)", number, c.key(), strings.Join(first, "; "), path)
		}
		if err := res.Forget(x.Keep); err != nil {
			return end("evidence of what was held could not be removed", err)
		}
	}
}

// badFeature says whether a feature is one of runs that show a mistake.
func badFeature(f string) bool { return strings.HasPrefix(f, violatedFeature) || f == stuckFeature }
