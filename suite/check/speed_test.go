package check

import (
	"testing"

	"watershed.example/suite/history"
)

// BenchmarkAll judges a run with ten thousand more records on either side.
func BenchmarkAll(b *testing.B) {
	w := newWorld(0)
	for i := range 10_000 {
		w.data(&w.b, 5, "B", "bulk", history.Idempotent, 50, 0, int32(i), 1, history.NoTxn, history.IntentNone, "")
		last := w.b[len(w.b)-1]
		w.read("rc", last.base, last.tags[0].String())
	}
	ev := w.evidence(b)
	for b.Loop() {
		All(ev)
	}
}
