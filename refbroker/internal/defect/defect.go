// Package defect names the ways in which the reference broker can be made
// wrong on purpose (serve --test-hooks --defect NAME), so that the suite can
// prove that it sees. Each is a few lines at the place where the real bug
// would be, guarded by Set.Has.
package defect

import (
	"fmt"
	"slices"
	"strings"
)

// Name is the name of a defect, as given to --defect.
type Name string

// The defects. Each names the requirement that it violates.
const (
	// NoBarrier leaves the MIRROR_PID_RESET batch out of a stop (BAR-1), and
	// with it its effect: mirrored producers stay known, as in a build without
	// KIP-1279, so local ones are taken for theirs (IDEM-1, IDEM-2).
	NoBarrier Name = "no-barrier"
	// PIDRewrite stores mirrored batches under producer id -(PID+2), as the
	// transformation that KIP-1279 gave up did (LOG-1, LOG-2).
	PIDRewrite Name = "pid-rewrite"
	// LateFetchAppended appends a fetch response that was in flight when the
	// fetchers were removed, after the barrier (LINK-1, BAR-3).
	LateFetchAppended Name = "late-fetch-appended"
)

// All lists every defect in the order of their names.
func All() []Name { return []Name{LateFetchAppended, NoBarrier, PIDRewrite} }

// Set is a set of defects; the zero value is a healthy broker.
type Set struct{ names []Name }

// Parse makes a Set of names, and refuses a name that is not in [All].
func Parse(names []string) (Set, error) {
	var s Set
	for _, n := range names {
		if !slices.Contains(All(), Name(n)) {
			var known []string
			for _, k := range All() {
				known = append(known, string(k))
			}
			return Set{}, fmt.Errorf("unknown defect %q (known: %s)", n, strings.Join(known, ", "))
		}
		s.names = append(s.names, Name(n))
	}
	return s, nil
}

// Has reports whether the broker is to be wrong in this way.
func (s Set) Has(n Name) bool { return slices.Contains(s.names, n) }
