package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachCauseHasOneLine(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	for _, test := range []struct {
		name string
		err  error
		want []string
	}{
		{"none", nil, nil},
		{"one", a, []string{"a"}},
		{"joined", errors.Join(a, errors.Join(b, a)), []string{"a", "b"}},
		{"what wraps several is said of each", fmt.Errorf("x: %w", fmt.Errorf("y: %w", errors.Join(a, b))), []string{"x: y: a", "x: y: b"}},
		{"one may have lines itself", fmt.Errorf("x: %w", errors.New("a\n\n  b\na")), []string{"x: a", "x: b"}},
		{"said of both at once", fmt.Errorf("%w (%w)", a, b), []string{"a (b)"}},
		{"said behind", fmt.Errorf("%w, x", errors.Join(a, b)), []string{"a", "b, x"}},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, causes(test.err)) })
	}
}

func TestNothingIsToldTwice(t *testing.T) {
	var said []string
	p := &teller{say: func(line string) { said = append(said, line) }}
	p.tell("a", "b")
	require.Equal(t, []string{"a", "b"}, said)
	require.NoError(t, p.untold(nil))
	require.EqualError(t, p.untold(errors.Join(errors.New("a"), errors.New("c"))), "c")
	require.EqualError(t, p.untold(errors.New("a")), "not all could run, as is said above")
	var verdict verdictError
	require.ErrorAs(t, p.untold(verdictError{exitViolated, "violated\nb"}), &verdict)
	require.Equal(t, verdictError{exitViolated, "violated"}, verdict)
}
