package engine

import "slices"

// Exercising names the scenarios of a default run that exercise a requirement.
func Exercising(id string) (names []string) {
	for _, s := range Scenarios(Default) {
		if slices.Contains(s.Requirements(), id) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Violating names the defects under which a requirement must be seen violated.
func Violating(id string) (names []string) {
	for _, d := range DefectCases() {
		if slices.Contains(d.Primary, id) {
			names = append(names, d.Name)
		}
	}
	return names
}
