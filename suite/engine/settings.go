package engine

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"watershed.example/fixtures"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/report"
)

// Settings are what a person chooses about a run. Each has a flag and a
// variable of the same meaning, since flags of go test reach only the package
// that has them; a flag wins over its variable.
type Settings struct {
	// Seed decides traffic and faults of every scenario.
	Seed uint64
	// SeedGiven is false when nobody chose the seed.
	SeedGiven bool
	// Launcher is how brokers are started, and Why says why that one.
	Launcher, Why string
	// Out is the folder for evidence; empty for out in the module's root.
	Out string
	// Nodes is how many nodes each cluster has; 0 for as many as its scenario says.
	Nodes int
	// Profile is the text of KIP-1279 that the clusters of scenarios follow which
	// have none of their own.
	Profile check.Profile
	// Broker is what is certified where that is no reference broker: a single cluster,
	// by the scenarios of L0; nil for none.
	Broker *Broker
	// Keep leaves the brokers' data folders and the evidence of earlier runs.
	Keep bool
	// Full runs every scenario of the matrix, and the defects.
	Full bool
	// Level takes the scenarios up to one, and fails when it is not passed; nil for none.
	Level *contract.Level
	// Duration repeats the scenarios with fresh seeds until it is over; 0 for not.
	Duration time.Duration
	// Shard is the part, of so many Shards, that a matrix is played of, from 1; 0 for
	// the whole.
	Shard, Shards int
	// KnownFile lists violations that somebody accepts, and Known is what it says.
	KnownFile string
	Known     []report.Known
	// Defects make the brokers wrong on purpose.
	Defects []string
	// TargetFile describes clusters that run already, on which to play instead of on
	// those of a launcher.
	TargetFile string

	// Played says which case a person gave, and what is to be done with violations.
	Played

	all []*setting
}

// setting is the text that was given for one flag or its variable. It accepts
// anything, so that Resolve can say in one line what is wrong.
type setting struct {
	name, usage, value string
	isBool, isList     bool
	source             string // "-seed" or "WATERSHED_SEED"; empty when not given
}

func (s *setting) String() string   { return s.value }
func (s *setting) IsBoolFlag() bool { return s.isBool }

// Type lets the help of a command line tell switches from flags that take a value.
func (s *setting) Type() string {
	if s.isBool {
		return "bool"
	}
	return "value"
}

func (s *setting) Set(v string) error {
	if s.isList && s.source == "-"+s.name {
		v = s.value + "," + v
	}
	s.value, s.source = v, "-"+s.name
	return nil
}

func (s *setting) variable() string { return "WATERSHED_" + strings.ToUpper(s.name) }

// Register adds the flags to fs, with what getenv gives as their defaults.
func (s *Settings) Register(fs *flag.FlagSet, getenv func(string) string) {
	s.all = []*setting{
		{name: "seed", usage: "`N` decides traffic and faults; a run prints its own when none is given"},
		{name: "launcher", value: "auto", usage: "how brokers are started, `NAME`: " + strings.Join(fixtures.Names(), ", ")},
		{name: "nodes", usage: "how many nodes each cluster has, `N`: 1 or 3 (default: as its scenario says)"},
		{name: "broker", value: refbrokerName, usage: "what single clusters are made of, `NAME`: " + strings.Join(brokerNames, ", ") + "; another than the reference broker is certified at level L0"},
		{name: "jars", usage: "`folder` of the jars of -broker=kafka: a distribution, or what ci/kafka-fetch prints (default: where that puts them)"},
		{name: "image", usage: "Docker's `image` of -broker=kafka, which has a distribution in /opt/kafka, or of -broker=redpanda"},
		{name: "profile", value: string(check.ProfileV42), usage: "text of KIP-1279 that brokers follow, `NAME`: kip1279-v42 or kip1279-latest"},
		{name: "out", usage: "`folder` for evidence and reports (default: out in the module's root)"},
		{name: "keep", isBool: true, usage: "keep the brokers' data folders and the evidence of earlier runs"},
		{name: "full", isBool: true, usage: "every scenario of the matrix, and the defects"},
		{name: "level", usage: "the scenarios up to level `L0..L4`, which must be passed (contract, \"Levels\")"},
		{name: "duration", usage: "soak: repeat the scenarios with fresh seeds for so long, such as `1h`"},
		{name: "shard", usage: "the part `I/N` of a matrix, such as 1/8: parts cost the same, and are all of it together"},
		{name: "known", usage: "`FILE` of violations that are accepted, each with requirement, scenario, reason, until"},
		{name: "target", usage: "`FILE` of clusters that run already, to certify them (docs/certify.md) instead of starting some"},
		{name: "defect", isList: true, usage: "make the brokers wrong on purpose, in the way `NAME` says, or NAME@CLUSTER those of one cluster (repeatable)"},
	}
	s.all = append(s.all, playedSettings()...)
	for _, f := range s.all {
		if v := getenv(f.variable()); v != "" {
			f.value, f.source = v, f.variable()
		}
		fs.Var(f, f.name, f.usage)
	}
}

// Usage prints the flags and their variables.
func (s *Settings) Usage(w io.Writer) {
	_, _ = fmt.Fprintln(w, "Usage: go test ./suite [-v] [-short] [-run TestScenarios/...] [flags of the suite]\n\nFlags of the suite:")
	for _, f := range s.all {
		arg, usage := "", f.usage
		if before, rest, ok := strings.Cut(f.usage, "`"); ok {
			name, after, _ := strings.Cut(rest, "`")
			arg, usage = " "+name, before+name+after
		}
		_, _ = fmt.Fprintf(w, "  -%-14s %-20s %s\n", f.name+arg, f.variable(), usage)
	}
	_, _ = fmt.Fprintln(w, "\nThe flags of go test itself: go help testflag")
}

// LaunchedBy is how brokers are started, and why so, in a few words.
func (s *Settings) LaunchedBy() string { return fmt.Sprintf("%s (%s)", s.Launcher, s.Why) }

// Resolve checks what was given, and that the broker to certify is there. Its error is one line that names the flag or
// variable and the value.
func (s *Settings) Resolve(ctx context.Context, knownDefects []string) error {
	for _, f := range s.all {
		bad := func(why string) error { return fmt.Errorf("%s %q: %s", f.source, f.value, why) }
		var err error
		switch f.name {
		case "seed":
			if f.source == "" {
				continue
			}
			s.SeedGiven = true
			if s.Seed, err = strconv.ParseUint(f.value, 10, 64); err != nil {
				return bad("want a whole number from 0 to 18446744073709551615")
			}
		case "launcher":
			l, why, err := fixtures.Choose(f.value)
			if err != nil {
				return fmt.Errorf("%s %q: %w", cmp.Or(f.source, "-"+f.name), f.value, err)
			}
			s.Launcher, s.Why = l.Name(), why
		case "nodes":
			switch f.value {
			case "":
			case "1", "3":
				s.Nodes = int(f.value[0] - '0')
			default:
				return bad("want 1 or 3")
			}
		case "broker":
			var err error
			if s.Broker, err = brokerOf(f.value, s.text("jars"), s.text("image")); err != nil {
				return bad(err.Error())
			}
		case "jars":
			if f.value != "" && s.text("broker") != kafkaName {
				return bad("only -broker=" + kafkaName + " has jars")
			}
		case "image":
			switch b := s.text("broker"); {
			case f.value == "":
			case b != kafkaName && b != redpandaName:
				return bad("only -broker=" + kafkaName + " and -broker=" + redpandaName + " have images")
			case s.text("jars") != "":
				return bad("-jars names a folder; one of them is wanted")
			}
		case "profile":
			if s.Profile = check.Profile(f.value); s.Profile != check.ProfileV42 && s.Profile != check.ProfileLatest {
				return bad("want kip1279-v42 or kip1279-latest")
			}
		case "level":
			if f.value == "" {
				continue
			}
			level, err := contract.ParseLevel(f.value)
			if err != nil {
				return bad(err.Error())
			}
			s.Level = &level
		case "duration":
			if f.value == "" {
				continue
			}
			if s.Duration, err = time.ParseDuration(f.value); err != nil || s.Duration <= 0 {
				return bad("want a time such as 20m or 1h")
			}
		case "shard":
			if f.value == "" {
				continue
			}
			if s.Shard, s.Shards, err = parseShard(f.value); err != nil {
				return bad(err.Error())
			}
		case "plan", "topology", "replay", "healthy", "shrink", "explore", "corpus":
			if err := s.resolve(f); err != nil {
				return bad(err.Error())
			}
		case "target":
			s.TargetFile = f.value
		case "known":
			s.KnownFile = f.value
		case "out":
			s.Out = f.value
		case "keep", "full":
			v := false
			if f.source != "" {
				if v, err = strconv.ParseBool(f.value); err != nil {
					return bad("want true or false")
				}
			}
			if f.name == "keep" {
				s.Keep = v
			} else {
				s.Full = v
			}
		case "defect":
			for d := range strings.SplitSeq(f.value, ",") {
				if d = strings.TrimSpace(d); d == "" {
					continue
				}
				if name, _, _ := strings.Cut(d, "@"); !slices.Contains(knownDefects, name) {
					return bad("unknown defect " + strconv.Quote(d) + " (known: " + strings.Join(knownDefects, ", ") + ")")
				}
				s.Defects = append(s.Defects, d)
			}
		}
	}
	return s.fits(ctx)
}

// text is what was given for a flag.
func (s *Settings) text(name string) string {
	for _, f := range s.all {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// fits says what does not go together, above all with a broker that is no reference broker.
func (s *Settings) fits(ctx context.Context) error {
	b := s.text("broker")
	switch {
	case s.CorpusFolder != "" && s.Explore == 0:
		return errors.New("-corpus is what -explore goes on from: give that too")
	case s.Broker == nil:
		return nil
	case s.Level != nil && *s.Level > contract.L0:
		return fmt.Errorf("-level=%s with -broker=%s: a single cluster has no mirrors; its level is L0", *s.Level, b)
	case len(s.Defects) > 0:
		return fmt.Errorf("-defect=%s with -broker=%s: only the reference broker has defects", s.Defects[0], b)
	case s.Nodes > 1 && s.Broker.Kfake != nil:
		return fmt.Errorf("-nodes=%d with -broker=%s: %s", s.Nodes, b, s.Broker.Kfake.Cannot(fixtures.Replicating, s.Nodes))
	case s.Launcher != "process" && s.text("launcher") != "auto":
		return fmt.Errorf("-launcher=%s with -broker=%s: its launcher is process", s.Launcher, b)
	}
	if s.Launcher != "process" {
		s.Launcher, s.Why = "process", "-broker="+b
	}
	return s.Broker.Check(ctx)
}

// BrokerFlags are the flags that name the broker, to run the same again; each
// begins with a space, and has the two dashes that commands and go test both take.
func (s *Settings) BrokerFlags() string {
	if s.Broker == nil {
		return ""
	}
	flags := " --broker=" + s.text("broker")
	if jars := s.text("jars"); jars != "" {
		flags += " --jars=" + jars
	}
	if image := s.text("image"); image != "" {
		flags += " --image=" + image
	}
	return flags
}
