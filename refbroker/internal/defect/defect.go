// Package defect names the ways in which the reference broker can be made
// wrong on purpose (serve --test-hooks --defect NAME), so that the suite can
// prove that it sees. Each is a few lines at the place where the real bug
// would be, guarded by Set.Has.
//
// The names are in names.go. The comment of each says what the broker does,
// where such a bug was seen or is named, and which requirement it violates;
// docs/defects.md is made from them.
package defect

import (
	"fmt"
	"slices"
	"strings"
)

// Name is the name of a defect, as given to --defect.
type Name string

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

// Has reports whether the broker is to be wrong in one of these ways.
func (s Set) Has(names ...Name) bool {
	return slices.ContainsFunc(s.names, func(n Name) bool { return slices.Contains(names, n) })
}
