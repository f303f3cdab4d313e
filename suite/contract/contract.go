// Package contract is the registry of what a mirroring implementation must do:
// one [Requirement] for each promise, with the words a report prints. Every
// assertion of the suite belongs to one of them.
package contract

import (
	"errors"
	"slices"
	"strings"
)

// Level says how hard a run has to press before a requirement counts as
// certified. A level includes those below it.
type Level int

// The levels.
const (
	L0 Level = iota // a single cluster
	L1              // one failover without fault
	L2              // the same with crash, restart and reassignment
	L3              // the same with chaos in STOPPING
	L4              // all topologies
)

func (l Level) String() string { return "L" + string(rune('0'+int(l))) }

// Levels lists them, the lowest first.
func Levels() []Level { return []Level{L0, L1, L2, L3, L4} }

// ParseLevel reads a level's name, in either case.
func ParseLevel(name string) (Level, error) {
	for _, l := range Levels() {
		if strings.EqualFold(name, l.String()) {
			return l, nil
		}
	}
	return 0, errors.New("want L0, L1, L2, L3 or L4")
}

// Source says where a requirement comes from.
type Source string

// The sources.
const (
	SeedPage Source = "KIP-1279, page of the MIRROR_PID_RESET barrier (version 42)"
	KIP1279  Source = "KIP-1279"
)

// Requirement is one promise.
type Requirement struct {
	ID     string // such as "BAR-3"; never changes its meaning
	Level  Level  // the lowest level that includes it
	Source Source
	Text   string
}

// Family is the part of the id before the number, such as "BAR".
func (r Requirement) Family() string {
	family, _, _ := strings.Cut(r.ID, "-")
	return family
}

// All returns every requirement, in the order of the contract.
func All() []Requirement { return slices.Clone(registry) }

// Get returns the requirement with the id, and whether there is one.
func Get(id string) (Requirement, bool) {
	i := slices.IndexFunc(registry, func(r Requirement) bool { return r.ID == id })
	if i < 0 {
		return Requirement{}, false
	}
	return registry[i], true
}

// Order is the place of the id in the contract; ids that nobody knows come last.
func Order(id string) int {
	if i := slices.IndexFunc(registry, func(r Requirement) bool { return r.ID == id }); i >= 0 {
		return i
	}
	return len(registry)
}
