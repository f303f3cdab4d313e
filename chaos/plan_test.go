package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func plans() *rapid.Generator[Plan] {
	return rapid.Custom(func(t *rapid.T) Plan {
		p := Plan{
			Kind:  rapid.SampledFrom(append(AllKinds(), None)).Draw(t, "kind"),
			Link:  rapid.StringMatching(`[A-Z][a-z0-9]{0,5}->[A-Z]`).Draw(t, "link"),
			Point: rapid.SampledFrom(Points()).Draw(t, "point"),
			Seed:  rapid.Uint64().Draw(t, "seed"),
			When:  When{Stop: rapid.IntRange(0, 3).Draw(t, "stop"), UntilStopped: rapid.Bool().Draw(t, "until stopped")},
		}
		if p.Kind == Latency {
			p.Delay = time.Duration(rapid.Int64Range(0, int64(maxDelay)).Draw(t, "delay"))
			p.Jitter = time.Duration(rapid.Int64Range(0, int64(maxDelay)).Draw(t, "jitter"))
		}
		if p.Kind == Bandwidth {
			p.Rate = rapid.Int64Range(0, maxRate).Draw(t, "rate")
		}
		return p
	})
}

func TestAPlanPrintsAndParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plans().Draw(t, "plan")
		line := p.String()
		require.NotContains(t, line, "\n")
		got, err := Parse(line)
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
	require.Equal(t, "latency link=A->B at=before:truncated delay=80ms jitter=40ms seed=7", Plan{
		Kind: Latency, Link: "A->B", Point: "before:truncated", Delay: 80 * time.Millisecond, Jitter: 40 * time.Millisecond, Seed: 7,
	}.String())
}

func TestAPlanThatIsWrongIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"":                                "empty line",
		"flood":                           `unknown fault "flood" (known: none, partition, partition-to-source,`,
		"reset at":                        `"at" is not key=value`,
		"reset at=before:settled":         `"" is no name of a link`,
		"reset link=A->B":                 `unknown point "" (known: before:fetchers-removed,`,
		"reset link=A->B at=during:lunch": `unknown point "during:lunch"`,
		"reset link=A->B at=before:settled delay=1s":      "reset knows no delay",
		"reset link=A->B link=A->B":                       "link is there twice",
		"reset link=A->B at=before:settled seed=x":        "seed: ",
		"reset link=A->B at=before:settled colour=red":    `unknown key "colour"`,
		"reset link=A->B at=before:settled rate=5":        "reset knows no rate",
		"bandwidth link=A->B at=before:settled rate=-5":   "rate -5 must lie between",
		"bandwidth link=A->B at=before:settled rate=fast": "rate: ",
		"latency link=A->B at=before:settled delay=5":     "delay: ",
		"latency link=A->B at=before:settled delay=-5ms":  "must lie between 0 and 1m0s",
		"reset link=A->B at=before:settled stop=first":    "stop: ",
		"reset link=A->B at=before:settled stop=-1":       "stop -1 must lie between 0 and",
		"reset link=A->B at=before:settled until=lunch":   `until: want "stopped"`,
		"latency link=A->B at=before:settled jitter=200h": "must lie between 0 and 1m0s",
	} {
		_, err := Parse(line)
		require.ErrorContains(t, err, want, line)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range Schedule(1, "A->B", 20) {
		f.Add(p.String())
	}
	f.Add("bandwidth link=A->B at=before:settled rate=20000")
	f.Add("latency link== at=  delay=1s")
	f.Fuzz(func(t *testing.T, line string) {
		p, err := Parse(line)
		if err != nil {
			return
		}
		again, err := Parse(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

func TestAScheduleIsTheSeedsAndEven(t *testing.T) {
	n := len(Kinds()) * len(Points())
	a := Schedule(7, "A->B", n)
	require.Equal(t, a, Schedule(7, "A->B", n))
	require.NotEqual(t, a, Schedule(8, "A->B", n))
	require.Equal(t, a[:10], Schedule(7, "A->B", 10))
	kinds, points := map[Kind]int{}, map[string]int{}
	for _, p := range a {
		require.NoError(t, p.Validate())
		kinds[p.Kind]++
		points[p.Point]++
	}
	for _, k := range Kinds() {
		require.Equal(t, len(Points()), kinds[k], k)
	}
	for _, p := range Points() {
		require.Equal(t, len(Kinds()), points[p], p)
	}
}

func TestPointsComeInPairsInOrder(t *testing.T) {
	points := slices.DeleteFunc(Points(), func(p string) bool { return p == recordedPoint })
	require.Len(t, points, 14)
	for i := 0; i < len(points); i += 2 {
		before, ok := strings.CutPrefix(points[i], "before:")
		require.True(t, ok)
		require.Equal(t, "after:"+before, points[i+1])
	}
	require.Equal(t, slices.Index(Points(), "before:truncated")+1, slices.Index(Points(), recordedPoint))
}
