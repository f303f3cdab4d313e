package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"watershed.example/fixtures"
	"watershed.example/fixtures/target"
	"watershed.example/mirrorrpc"
	"watershed.example/suite/contract"
	"watershed.example/suite/engine"
)

// doctorTarget says what can be certified on a target, and makes nothing there but
// one topic, which it deletes.
func doctorTarget(cmd *cobra.Command, file string) error {
	t, err := target.Load(file)
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	line := func(what, format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out, "%-22s %s\n", what, fmt.Sprintf(format, args...))
		}
	}
	found, ferr := engine.FindTarget(ctx, t, fmt.Sprintf("%x", time.Now().UnixMilli()))
	if ferr != nil {
		return ferr
	}
	line("product", "%s, profile %s", t.Product, t.Profile)
	for i, s := range found.Seen() {
		c := t.Clusters[i]
		line("cluster "+c.Name, "id %s, %s, %s", s.ID, many(len(s.Brokers), "broker"), spoken(c))
		if level, ok := s.Features[mirrorrpc.Feature]; ok {
			line("", "feature %s is at level %d", mirrorrpc.Feature, level)
		} else if t.Mirroring != nil && t.Mirroring.Adapter == target.KIP1279 {
			line("", "WARNING: it tells of no feature %s, which adapter kip1279 needs", mirrorrpc.Feature)
		}
		can := fixtures.CapableOf(&target.Target{Faults: t.Faults, Clusters: []*target.Cluster{c}}, 1)
		line("", "nodes: stop %s, kill %s, pause %s; mirrors of it can be cut off: %s", yes(can.Stop), yes(can.Kill), yes(can.Pause), yes(can.Cut))
	}
	for _, c := range t.Clusters {
		mirrors := t.Mirroring != nil && t.Mirroring.Adapter == target.KIP1279
		remains, rerr := fixtures.RemainsOn(ctx, c, t.Prefix, mirrors)
		sayRemains(line, c.Name, remains, causes(rerr))
	}
	for _, missing := range causes(t.Tools()) {
		line("programs", "WARNING: %s", missing)
	}
	if aerr := found.Allowed(ctx); aerr != nil {
		return aerr
	}
	line("rights", "topics are created, written in transactions, and deleted; producers are described")
	if werr := found.WayClear(ctx); werr != nil {
		line("proxies", "WARNING: %v", werr)
	}
	if why := found.Ungrouped(); why != "" {
		line("consumer groups", "GRP-1 is not applicable: %s", why)
	}
	play, not := found.Scenarios(contract.L4)
	for _, l := range contract.Levels() {
		n, all := 0, 0
		for _, sc := range play {
			if sc.Level() == l {
				n++
			}
		}
		why := map[string]bool{}
		var reasons []string
		for _, u := range not {
			if u.Scenario.Level() == l {
				all++
				if !why[u.Why] {
					why[u.Why] = true
					reasons = append(reasons, u.Why)
				}
			}
		}
		line("level "+l.String(), "%d of %d scenarios", n, n+all)
		for _, r := range reasons {
			line("", "not the others: %s", r)
		}
	}
	return err
}

// mostNamed is how many names of one kind are told.
const mostNamed = 20

// sayRemains says what lies on a cluster under the target's prefix, and what of it is not
// known.
func sayRemains(line func(what, format string, args ...any), cluster string, r fixtures.Remains, unknown []string) {
	what, found := "left on "+cluster, false
	for _, kind := range []struct {
		name  string
		names []string
	}{{"mirrors", r.Mirrors}, {"topics", r.Topics}, {"groups", r.Groups}} {
		n := len(kind.names)
		if n == 0 {
			continue
		}
		more := ""
		if n > mostNamed {
			more = fmt.Sprintf(" and %d more", n-mostNamed)
		}
		line(what, "%s %s%s", kind.name, strings.Join(kind.names[:min(n, mostNamed)], ", "), more)
		what, found = "", true
	}
	if found {
		line("", "by an earlier run, or by one that goes on: docs/certify.md, \"What an earlier run left\", says how to remove it")
	}
	for _, u := range unknown {
		line(what, "not known: %s", u)
		what = ""
	}
}

// spoken says how a cluster is spoken to.
func spoken(c *target.Cluster) string {
	how := "plain text"
	if c.TLS != nil {
		how = "TLS"
		if c.TLS.Insecure {
			how = "TLS WITHOUT VERIFYING CERTIFICATES"
		}
	}
	if c.SASL != nil {
		how += ", " + c.SASL.Mechanism + " as " + c.SASL.Username
	}
	return strings.TrimSpace(how)
}

// many is a number of things.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
