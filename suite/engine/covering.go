package engine

import "math/rand/v2"

// Covering picks some of the rows, such that every pair of values in two columns which
// occurs in any row occurs in one of those. It takes the row with the most new pairs
// next; of several the cheapest, and of these the one that the seed puts first. Rows
// have the same number of columns.
func covering(seed uint64, rows [][]string, cost func(row int) int64) []int {
	order := rand.New(rand.NewPCG(seed, 0xc04e51)).Perm(len(rows))
	// Pairs get numbers: this is asked for each row again and again.
	numbers := map[pairOf]int{}
	pairs := make([][]int, len(rows))
	for k, row := range rows {
		for _, p := range pairsIn(row) {
			if _, known := numbers[p]; !known {
				numbers[p] = len(numbers)
			}
			pairs[k] = append(pairs[k], numbers[p])
		}
	}
	seen := make([]bool, len(numbers))
	var chosen []int
	for {
		best, news := -1, 0
		for _, k := range order {
			n := 0
			for _, p := range pairs[k] {
				if !seen[p] {
					n++
				}
			}
			if n > news || n > 0 && n == news && cost(k) < cost(best) {
				best, news = k, n
			}
		}
		if best < 0 {
			return chosen
		}
		for _, p := range pairs[best] {
			seen[p] = true
		}
		chosen = append(chosen, best)
	}
}

// pairOf is one value in column i and one in column j.
type pairOf struct {
	i, j int
	a, b string
}

func pairsIn(row []string) []pairOf {
	var all []pairOf
	for i, a := range row {
		for j := i + 1; j < len(row); j++ {
			all = append(all, pairOf{i, j, a, row[j]})
		}
	}
	return all
}
