package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// A reader that asks without a pause is a finding, but where a node stood still meanwhile,
// from which its client may have waited for metadata in vain.
func TestABusyReaderIsNotBlamedOnABrokerThatStands(t *testing.T) {
	const read, seen = int64(time.Hour), int64(time.Hour + time.Second)
	type happens struct {
		what history.NodeEvent
		at   int64
	}
	for _, c := range []struct {
		name    string
		cluster string
		nodes   []happens
		found   bool
	}{
		{"nobody stood", "B", nil, true},
		{"stood before, and went on", "B", []happens{{history.NodePaused, read - 20}, {history.NodeResumed, read - 10}}, true},
		{"stood afterwards", "B", []happens{{history.NodePaused, seen + 10}}, true},
		{"was killed", "B", []happens{{history.NodeKilled, read + 10}}, true},
		{"another cluster's stood", "A", []happens{{history.NodePaused, read + 10}}, true},
		{"stood meanwhile", "B", []happens{{history.NodePaused, read + 10}, {history.NodeResumed, read + 20}}, false},
		{"stood from before", "B", []happens{{history.NodePaused, read - 10}, {history.NodeResumed, read + 20}}, false},
		{"stood to the end", "B", []happens{{history.NodePaused, read + 10}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(0)
			w.read("ru", 10, tagAt(w.b, 10)).At = read
			w.add(history.Event{Kind: history.KindReaderPosition, At: seen, Reader: &history.Reader{
				Reader: "ru", Cluster: "B", Topic: "t", Isolation: history.ReadUncommitted, Position: 12, IdleFetches: 50000,
			}})
			for _, n := range c.nodes {
				w.add(history.Event{Kind: history.KindNode, At: n.at, Node: &history.Node{Cluster: c.cluster, Node: 1, What: n.what}})
			}
			v := verdicts(t, w)["BAR-6"]
			require.Equal(t, c.found, v.Outcome == Violated, "%v", v.Findings)
		})
	}
}
