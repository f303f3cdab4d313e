package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"watershed.example/fixtures"
	"watershed.example/fixtures/target"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/report"
)

// Certification says what to certify.
type Certification struct {
	Target *target.Target
	// Level is the one that has to be passed; nil for as far as the target goes.
	Level *contract.Level
	// Seed decides traffic and names.
	Seed uint64
	// Folder gets the evidence and the reports.
	Folder string
	// Scenarios chooses some of those that the target can play; nil for all. No level
	// is then given.
	Scenarios func(Scenario) bool
	Known     []report.Known
	// Reproduce is the command that plays a scenario again.
	Reproduce func(scenario string) string
	// Progress is told what is going on; Played of each scenario's end. Both may be
	// nil.
	Progress func(format string, args ...any)
	Played   func(*Result, error)
}

// Certificate is what a certification came to.
type Certificate struct {
	// Found is what was certified.
	Found    *Found
	Results  []*Result
	Unplayed []Unplayed
	// Rest are scenarios that could be played, and were not, since playing ended before.
	Rest []Unplayed
	// Left is what is not as it was found on the clusters: what was made stays, or a node is
	// not back. Trouble tells of it too.
	Left error
	// higher are scenarios that the target can play above the level that was asked for.
	higher []Scenario
	// never are those that it can't, of all levels.
	never []Unplayed
	// ungrouped is why no story has consumer groups, "" where they have.
	ungrouped string
	Report    report.Result
	// Short says why the level that was asked for is not passed; "" where it is, or
	// where none was asked for.
	Short string
	// Trouble is what kept scenarios from being played to their end.
	Trouble error
}

// Certify plays what a target can, one scenario after the other, and judges it. An
// error says that it could not begin, or that the folder took no more, and then there is
// a certificate of what was played before; nothing is left on the clusters but what it
// names.
func Certify(ctx context.Context, c Certification) (*Certificate, error) {
	if c.Progress == nil {
		c.Progress = func(string, ...any) {}
	}
	if err := writable(c.Folder); err != nil {
		return nil, err
	}
	if err := cmp.Or(c.fits(), c.Target.Tools()); err != nil {
		return nil, err
	}
	t, err := FindTarget(ctx, c.Target, runOf(c.Seed))
	if err != nil {
		return nil, before(ctx, err)
	}
	for i, s := range t.Seen() {
		c.Progress("cluster %s: id %s, %d brokers", c.Target.Clusters[i].Name, s.ID, len(s.Brokers))
	}
	if err := t.Allowed(ctx); err != nil {
		return nil, before(ctx, err)
	}
	play, not, level := c.choose(t)
	if slices.ContainsFunc(play, Scenario.cutsOff) {
		if err := t.WayClear(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case len(play)+len(not) == 0:
		return nil, c.unnamed(t)
	case len(play) == 0:
		return nil, errors.New("the target can play none of these scenarios: " + whyNot(not))
	}
	slices.SortStableFunc(play, func(a, b Scenario) int { return int(a.Level()) - int(b.Level()) })
	cert := &Certificate{Found: c.found(t), Unplayed: not}
	if err := cert.Found.save(c.Folder); err != nil {
		return nil, err
	}
	for i, sc := range play {
		if ctx.Err() != nil {
			cert.Trouble = errors.Join(cert.Trouble, calledOff(ctx, i, len(play)))
			break
		}
		earlier := cert.Trouble
		res, err := Run(ctx, sc, Options{
			Seed: c.Seed, Folder: c.Folder, Name: sc.Name, Launcher: "external", Target: t, Profile: t.Profile(), Known: c.Known,
			Reproduce: c.reproduce(sc.Name),
		})
		cert.Results = append(cert.Results, res)
		if err != nil {
			cert.Trouble = errors.Join(cert.Trouble, fmt.Errorf("%s could not run: %w", sc.Name, err))
		}
		if res.trouble != nil && !errors.Is(err, res.trouble) {
			cert.Trouble = errors.Join(cert.Trouble, fmt.Errorf("%s: %w", sc.Name, res.trouble))
		}
		if c.Played != nil {
			c.Played(res, err)
		}
		if res.Evidence != nil { // its events and logs were needed for the verdicts alone
			res.Evidence = &check.Evidence{Run: res.Evidence.Run}
		}
		cert.Left, _ = fixtures.Left(errors.Join(res.trouble, err))
		switch {
		case err != nil && ctx.Err() != nil:
			// What calling it off broke off tells nothing.
			cert.Trouble = errors.Join(earlier, calledOff(ctx, i, len(play)), cert.Left)
		case errors.Is(cert.Trouble, syscall.ENOSPC):
			// All else that is said of it follows from that.
			cert.Trouble = errors.Join(earlier, fmt.Errorf("%s could not run, and nothing more is played: the disk of the evidence, %s, is full (%w)", sc.Name, c.Folder, syscall.ENOSPC), cert.Left)
			cert.sum(t, c, play, level)
			return cert, cert.Trouble
		default:
			why := t.hopeless(ctx, cert.Left, errors.Join(res.trouble, err))
			if why == "" {
				continue
			}
			for _, rest := range play[i+1:] {
				cert.Rest = append(cert.Rest, Unplayed{rest, why})
			}
			if n := len(cert.Rest); n > 0 {
				cert.Trouble = errors.Join(cert.Trouble, fmt.Errorf("nothing more is played (%d of %d scenarios are left): %s", n, len(play), why))
			}
		}
		break
	}
	cert.sum(t, c, play, level)
	if err := cert.write(c.Folder); err != nil {
		cert.Trouble = errors.Join(cert.Trouble, err)
		return cert, err
	}
	return cert, nil
}

// unnamed says why nothing is chosen by its name.
func (c Certification) unnamed(t *Target) error {
	all, not := t.Scenarios(contract.L4)
	for _, u := range not {
		all = append(all, u.Scenario)
	}
	for _, s := range all {
		if c.Scenarios(s) {
			return fmt.Errorf("scenario %s is of level %s, and no more than %s is to be played", s.Name, s.Level(), min(t.most(), *cmp.Or(c.Level, new(contract.L4))))
		}
	}
	return errors.New("no scenario has such a name (watershed list)")
}

// fits says whether the level that was asked for is one that the target's file allows, and
// can have at all.
func (c Certification) fits() error {
	if c.Level == nil || *c.Level == contract.L0 {
		return nil
	}
	if most := mostOf(c.Target); *c.Level > most {
		return fmt.Errorf("target %s: level: %s is the highest that may be played there, and %s is asked for", c.Target.File, most, *c.Level)
	}
	if c.Target.Mirroring == nil {
		return fmt.Errorf("target %s: mirroring is missing: of clusters without it there is level L0 alone, and %s is asked for", c.Target.File, *c.Level)
	}
	return nil
}

// choose says what is to be played on a target, what can't be, and up to which level.
func (c Certification) choose(t *Target) (play []Scenario, not []Unplayed, level contract.Level) {
	level = t.most()
	if c.Level != nil {
		level = min(level, *c.Level)
	}
	play, not = t.Scenarios(level)
	if c.Scenarios != nil {
		play = slices.DeleteFunc(play, func(s Scenario) bool { return !c.Scenarios(s) })
		not = slices.DeleteFunc(not, func(u Unplayed) bool { return !c.Scenarios(u.Scenario) })
	}
	return play, not, level
}

// sum makes the report of what was played.
func (cert *Certificate) sum(t *Target, c Certification, play []Scenario, level contract.Level) {
	// A requirement that only a higher level exercises is not asked of a lower one.
	higher, never := t.Scenarios(contract.L4)
	cert.never, cert.ungrouped = never, t.Ungrouped()
	cert.higher = slices.DeleteFunc(higher, func(s Scenario) bool { return s.Level() <= level })
	cert.tell(c, play)
}

// Violated says whether a requirement was seen violated that nobody accepts.
func (cert *Certificate) Violated() bool {
	return slices.ContainsFunc(cert.Results, func(r *Result) bool { return len(r.Unaccepted()) > 0 })
}

func (c Certification) reproduce(scenario string) string {
	if c.Reproduce == nil {
		return ""
	}
	return c.Reproduce(scenario)
}

// most is the highest level that the target's file allows.
func (t *Target) most() contract.Level { return mostOf(t.file) }

func mostOf(file *target.Target) contract.Level {
	if l, err := contract.ParseLevel(file.Level); err == nil {
		return l
	}
	return contract.L4
}

// writable makes the folder of the evidence and says whether the disk takes a file.
func writable(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder for evidence: %w", err)
	}
	probe := filepath.Join(folder, ".writable")
	err := os.WriteFile(probe, make([]byte, 1<<20), 0o600)
	if rerr := os.Remove(probe); err == nil {
		err = rerr
	}
	if err != nil {
		return fmt.Errorf("the folder for evidence takes no file: %w", err)
	}
	return nil
}

// whyNot are the reasons, each once.
func whyNot(not []Unplayed) string {
	var all []string
	for _, u := range not {
		if !slices.Contains(all, u.Why) {
			all = append(all, u.Why)
		}
	}
	return cmp.Or(strings.Join(all, "; "), "there is none")
}

// unplayable is the name under which reports tell what the target can't show.
const unplayable = report.Unplayed

// tell makes the report.
func (cert *Certificate) tell(c Certification, play []Scenario) {
	all := report.Result{Launcher: "external (" + c.Target.Product + ")", Scenarios: reports(cert.Results)}
	var members []report.Member
	for _, sc := range append(slices.Clone(play), cert.higher...) {
		members = append(members, report.Member{Scenario: sc.Name, Level: sc.Level(), Requirements: sc.Requirements()})
	}
	if na := cert.unexercised(play); len(na) > 0 && c.Scenarios == nil {
		m := report.Member{Scenario: unplayable, Level: contract.L0}
		for _, v := range na {
			m.Requirements = append(m.Requirements, v.Requirement)
		}
		members = append(members, m)
		all.Scenarios = append(all.Scenarios, report.Scenario{
			Name: unplayable, Run: check.Run{Scenario: unplayable, Seed: c.Seed, Profile: check.Profile(c.Target.Profile), Launcher: "external"}, Verdicts: na,
		})
	}
	if c.Scenarios == nil {
		all.Levels = cert.standings(&all, members, play, c.Level)
		if c.Level != nil {
			if s := all.Levels[*c.Level]; !s.Passed {
				cert.Short = fmt.Sprintf("level %s is not passed: %s", s.Level, s.Why)
			}
		}
	}
	all.Notes = report.Notes(c.Known, all.Scenarios, time.Now())
	cert.Report = all
}

// write writes the reports.
func (cert *Certificate) write(folder string) error {
	var table strings.Builder
	return errors.Join(report.Table(&table, &cert.Report, width),
		report.SaveJSON(filepath.Join(folder, "result.json"), &cert.Report),
		report.SaveJUnit(filepath.Join(folder, "junit.xml"), &cert.Report),
		os.WriteFile(filepath.Join(folder, "verdicts.txt"), []byte(table.String()), 0o644),
	)
}

// unexercised are verdicts on the requirements that only scenarios exercise which
// the target can't play: not applicable, never a pass.
func (cert *Certificate) unexercised(play []Scenario) []check.Verdict {
	var all []check.Verdict
	for _, r := range contract.All() {
		declares := func(s Scenario) bool { return slices.Contains(s.Requirements(), r.ID) }
		if slices.ContainsFunc(play, declares) || slices.ContainsFunc(cert.higher, declares) {
			continue
		}
		grouped := func(s Scenario) bool { s.ungrouped = false; return declares(s) }
		if cert.ungrouped != "" && slices.ContainsFunc(slices.Concat(play, cert.higher), grouped) {
			all = append(all, check.Verdict{Requirement: r.ID, Outcome: check.NotApplicable, Reason: cert.ungrouped})
			continue
		}
		var not []Unplayed
		for _, u := range cert.never {
			if declares(u.Scenario) {
				not = append(not, u)
			}
		}
		if len(not) > 0 {
			all = append(all, check.Verdict{Requirement: r.ID, Outcome: check.NotApplicable, Reason: whyNot(not)})
		}
	}
	return all
}

// standings are those of the levels up to the one that was asked for, or the
// highest. One of which the target can play nothing is not passed.
func (cert *Certificate) standings(all *report.Result, members []report.Member, play []Scenario, asked *contract.Level) []report.Standing {
	standings := all.Standings(members)
	for i := range standings {
		s := &standings[i]
		of := func(sc Scenario) bool { return sc.Level() == s.Level }
		if s.Passed && !slices.ContainsFunc(play, of) {
			var not []Unplayed
			for _, u := range cert.Unplayed {
				if of(u.Scenario) {
					not = append(not, u)
				}
			}
			s.Passed, s.Why = false, "nothing of it can be played: "+whyNot(not)
		}
		if s.Passed {
			s.Why += cert.share(s.Level, play)
		}
	}
	if asked != nil {
		return standings[:*asked+1]
	}
	return standings
}

// share says how many of the scenarios up to a level were played: a level that is
// passed may be passed by few of them.
func (cert *Certificate) share(level contract.Level, play []Scenario) string {
	played, all := 0, 0
	for _, sc := range play {
		if sc.Level() <= level {
			played, all = played+1, all+1
		}
	}
	for _, u := range cert.Unplayed {
		if u.Scenario.Level() <= level {
			all++
		}
	}
	return fmt.Sprintf(" (%d of %d scenarios)", played, all)
}
