package psm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// testLog is a log in memory with a state, and snapshots in a folder.
type testLog struct {
	t         testing.TB
	cfg       psm.Config
	batches   []psm.Batch
	state     *psm.State
	snapshots *psm.Snapshots
	stops     []psm.Stop
}

func newLog(tb testing.TB, cfg psm.Config) *testLog {
	tb.Helper()
	return &testLog{t: tb, cfg: cfg, state: psm.New(cfg), snapshots: psm.NewSnapshots(psm.OSDir(tb.TempDir()), nil)}
}

func (l *testLog) append(o psm.Origin, batches ...*psm.Batch) []psm.Completed {
	l.t.Helper()
	done := apply(l.t, l.state, o, batches...)
	for _, b := range batches {
		l.batches = append(l.batches, *b)
	}
	return done
}

func (l *testLog) setStops(stops ...psm.Stop) bool {
	l.stops = stops
	return l.state.SetStops(stops)
}

// replay gives the log's batches as storage does.
func (l *testLog) replay(from, to int64, each func(*psm.Batch) error) error {
	for i := range l.batches {
		b := l.batches[i]
		if b.LastOffset >= from && b.LastOffset < to {
			if err := each(&b); err != nil {
				return err
			}
		}
	}
	return nil
}

// reopen gives the state that a restart makes of [start, target).
func (l *testLog) reopen(start, target int64) *psm.State {
	l.t.Helper()
	s := psm.New(l.cfg)
	s.SetStops(psm.CutStops(l.stops, target))
	require.NoError(l.t, s.Reload(l.snapshots, psm.Reload{LogStart: start, Target: target, NowMs: 1000, Replay: l.replay}))
	return s
}

// truncate cuts the log and its state to offset.
func (l *testLog) truncate(offset int64) {
	l.t.Helper()
	for i := range l.batches {
		if l.batches[i].LastOffset >= offset {
			l.batches = l.batches[:i]
			break
		}
	}
	l.setStops(psm.CutStops(l.stops, offset)...)
	require.NoError(l.t, l.state.Reload(l.snapshots, psm.Reload{Target: offset, NowMs: 1000, Replay: l.replay}))
}
