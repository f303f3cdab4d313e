package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are how commands are called, by their paths, of those that don't
// show it themselves.
func examples() map[string][]string {
	return map[string][]string{
		"topics create":        {"topics create orders --partitions 3 --replication-factor 3 --config min.insync.replicas=2"},
		"topics list":          {"topics list --bootstrap-server 127.0.0.1:19092"},
		"topics describe":      {"topics describe orders payments"},
		"topics delete":        {"topics delete orders"},
		"topics reassignments": {"topics reassignments"},
		"groups list":          {"groups list"},
		"groups describe":      {"groups describe billing"},
		"groups delete":        {"groups delete billing"},
		"mirrors": {
			"mirrors create east --source 127.0.0.1:19092",
			"mirrors start east orders --wait",
			"mirrors describe east",
			"mirrors stop east orders --wait",
		},
		"mirrors create":   {"mirrors create east --source 10.0.0.1:9092,10.0.0.2:9092"},
		"mirrors start":    {"mirrors start east orders payments --wait", "mirrors start east --pattern 'orders-.*' --exclude '.*-tmp'"},
		"mirrors pause":    {"mirrors pause east orders"},
		"mirrors resume":   {"mirrors resume east orders --wait"},
		"mirrors stop":     {"mirrors stop east orders --wait --timeout 2m", "mirrors stop east --pattern '.*' --wait"},
		"mirrors delete":   {"mirrors delete east"},
		"mirrors list":     {"mirrors list -o json"},
		"mirrors describe": {"mirrors describe", "mirrors describe east -o json"},
		"mirrors configs":  {"mirrors configs east", "mirrors configs east --set mirror.replication.throttled.rate=10000000"},
		"mirrors bump":     {"mirrors bump orders --above 40"},
		"hooks": {
			"hooks --socket /tmp/east.sock arm before:truncated hold orders-0",
			"hooks --socket /tmp/east.sock await before:truncated orders-0",
			"hooks --socket /tmp/east.sock release before:truncated",
		},
		"hooks arm":     {"hooks --socket /tmp/east.sock arm before:barrier-appended crash"},
		"hooks await":   {"hooks --socket /tmp/east.sock await before:truncated orders-0"},
		"hooks release": {"hooks --socket /tmp/east.sock release before:truncated orders-0"},
		"hooks crash":   {"hooks --socket /tmp/east.sock crash", "hooks --socket /tmp/east.sock crash after:stopped"},
		"hooks status":  {"hooks --socket /tmp/east.sock status"},
		"hooks relay":   {"hooks --socket /tmp/east.sock relay"},
		"hooks suffer":  {"hooks --socket /tmp/east.sock suffer disk-full", "hooks --socket /tmp/east.sock suffer slow-sync=200ms clock=-1h", "hooks --socket /tmp/east.sock suffer"},
		"version":       {"version"},
	}
}

// giveExamples has the help of each command show how it is called.
func giveExamples(root *cobra.Command) {
	for path, lines := range examples() {
		c, _, err := root.Find(strings.Fields(path))
		if err == nil && c.Example == "" {
			c.Example = "  refbroker " + strings.Join(lines, "\n  refbroker ")
		}
	}
}
