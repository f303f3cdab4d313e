package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// wide are the stops of a topic of a hundred partitions and of one of a thousand.
func wide(few, many time.Duration) *told {
	o := &told{}
	for _, t := range []struct {
		topic string
		n     int32
		took  time.Duration
	}{{"few", 100, few}, {"many", 1000, many}} {
		o.add(history.Event{Kind: history.KindMirrorRPCBegin, MirrorRPC: &history.MirrorRPC{Cluster: "B", API: stopAPI, Mirror: "ops", Topics: []string{t.topic}}})
		m := &history.Many{Partitions: t.n, Took: t.took.Nanoseconds()}
		for i := range t.n {
			m.Ends = append(m.Ends, history.StoppedEnd{Partition: i, State: "STOPPED", End: 1})
		}
		o.probe(history.Probe{What: history.ProbeStopMany, Topic: t.topic, State: "MIRRORING", After: "STOPPED", Many: m})
	}
	return o
}

func TestAThousandPartitionsStop(t *testing.T) {
	const second = time.Second
	ends := func(f func(e *history.StoppedEnd)) func(*told) {
		return func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Probe != nil && e.Probe.Many.Partitions == 1000 {
					f(&e.Probe.Many.Ends[777])
				}
			})
		}
	}
	for _, tc := range []struct {
		name      string
		few, many time.Duration
		spoil     func(*told)
		want      Outcome
		says      string
	}{
		{"linear", second, 10 * second, nil, Held, "1000 partitions stopped by one request in 10s, 100 in 1s"},
		{"a busy machine", second, 29 * second, nil, Held, "in 29s"},
		{"few in no time", time.Millisecond, 29 * second, nil, Held, "in 29s"},
		{"quadratic", second, 100 * second, nil, Violated, "to stop within 30s"},
		{"one does not stop", second, second, ends(func(e *history.StoppedEnd) { e.State = "STOPPING" }), Violated, "999 of them"},
		{"one is not there", second, second, ends(func(e *history.StoppedEnd) { e.Partition = 776 }), Violated, "all 1000 partitions STOPPED"},
		{"one without a barrier", second, second, ends(func(e *history.StoppedEnd) { e.Barrier, e.End = -1, 0 }), Violated, "partition 777"},
		{"one with two", second, second, ends(func(e *history.StoppedEnd) { e.End = 2 }), Violated, "log end 2"},
		{"one at another place", second, second, ends(func(e *history.StoppedEnd) { e.Barrier, e.End = 1, 2 }), Violated, "barrier at 1"},
		{"refused", second, second, func(o *told) {
			refused := refusedBy(42)
			o.edit(func(e *history.Event) {
				if e.Probe != nil {
					e.Probe.Result = &refused
				}
			})
		}, Violated, "accepted"},
		{"in two requests", second, second, func(o *told) { o.add(o.events[2]) }, Inconclusive, "asked for 2 times"},
		{"without a smaller one", second, second, func(o *told) { o.events = o.events[2:] }, Inconclusive, "fewer partitions"},
		{"without a thousand", second, second, func(o *told) { o.events = o.events[:2] }, Inconclusive, "no stop of 1000"},
		{"nothing was tried", second, second, func(o *told) { o.events = nil }, Inconclusive, "no stop"},
		{"nobody knows", second, second, func(o *told) {
			lost := history.Result{Outcome: history.Unknown}
			o.edit(func(e *history.Event) {
				if e.Probe != nil {
					e.Probe.Result = &lost
				}
			})
		}, Inconclusive, "no stop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := wide(tc.few, tc.many)
			if tc.spoil != nil {
				tc.spoil(o)
			}
			ev := &Evidence{Run: Run{Exercises: []string{"OPS-3"}}, Events: o.events}
			for i := range ev.Events {
				ev.Events[i].Seq = int64(i + 1)
			}
			v := judged(ev)["OPS-3"]
			require.Equal(t, tc.want, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
}

func TestAsManyPartitionsStopAsTheRunSays(t *testing.T) {
	for _, tc := range []struct {
		partitions int32
		want       Outcome
	}{{1000, Held}, {100, Inconclusive}, {500, Inconclusive}} {
		run := Run{Exercises: []string{"OPS-3"}, Options: Options{StopMany: 500}}
		o := wide(time.Second, time.Second)
		if tc.partitions < 1000 {
			o.events = o.events[:2] // a hundred alone
		}
		if tc.partitions == 500 {
			o.events = nil
		}
		v := judged(&Evidence{Run: run, Events: o.events})["OPS-3"]
		require.Equal(t, tc.want, v.Outcome, v.Reason)
	}
}
