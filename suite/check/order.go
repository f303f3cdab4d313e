package check

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// inOrder goes through a map in the order of its keys: what is found in the same
// evidence is told in the same order each time.
func inOrder[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return inOrderOf(m, cmp.Compare[K])
}

// inOrderOf is [inOrder] for keys that only compare can tell apart.
func inOrderOf[K comparable, V any](m map[K]V, compare func(a, b K) int) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.SortedFunc(maps.Keys(m), compare) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
