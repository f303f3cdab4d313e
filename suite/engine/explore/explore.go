// Package explore searches for cases that show what none before them showed: it keeps
// those that did, makes others from them, and prefers to make them from the cases whose
// findings are rare. It is pure but for the player it asks. What it does next is decided
// by its seed and by what was seen, and by nothing else.
//
// What a case shows is a set of features, which are texts here. A feature counts how many
// plays have shown it; an entry of the corpus is as precious as the features that it was
// the first to show are rare, and becomes less so each time that it was chosen. That is
// the idea of fuzzers that share out their energy by how rarely a path was taken (AFLFast,
// 2016): what every play shows draws nobody, and what one play in a hundred shows is
// where the next unseen thing is near.
package explore

import (
	"math/rand/v2"
	"slices"
)

// Entry is a case that showed something first.
type Entry[C any] struct {
	Case C
	// First are the features that no case before it had shown, sorted.
	First []string
}

// Problem is what is searched.
type Problem[C any] struct {
	// Ways are cases to begin with. Without a corpus all of them are played first.
	Ways []C
	// Corpus are the entries of earlier searches. They are not played again: what they
	// showed was seen.
	Corpus []Entry[C]
	// Again are those cases of the corpus that are played again, before all else.
	Again []C
	// Key tells cases apart: none is played twice.
	Key func(C) string
	// Mutate makes another case of one, with parts of a second; false when what it made
	// is none that can be played.
	Mutate func(r *rand.Rand, from, with C) (C, bool)
}

// Search is a search on its way. It is not for several goroutines at once.
type Search[C any] struct {
	problem Problem[C]
	rand    *rand.Rand
	again   []C
	ways    []C
	played  map[string]bool
	parents []*parent[C]
	entries []Entry[C]
	times   map[string]int // how many plays showed a feature
	over    bool
}

// parent is a case that others are made of.
type parent[C any] struct {
	Entry[C]
	chosen int
}

// New begins a search.
func New[C any](seed uint64, p Problem[C]) *Search[C] {
	s := &Search[C]{
		problem: p, rand: rand.New(rand.NewPCG(seed, 0xe8b704e5)), again: slices.Clone(p.Again), ways: slices.Clone(p.Ways),
		played: map[string]bool{}, times: map[string]int{},
	}
	s.rand.Shuffle(len(s.ways), func(i, j int) { s.ways[i], s.ways[j] = s.ways[j], s.ways[i] })
	for _, e := range p.Corpus {
		s.played[p.Key(e.Case)] = true
		s.parents = append(s.parents, &parent[C]{Entry: e})
		for _, f := range e.First {
			s.times[f]++
		}
	}
	for _, c := range p.Again {
		delete(s.played, p.Key(c))
	}
	return s
}

// Entries are those that this search has added to the corpus.
func (s *Search[C]) Entries() []Entry[C] { return slices.Clone(s.entries) }

// Features is how many are known, with those of the corpus.
func (s *Search[C]) Features() int { return len(s.times) }

// tries is how often a mutant may be one that was played already, or can't be, before
// nothing is taken to be left.
const tries = 1000

// Next is the next case to play; false when nothing that was not played is found. It
// counts as played from here on. Who gets false gets no other answer any more.
func (s *Search[C]) Next() (C, bool) {
	for len(s.again) > 0 {
		c := s.again[0]
		s.again = s.again[1:]
		if s.take(c) {
			return c, true
		}
	}
	// With a corpus, ways that are not in it take turns with what is made of it: they may
	// have been played, and have shown nothing that was new.
	for len(s.ways) > 0 && (len(s.problem.Corpus) == 0 || s.rand.IntN(2) == 0) {
		c := s.ways[0]
		s.ways = s.ways[1:]
		if s.take(c) {
			return c, true
		}
	}
	for range tries {
		from := s.choose()
		if from == nil || s.over {
			break
		}
		c, ok := s.problem.Mutate(s.rand, from.Case, s.any().Case)
		if ok && s.take(c) {
			from.chosen++
			return c, true
		}
	}
	for _, c := range s.ways {
		s.ways = s.ways[1:]
		if s.take(c) {
			return c, true
		}
	}
	s.over = true
	var none C
	return none, false
}

func (s *Search[C]) take(c C) bool {
	k := s.problem.Key(c)
	if s.played[k] {
		return false
	}
	s.played[k] = true
	return true
}

// Saw tells what a case showed, and returns what of that is new. A case that showed
// something new is an entry of the corpus from now on; one that did not may still be what
// others are made of where there is nothing better.
func (s *Search[C]) Saw(c C, features []string) (first []string) {
	features = slices.Clone(features)
	slices.Sort(features)
	for _, f := range slices.Compact(features) {
		if s.times[f] == 0 {
			first = append(first, f)
		}
		s.times[f]++
	}
	if len(first) > 0 || len(s.parents) == 0 {
		s.parents = append(s.parents, &parent[C]{Entry: Entry[C]{Case: c, First: first}})
	}
	if len(first) > 0 {
		s.entries = append(s.entries, Entry[C]{Case: c, First: first})
	}
	return first
}

// worth is how precious a parent is: the sum of how rare its features are, shared out over
// the times that it was chosen.
func (s *Search[C]) worth(p *parent[C]) float64 {
	worth := 0.01 // so that each may be chosen
	for _, f := range p.First {
		worth += 1 / float64(s.times[f])
	}
	return worth / float64(1+p.chosen)
}

// choose draws a parent by its worth; nil where there is none.
func (s *Search[C]) choose() *parent[C] {
	if len(s.parents) == 0 {
		return nil
	}
	sum, upTo := 0.0, make([]float64, len(s.parents))
	for i, p := range s.parents {
		sum += s.worth(p)
		upTo[i] = sum
	}
	at, _ := slices.BinarySearch(upTo, s.rand.Float64()*sum)
	return s.parents[min(at, len(s.parents)-1)]
}

// any draws a parent, each as likely as the next.
func (s *Search[C]) any() *parent[C] { return s.parents[s.rand.IntN(len(s.parents))] }
