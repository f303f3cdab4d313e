package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The cases of these tests are three small numbers, some of which a mutation changes, or
// takes from another case.
type triple [3]int

func mutant(size int) func(*rand.Rand, triple, triple) (triple, bool) {
	return func(r *rand.Rand, from, with triple) (triple, bool) {
		for range 1 + r.IntN(3) {
			if i := r.IntN(3); r.IntN(4) == 0 {
				from[i] = with[i]
			} else {
				from[i] = r.IntN(size)
			}
		}
		return from, from[0] != 13
	}
}

func key(c triple) string { return fmt.Sprint(c) }

func small(size int) Problem[triple] {
	return Problem[triple]{Ways: []triple{{0, 0, 0}, {1, 1, 1}}, Key: key, Mutate: mutant(size)}
}

// play plays all that is left, up to so many, and returns what was played.
func play(s *Search[triple], most int, shows func(triple) []string) (all []triple) {
	for len(all) < most {
		c, ok := s.Next()
		if !ok {
			break
		}
		all = append(all, c)
		s.Saw(c, shows(c))
	}
	return all
}

func each(c triple) []string {
	return []string{fmt.Sprintf("x=%d", c[0]), fmt.Sprintf("y=%d", c[1]), fmt.Sprintf("z=%d", c[2])}
}

func TestASearchIsItsSeedsAndWhatWasSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		a := play(New(seed, small(20)), 50, each)
		require.Equal(t, a, play(New(seed, small(20)), 50, each))
		require.NotEqual(t, a, play(New(seed+1, small(20)), 50, each))
	})
}

func TestNothingIsPlayedTwiceAndASearchEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 5).Draw(t, "size")
		s := New(rapid.Uint64().Draw(t, "seed"), small(size))
		shows := rapid.SampledFrom([]func(triple) []string{each, func(triple) []string { return nil }}).Draw(t, "shows")
		all := play(s, 10*size*size*size, shows)
		seen := map[triple]bool{}
		for _, c := range all {
			require.False(t, seen[c], "%v was played before", c)
			seen[c] = true
		}
		require.True(t, seen[triple{0, 0, 0}] && seen[triple{1, 1, 1}], "what is to begin with was played")
		// What differs in all three numbers from the one parent that there may be is hard
		// to hit: half of everything is missed in less than one search of a million.
		require.Greater(t, len(all), size*size*size/2, "most of what there is was played, and then no more")
		_, more := s.Next()
		require.False(t, more)
	})
}

func TestWhatIsToBePlayedAgainComesFirst(t *testing.T) {
	p := small(7)
	p.Corpus = []Entry[triple]{{triple{2, 0, 0}, []string{"x=2"}}, {triple{3, 0, 0}, []string{"x=3"}}, {triple{4, 0, 0}, []string{"x=4"}}}
	p.Again = []triple{{3, 0, 0}}
	all := play(New(1, p), 100, each)
	require.Equal(t, triple{3, 0, 0}, all[0])
	for _, c := range all[1:] {
		require.False(t, slices.ContainsFunc(p.Corpus, func(e Entry[triple]) bool { return e.Case == c }), c)
	}
}

func TestFeaturesAreNewOnce(t *testing.T) {
	s := New(1, small(9))
	require.Equal(t, []string{"x=0", "y=0"}, s.Saw(triple{}, []string{"y=0", "x=0", "y=0"}))
	require.Empty(t, s.Saw(triple{0, 0, 1}, []string{"y=0", "x=0"}))
	require.Equal(t, []string{"z=3"}, s.Saw(triple{0, 0, 3}, []string{"y=0", "z=3"}))
	require.Equal(t, []Entry[triple]{
		{triple{}, []string{"x=0", "y=0"}},
		{triple{0, 0, 3}, []string{"z=3"}},
	}, s.Entries())
	require.Equal(t, 3, s.Features())
}

func TestACorpusIsGrownAndNotPlayedAgain(t *testing.T) {
	first := New(3, small(7))
	play(first, 40, each)
	corpus := first.Entries()
	require.NotEmpty(t, corpus)

	p := small(7)
	p.Corpus = corpus
	second := New(4, p)
	require.Equal(t, first.Features(), second.Features(), "what it showed is known")
	for _, c := range play(second, 1000, each) {
		require.False(t, slices.ContainsFunc(corpus, func(e Entry[triple]) bool { return e.Case == c }), "%v is in the corpus", c)
	}
	for _, e := range second.Entries() {
		for _, f := range e.First {
			require.False(t, slices.ContainsFunc(corpus, func(old Entry[triple]) bool { return slices.Contains(old.First, f) }), f)
		}
	}
}

func TestWhatIsRareIsPreferred(t *testing.T) {
	s := New(1, Problem[triple]{Key: key, Mutate: mutant(9)})
	s.Saw(triple{0, 0, 0}, []string{"common"})
	s.Saw(triple{1, 0, 0}, []string{"rare"})
	for i := range 98 {
		s.Saw(triple{2, 0, i}, []string{"common"})
	}
	drawn := map[int]int{}
	for range 1000 {
		drawn[s.choose().Case[0]]++
	}
	require.Len(t, drawn, 2, "what showed nothing new is no parent")
	require.Greater(t, drawn[1], 900)
	s.parents[1].chosen = 999 // it was tried often, and in vain
	clear(drawn)
	for range 1000 {
		drawn[s.choose().Case[0]]++
	}
	require.Greater(t, drawn[0], 900)
}

// A bug that needs two things at once, neither of which is likely, and each of which shows
// by itself: who keeps what showed one of them is on half the way. Chance has to meet both
// in one draw.
func TestASearchFindsFarSoonerThanChance(t *testing.T) {
	const size, most = 40, 30_000
	shows := func(c triple) []string {
		var f []string
		if c[0]%10 == 7 {
			f = append(f, "fenced")
		}
		if c[1] == 11 {
			f = append(f, "read-only")
		}
		if c[0]%10 == 7 && c[1] == 11 {
			f = append(f, "read-only while fenced")
		}
		return f
	}
	bug := func(c triple) bool { return c[0]%10 == 7 && c[1] == 11 && c[2] == 5 }
	var searched, drawn []int
	for seed := range uint64(40) {
		s, n := New(seed, small(size)), 0
		for ; n < most; n++ {
			c, more := s.Next()
			require.True(t, more)
			if bug(c) {
				break
			}
			s.Saw(c, shows(c))
		}
		searched = append(searched, n)
		r, n := rand.New(rand.NewPCG(seed, 1)), 0
		for ; n < most; n++ {
			if bug(triple{r.IntN(size), r.IntN(size), r.IntN(size)}) {
				break
			}
		}
		drawn = append(drawn, n)
	}
	slices.Sort(searched)
	slices.Sort(drawn)
	t.Logf("plays until it was found, the median and the most: %d and %d by search, %d and %d by chance (%d: not found)",
		searched[20], searched[39], drawn[20], drawn[39], most)
	require.Less(t, searched[39], most, "found with every seed")
	require.Less(t, 5*searched[20], drawn[20], "five times sooner at the least")
	require.Less(t, searched[39], drawn[20], "the unluckiest search is luckier than half of the chances")
}
