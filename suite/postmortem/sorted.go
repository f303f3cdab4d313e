package postmortem

import (
	"cmp"
	"iter"
	"slices"
)

// sortedOpen yields open transactions in the order of their first offsets.
func sortedOpen(open map[int64]openTxn) iter.Seq2[int64, openTxn] {
	return func(yield func(int64, openTxn) bool) {
		ids := make([]int64, 0, len(open))
		for id := range open {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(open[a].first, open[b].first) })
		for _, id := range ids {
			if !yield(id, open[id]) {
				return
			}
		}
	}
}
