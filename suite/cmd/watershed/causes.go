package main

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// causes are what an error tells, in one line for each cause, none twice.
func causes(err error) []string {
	var all []string
	for _, line := range linesOf(err) {
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

// linesOf takes errors apart that were joined: what wraps several is said of each.
func linesOf(err error) []string {
	switch e := err.(type) { //nolint:errorlint // it is taken apart
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var texts, lines []string
		for _, part := range e.Unwrap() {
			texts = append(texts, part.Error())
			lines = append(lines, linesOf(part)...)
		}
		if strings.Join(texts, "\n") == err.Error() {
			return lines
		}
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		if inner == nil {
			break
		}
		before, ends := strings.CutSuffix(err.Error(), inner.Error())
		if !ends || strings.Contains(before, "\n") {
			break
		}
		var lines []string
		for _, line := range linesOf(inner) {
			lines = append(lines, before+line)
		}
		return lines
	}
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// teller tells what goes on, and remembers it: nothing is to be said twice.
type teller struct {
	mu   sync.Mutex
	say  func(line string)
	told []string
}

func (t *teller) tell(lines ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range lines {
		t.told = append(t.told, line)
		t.say(line)
	}
}

// untold is what an error tells that was not told yet, with the exit code that it has.
// Where all of it was told, that is said.
func (t *teller) untold(err error) error {
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.DeleteFunc(causes(err), func(line string) bool { return slices.Contains(t.told, line) })
	if len(lines) == 0 {
		lines = []string{"not all could run, as is said above"}
	}
	var verdict verdictError
	if errors.As(err, &verdict) {
		return verdictError{verdict.code, strings.Join(lines, "\n")}
	}
	return errors.New(strings.Join(lines, "\n"))
}
