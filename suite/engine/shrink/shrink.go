// Package shrink makes a case that shows something smaller, as long as it shows it:
// delta debugging by steps that the caller knows. It is pure but for the oracle it asks,
// and asks the same questions in the same order each time.
package shrink

import "context"

// Problem is what is to be made smaller.
type Problem[C any] struct {
	// Smaller lists cases that are smaller than c, the boldest first.
	Smaller func(c C) []C
	// Size of a case, which [Problem.Smaller] has to lessen: what does not is passed
	// over, so that shrinking ends.
	Size func(c C) int
	// Key tells cases apart.
	Key func(c C) string
	// Shows tries a case once, and says whether it showed what is sought. An error
	// ends the search, with what was found by then.
	Shows func(ctx context.Context, c C) (bool, error)
	// Tries is how often a case may fail to show it before it is given up, since the same case may
	// show it at one time and not at another; 1 at least.
	Tries int
	// Needs is how often a smaller case has to show it before it is taken; 1 at least. What
	// shows it by chance is smaller than what shows it, and a worse case to play again.
	Needs int
	// Proofs is how often the result is tried again for its rate of reproduction; 0 for
	// not at all.
	Proofs int
}

// Result is the smallest case that was found.
type Result[C any] struct {
	Case C
	// Seen of Tries times the case showed what is sought when it was tried again, the
	// times that made it the result included.
	Seen, Tries int
	// Asked counts the questions to the oracle, and Steps those that made it smaller.
	Asked, Steps int
	// Whole is false when the search was ended before nothing smaller was left.
	Whole bool
}

// Minimise looks for the smallest case that shows what start showed. Whatever it returns
// has shown it at least once. It ends early with ctx; that is no error.
func Minimise[C any](ctx context.Context, start C, p Problem[C]) (Result[C], error) {
	res := Result[C]{Case: start}
	seen := map[string]int{p.Key(start): 1} // times that a case showed it
	tried := map[string]int{p.Key(start): 1}
	ask := func(c C) (bool, error) {
		k := p.Key(c)
		res.Asked++
		shows, err := p.Shows(ctx, c)
		if err != nil {
			return false, err
		}
		tried[k]++
		if shows {
			seen[k]++
		}
		return shows, nil
	}
	done := func(err error) (Result[C], error) {
		res.Seen, res.Tries = seen[p.Key(res.Case)], tried[p.Key(res.Case)]
		if ctx.Err() != nil {
			return res, nil
		}
		return res, err
	}
	for {
		next, found, err := step(ctx, res.Case, p, tried, seen, ask)
		if err != nil || ctx.Err() != nil {
			return done(err)
		}
		if !found {
			break
		}
		res.Case = next
		res.Steps++
	}
	res.Whole = true
	for range p.Proofs {
		if ctx.Err() != nil {
			break
		}
		if _, err := ask(res.Case); err != nil {
			return done(err)
		}
	}
	return done(nil)
}

// step finds the first smaller case that shows it. A case that was tried in vain as often
// as it is worth is not tried again.
func step[C any](ctx context.Context, from C, p Problem[C], tried, seen map[string]int, ask func(C) (bool, error)) (C, bool, error) {
	size := p.Size(from)
	for _, c := range p.Smaller(from) {
		if p.Size(c) >= size {
			continue
		}
		for k := p.Key(c); tried[k]-seen[k] < max(p.Tries, 1); {
			if ctx.Err() != nil {
				return from, false, nil
			}
			if _, err := ask(c); err != nil {
				return from, false, err
			}
			if seen[k] >= max(p.Needs, 1) {
				return c, true, nil
			}
		}
	}
	return from, false, nil
}

// Without lists what is left of a list when a part of it goes: each half, each quarter, and
// so on down to each element.
func Without[T any](list []T) (all [][]T) {
	for parts := 1; len(list) > 0; parts *= 2 {
		parts = min(parts, len(list))
		for i := range parts {
			from, to := len(list)*i/parts, len(list)*(i+1)/parts
			all = append(all, append(append([]T{}, list[:from]...), list[to:]...))
		}
		if parts == len(list) {
			return all
		}
	}
	return all
}
