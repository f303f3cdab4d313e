package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"watershed.example/fixtures"
	"watershed.example/suite/bundle"
	"watershed.example/suite/check"
	"watershed.example/suite/engine"
	"watershed.example/suite/report"
)

func runCommand() *cobra.Command {
	var settings engine.Settings
	short, archive := false, ""
	cmd := &cobra.Command{
		Use:   "run [PATTERN...]",
		Short: "Play scenarios on clusters of their own, and judge them",
		Long: `Play scenarios on clusters of their own, and judge what they left. A PATTERN names scenarios (see list), with * for a part of
a name; without any those of a default run are played. The same as go test ./suite, without the go tool.`,
		Example: "  watershed run\n  watershed run --short --launcher=process\n  watershed run 'failback/*/*' --seed=42\n  watershed run --level=L0 --bundle .",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settings.Resolve(cmd.Context(), engine.KnownDefects()); err != nil {
				return err
			}
			scenarios, err := selected(&settings, short, args)
			if err != nil {
				return err
			}
			return play(cmd, &settings, scenarios, archive)
		},
	}
	var fs flag.FlagSet
	settings.Register(&fs, os.Getenv)
	cmd.Flags().AddGoFlagSet(&fs)
	cmd.Flags().BoolVar(&short, "short", false, "some scenarios of each kind")
	cmd.Flags().StringVar(&archive, "bundle", "", "`folder` for an archive of all evidence, as watershed bundle makes one")
	// The soak is go test's: it has the time limit and the repetition.
	_ = cmd.Flags().MarkHidden("duration")
	_ = cmd.Flags().MarkHidden("shrink") // as is making violations smaller
	_ = cmd.Flags().MarkHidden("explore")
	_ = cmd.Flags().MarkHidden("corpus")
	return cmd
}

// selected are the scenarios that flags and patterns choose. A pattern that
// chooses nothing is an error.
func selected(settings *engine.Settings, short bool, patterns []string) ([]engine.Scenario, error) {
	if settings.Duration > 0 {
		return nil, errors.New("-duration: a soak is run by go test ./suite -duration=…")
	}
	if settings.Shrink > 0 {
		return nil, errors.New("-shrink: violations are shrunk by go test ./suite -shrink=…")
	}
	if settings.Explore > 0 || settings.CorpusFolder != "" {
		return nil, errors.New("-explore: a search is made by go test ./suite -run '^TestExplore$' -explore=…")
	}
	if settings.PlanGiven || settings.ReplayFile != "" {
		if len(patterns) > 0 {
			return nil, fmt.Errorf("pattern %q: -plan and -replay say what is played", patterns[0])
		}
		sc, err := settings.OneCase()
		return []engine.Scenario{sc}, err
	}
	selection := engine.Default
	switch {
	case settings.Full, len(patterns) > 0:
		selection = engine.Full
	case short:
		selection = engine.Short
	}
	all := engine.Scenarios(selection)
	if settings.Level != nil {
		all = engine.UpTo(*settings.Level, engine.Scenarios(engine.Default))
	}
	if settings.Broker != nil {
		all = engine.Certifying()
	}
	if len(patterns) == 0 {
		return all, nil
	}
	if err := wellFormed(patterns); err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, p := range patterns {
		found := false
		for _, s := range all {
			if matches(p, s.Name) {
				taken[s.Name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("pattern %q matches no scenario (watershed list)", p)
		}
	}
	return slices.DeleteFunc(all, func(s engine.Scenario) bool { return !taken[s.Name] }), nil
}

// wellFormed says whether patterns are.
func wellFormed(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", p, err)
		}
	}
	return nil
}

// matches says whether a pattern is of a scenario: of its name, or of what its name
// begins with.
func matches(pattern, scenario string) bool {
	ok, _ := path.Match(pattern, scenario) // the pattern was checked
	return ok || strings.HasPrefix(scenario, strings.TrimSuffix(pattern, "/")+"/")
}

// play runs the scenarios, as many at once as the machine bears, writes the
// reports, and a bundle into archive where that is given, and ends with what the
// verdicts say.
func play(cmd *cobra.Command, settings *engine.Settings, scenarios []engine.Scenario, archive string) (err error) {
	ctx := cmd.Context()
	if !settings.SeedGiven {
		settings.Seed = uint64(time.Now().UnixMilli())
	}
	if settings.KnownFile != "" {
		if settings.Known, err = report.LoadKnown(settings.KnownFile); err != nil {
			return fmt.Errorf("--known: %w", err)
		}
	}
	folder, leave, err := engine.NewRunFolder(cmp.Or(settings.Out, "out"), settings.Seed, settings.Keep, time.Now())
	if err != nil {
		return err
	}
	defer leave()
	p := &progress{say: func(format string, args ...any) {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "watershed: "+format+"\n", args...)
	}, total: len(scenarios)}
	p.say("seed %d, launcher %s, evidence in %s", settings.Seed, settings.LaunchedBy(), folder)
	if err := fixtures.Prepare(ctx, settings.Launcher); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fixtures.Finish()) }()
	var trouble error
	admission := semaphore.NewWeighted(engine.Capacity())
	var running sync.WaitGroup
	for _, sc := range scenarios {
		weight := min(sc.On(settings.Nodes).Weight(), engine.Capacity())
		if settings.Broker != nil {
			weight = settings.Broker.Weight()
		}
		if err := admission.Acquire(ctx, weight); err != nil {
			trouble = fmt.Errorf("stopped early: %w", context.Cause(ctx))
			break
		}
		running.Go(func() {
			defer admission.Release(weight)
			p.add(one(ctx, settings, folder, sc))
		})
	}
	running.Wait()
	_, reports := engine.WriteSummary(folder, settings, p.results)
	switch {
	case errors.Is(reports, engine.ErrLevel):
		// Nothing is violated that nobody accepts, or that is said instead.
		reports = verdictError{exitInconclusive, reports.Error()}
	case reports != nil:
		p.say("no reports: %v", reports)
	}
	concluded := conclude(cmd.OutOrStdout(), p.results, errors.Join(append(p.troubles, trouble)...))
	var packed error
	if archive != "" {
		if packed = p.pack(settings, folder, archive); packed != nil {
			p.say("no bundle: %v", packed) // also where the run ends with something else
		}
	}
	return cmp.Or(concluded, reports, packed)
}

// pack writes the bundle of a run.
func (p *progress) pack(settings *engine.Settings, folder, into string) error {
	product := "refbroker"
	facts := map[string]string{"launcher": settings.LaunchedBy(), "profile": string(settings.Profile)}
	if settings.Broker != nil {
		product = settings.Broker.String()
		delete(facts, "profile") // that of mirrors
	}
	if settings.Nodes > 0 {
		facts["nodes"] = strconv.Itoa(settings.Nodes)
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return fmt.Errorf("--bundle: %w", err)
	}
	file, sum, err := pack(folder, into, bundle.Options{Product: product, Facts: facts})
	if err != nil {
		return fmt.Errorf("--bundle: %w", err)
	}
	p.say("bundle %s, sha256 %s", file, sum)
	return nil
}

// one plays one scenario.
func one(ctx context.Context, settings *engine.Settings, folder string, sc engine.Scenario) (*engine.Result, error) {
	again := "go run ./suite/cmd/watershed run " + settings.CaseFlags(sc.Name) + " --seed=" + strconv.FormatUint(settings.Seed, 10) + " --launcher=" + settings.Launcher
	again += settings.BrokerFlags()
	if settings.Nodes > 0 {
		again += fmt.Sprintf(" --nodes=%d", settings.Nodes)
	}
	if settings.Profile == check.ProfileLatest {
		again += " --profile=" + string(settings.Profile)
	}
	for _, d := range settings.Defects {
		again += " --defect=" + d
	}
	return engine.Run(ctx, sc, engine.Options{
		Seed: settings.Seed, Folder: folder, Name: sc.Name, Launcher: settings.Launcher, Nodes: settings.Nodes, Profile: settings.Profile,
		Defects: settings.Defects, Broker: settings.Broker, Keep: settings.Keep, Known: settings.Known, Reproduce: again,
	})
}

// progress collects results and says how it goes.
type progress struct {
	say   func(format string, args ...any)
	total int

	mu       sync.Mutex
	results  []*engine.Result
	troubles []error
}

func (p *progress) add(res *engine.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results = append(p.results, res)
	if err != nil {
		p.troubles = append(p.troubles, fmt.Errorf("%s could not run: %w", res.Name, err))
		p.say("%d/%d %s could not run, in %s: %s", len(p.results), p.total, res.Name, engine.Seconds(res.Took), strings.Join(causes(err), "; "))
		return
	}
	p.say("%d/%d %s %s in %s", len(p.results), p.total, res.Name, res.Word(), engine.Seconds(res.Took))
}
