package mirror

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
)

// Settings are the configs of a mirror that may change while it runs.
type Settings struct {
	Topics, Groups Selection
	// Refresh is how often the source is asked for topics, their partitions, and
	// groups' offsets.
	Refresh time.Duration
	// Rate is how many bytes a second are fetched at the most; 0 for no limit.
	Rate int64
}

// Selection chooses names by patterns.
type Selection struct{ include, exclude []*regexp.Regexp }

// Has says whether a name is chosen.
func (s Selection) Has(name string) bool { return matches(s.include, name) && !s.Excludes(name) }

// Excludes says whether a name is excluded, included or not.
func (s Selection) Excludes(name string) bool { return matches(s.exclude, name) }

// None says whether nothing can be chosen.
func (s Selection) None() bool { return len(s.include) == 0 }

func matches(patterns []*regexp.Regexp, name string) bool {
	return slices.ContainsFunc(patterns, func(r *regexp.Regexp) bool { return r.MatchString(name) })
}

const (
	defaultRefresh = 5 * time.Second
	minRefresh     = 100 * time.Millisecond
	minRate        = 1024
)

// Defaults are the configs of a mirror that says nothing. They are KIP-1279's,
// but for the refresh (there a minute): what a group has committed since the last
// one is read again after a failover.
func Defaults() map[string]string {
	return map[string]string{
		mirrorrpc.ConfigTopicsInclude: "",
		mirrorrpc.ConfigTopicsExclude: "__.*",
		mirrorrpc.ConfigGroupsInclude: ".*",
		mirrorrpc.ConfigGroupsExclude: "",
		mirrorrpc.ConfigRefresh:       strconv.FormatInt(defaultRefresh.Milliseconds(), 10),
		mirrorrpc.ConfigThrottle:      strconv.FormatInt(math.MaxInt64, 10),
	}
}

// ReadSettings reads a mirror's configs. It refuses a bad one by its name.
func ReadSettings(configs map[string]string) (Settings, error) {
	value := func(name string) string {
		if v, ok := configs[name]; ok {
			return v
		}
		return Defaults()[name]
	}
	var s Settings
	var errs [6]error
	s.Topics.include, errs[0] = patternsOf(mirrorrpc.ConfigTopicsInclude, value)
	s.Topics.exclude, errs[1] = patternsOf(mirrorrpc.ConfigTopicsExclude, value)
	s.Groups.include, errs[2] = patternsOf(mirrorrpc.ConfigGroupsInclude, value)
	s.Groups.exclude, errs[3] = patternsOf(mirrorrpc.ConfigGroupsExclude, value)
	var refresh int64
	refresh, errs[4] = numberOf(mirrorrpc.ConfigRefresh, value, minRefresh.Milliseconds(), math.MaxInt32)
	s.Refresh = time.Duration(refresh) * time.Millisecond
	s.Rate, errs[5] = numberOf(mirrorrpc.ConfigThrottle, value, minRate, math.MaxInt64)
	if s.Rate == math.MaxInt64 {
		s.Rate = 0
	}
	return s, errors.Join(errs[:]...)
}

func numberOf(name string, value func(string) string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(value(name), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("config %s: %q is no number from %d to %d: %w", name, value(name), least, most, kerr.InvalidConfig)
	}
	return n, nil
}

func patternsOf(name string, value func(string) string) ([]*regexp.Regexp, error) {
	all, err := Patterns(SplitPatterns(value(name)))
	if err != nil {
		return nil, fmt.Errorf("config %s: %w", name, err)
	}
	return all, nil
}

// SplitPatterns splits a list of patterns; JoinPatterns makes one.
func SplitPatterns(list string) []string {
	var all []string
	for p := range strings.SplitSeq(list, ",") {
		if p = strings.TrimSpace(p); p != "" {
			all = append(all, p)
		}
	}
	return all
}

// JoinPatterns makes a list of patterns, each once.
func JoinPatterns(patterns []string) string {
	var all []string
	for _, p := range patterns {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return strings.Join(all, ",")
}

// Patterns compiles patterns, which match whole names. A bad one is refused by
// its own text.
func Patterns(patterns []string) ([]*regexp.Regexp, error) {
	var all []*regexp.Regexp
	for _, p := range patterns {
		r, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w: %w", p, err, kerr.InvalidRegularExpression)
		}
		all = append(all, r)
	}
	return all, nil
}
