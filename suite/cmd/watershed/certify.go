package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"watershed.example/fixtures"
	"watershed.example/fixtures/target"
	"watershed.example/suite/bundle"
	"watershed.example/suite/contract"
	"watershed.example/suite/engine"
	"watershed.example/suite/report"
)

func certifyCommand() *cobra.Command {
	var file, level, out, known string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "certify --target FILE [--level L0..L4] [PATTERN...]",
		Short: "Certify clusters that run already",
		Long: `Play on clusters that run already what they can, judge it, and say which levels they pass. The target's file says how
they are reached and what may be done to them (docs/target.md); docs/certify.md is the way from nothing to a verdict. All that is made on the
clusters has a name that begins with the file's prefix, and is removed at the end, after Ctrl-C too.

With a PATTERN only these scenarios are played (see list), and no level is given.

Exit codes: 0 everything judged is held, and the level that was asked for is passed; 1 something is violated; 3 nothing is violated, but
something is inconclusive, or the level is not passed since the target can't show it; 2 could not run.`,
		Example: "  watershed certify --target target.yaml\n  watershed certify --target target.yaml --level L2 --out certified\n  watershed doctor --target target.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := target.Load(file)
			if err != nil {
				return err
			}
			c := engine.Certification{Target: t, Seed: seed}
			if level != "" {
				l, err := contract.ParseLevel(level)
				if err != nil {
					return fmt.Errorf("--level %q: %w", level, err)
				}
				c.Level = &l
			}
			if c.Scenarios, err = matching(args); err != nil {
				return err
			}
			if known != "" {
				if c.Known, err = report.LoadKnown(known); err != nil {
					return fmt.Errorf("--known: %w", err)
				}
			}
			if !cmd.Flags().Changed("seed") {
				c.Seed = uint64(time.Now().UnixMilli())
			}
			return certify(cmd, c, out)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "target", "", "`FILE` that describes the clusters (docs/target.md)")
	flags.StringVar(&level, "level", "", "the level that has to be passed, `L0` to L4; without it as far as the target goes")
	flags.StringVar(&out, "out", "out", "`folder` for evidence and reports")
	flags.StringVar(&known, "known", "", "`FILE` of violations that are accepted")
	flags.Uint64Var(&seed, "seed", 0, "`N` decides traffic and names; a run prints its own when none is given")
	_ = cmd.MarkFlagRequired("target")
	return cmd
}

// matching chooses scenarios by patterns of their names; nil for all.
func matching(patterns []string) (func(engine.Scenario) bool, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	if err := wellFormed(patterns); err != nil {
		return nil, err
	}
	return func(s engine.Scenario) bool {
		for _, p := range patterns {
			if matches(p, s.Name) {
				return true
			}
		}
		return false
	}, nil
}

// certify does it, says how it goes, and ends with what it came to.
func certify(cmd *cobra.Command, c engine.Certification, out string) error {
	ctx := cmd.Context()
	folder, leave, err := engine.NewRunFolder(cmp.Or(out, "out"), c.Seed, true, time.Now())
	if err != nil {
		return err
	}
	defer leave()
	c.Folder = folder
	p := &teller{say: func(line string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), "watershed:", line) }}
	say := func(format string, args ...any) { p.tell(fmt.Sprintf(format, args...)) }
	c.Progress = say
	c.Reproduce = func(scenario string) string {
		return fmt.Sprintf("watershed certify --target %s --seed %d '%s'", c.Target.File, c.Seed, scenario)
	}
	c.Played = func(r *engine.Result, err error) {
		switch {
		case err == nil:
			say("%s %s in %s", r.Name, r.Word(), engine.Seconds(r.Took))
		case ctx.Err() == nil: // or else that is what it tells
			p.tell(causes(fmt.Errorf("%s could not run: %w", r.Name, err))...)
		}
	}
	say("%s, seed %d, evidence in %s", c.Target.Product, c.Seed, folder)
	atInterrupt(ctx, fmt.Sprintf("interrupted: what was made on the clusters is being removed (names that begin with %s); a second Ctrl-C quits at once and leaves it", c.Space()))
	cert, err := engine.Certify(ctx, c)
	off := calledOff(ctx, cert, err)
	if cert == nil {
		return p.untold(errors.Join(cmp.Or(off, err), engine.DropRunFolder(folder)))
	}
	switch {
	case off != nil && !cert.Violated():
		return p.untold(off)
	case off != nil: // who called it off asks for no list of what can't be played
		cert.Trouble, cert.Unplayed = off, nil
	}
	err = p.untold(concludeCertificate(cmd, cert, err))
	file, sum, packed := pack(folder, cmp.Or(out, "out"), bundle.Options{Product: c.Target.Product, Secrets: c.Target.Secrets()})
	if packed == nil {
		say("bundle %s, sha256 %s", file, sum)
		if n := len(bundle.TooShort(c.Target.Secrets())); n > 0 {
			say("the target's file has %d secrets of fewer than %d characters: of those only values of passwords, tokens and the like were taken out of the bundle", n, bundle.MinSecret)
		}
	} else {
		say("no bundle: %v", packed)
		err = cmp.Or(err, packed)
	}
	return err
}

// calledOff is what is told of a certification that was called off, what stays or that
// nothing does; nil where it was not.
func calledOff(ctx context.Context, cert *engine.Certificate, err error) error {
	left, _ := fixtures.Left(err)
	if cert != nil {
		err, left = errors.Join(cert.Trouble, err), cert.Left
	}
	if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	if left == nil {
		err = errors.Join(err, errors.New("all that was made on the clusters is removed"))
	}
	return err
}

// concludeCertificate says what was found and ends with it. What was violated stays so,
// whatever came after it: ended is how the certification broke off.
func concludeCertificate(cmd *cobra.Command, cert *engine.Certificate, ended error) error {
	if ended != nil && !cert.Violated() {
		return ended
	}
	w := cmd.OutOrStdout()
	open := false
	for _, r := range cert.Results {
		open = open || r.Failed()
		if r.Failed() && len(r.Verdicts) > 0 {
			if _, err := fmt.Fprintln(w, r.Story()); err != nil {
				return err
			}
		}
	}
	for _, u := range cert.Unplayed {
		if _, err := fmt.Fprintf(w, "not played  %s %s: %s\n", u.Scenario.Level(), u.Scenario.Name, u.Why); err != nil {
			return err
		}
	}
	if n := len(cert.Rest); n > 0 {
		if _, err := fmt.Fprintf(w, "not played  %d more scenarios: %s\n", n, cert.Rest[0].Why); err != nil {
			return err
		}
	}
	if err := report.Table(w, &cert.Report, 120); err != nil {
		return err
	}
	switch {
	case cert.Violated():
		return verdictError{exitViolated, strings.Join(append([]string{"violated"}, causes(cert.Trouble)...), "\n")}
	case cert.Trouble != nil:
		return cert.Trouble
	case open:
		return verdictError{exitInconclusive, "inconclusive"}
	case cert.Short != "":
		return verdictError{exitInconclusive, cert.Short}
	}
	return nil
}
