package main

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryDifferenceIsFound(t *testing.T) {
	one := client{name: "java", behaviours: []string{"records"}}
	fact := func(value any) facts { return facts{"records": {"offsets": value}} }
	for name, c := range map[string]struct {
		kafka, ours facts
		same        int
		differences []string
	}{
		"the same":            {fact([]any{1.0, "a"}), fact([]any{1.0, "a"}), 1, nil},
		"another value":       {fact([]any{1.0}), fact([]any{2.0}), 0, []string{"offsets\n    Kafka      [1]\n    refbroker  [2]"}},
		"within a map":        {fact(map[string]any{"a": 1.0, "b": 2.0}), fact(map[string]any{"a": 1.0, "b": 3.0}), 0, []string{"offsets / b\n    Kafka      2\n    refbroker  3"}},
		"an entry less":       {fact(map[string]any{"a": 1.0}), fact(map[string]any{}), 0, []string{"offsets / a\n    Kafka      1\n    refbroker  (nothing)"}},
		"a fact less":         {fact(1.0), facts{}, 0, []string{"offsets\n    Kafka      1\n    refbroker  (nothing)"}},
		"nothing at all":      {facts{}, facts{}, 0, []string{"no fact at all"}},
		"failed against both": {facts{"records": {"failed": "x"}}, facts{"records": {"failed": "x"}}, 1, []string{"failed against both: x"}},
		"explained":           {fact2("max-timestamp", 6), fact2("max-timestamp", -1), 0, nil},
		"nearly explained":    {fact2("max-timestamp", 7), fact2("max-timestamp", -1), 0, []string{"offsets-at-the-end / max-timestamp\n    Kafka      [7,1000000000100,0]\n    refbroker  [-1,-1,-1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &report{}
			r.compare(one, c.kafka, c.ours)
			require.Equal(t, c.same, r.same)
			require.Equal(t, len(c.differences), r.differences)
			for i, d := range c.differences {
				require.Equal(t, "java, records: "+d, r.details[i])
			}
		})
	}
}

func fact2(name string, offset float64) facts {
	value := []any{offset, 1000000000100.0, 0.0}
	if offset < 0 {
		value = []any{-1.0, -1.0, -1.0}
	}
	return facts{"records": {"offsets-at-the-end": map[string]any{name: value}}}
}

func TestDumpsAreComparedLineByLine(t *testing.T) {
	barrier := "| offset: 5 keySize: 4 valueSize: 26 sequence: -1 headerKeys: []"
	same, known, differences := compareDumps(
		map[string][]string{"a": {"x", "y", barrier + " controlType: UNKNOWN(7)", "only here"}},
		map[string][]string{"a": {"x", "z", barrier + ` MirrorPidReset {"version":0,"sourceClusterId":"A"}`}},
	)
	require.Equal(t, 1, same)
	require.Equal(t, 1, known)
	require.Equal(t, []string{"a, line 2\n    Kafka      y\n    refbroker  z", "a, line 4\n    Kafka      only here\n    refbroker  "}, differences)
	require.False(t, barrierLine(barrier+" controlType: UNKNOWN(7)", strings.Replace(barrier, "5", "6", 1)+` MirrorPidReset {"version":0,"sourceClusterId":"A"}`))
	require.Equal(t, []string{"baseOffset: 0 isvalid: false"}, complaints([]byte("baseOffset: 0 isvalid: false\n| payload: Exception\nok\n")))
}

// The counter knows a busy loop from a reader that waits, and from one that it
// has not seen.
func TestFetchesAreCounted(t *testing.T) {
	broker, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = broker.Close() }()
	go func() {
		for {
			c, err := broker.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }() // answers with what it was asked
		}
	}()
	p, err := startFetchCounter(broker.Addr().String())
	require.NoError(t, err)
	defer p.Close()
	c, err := net.Dial("tcp4", p.Addr())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	ask := func(key uint16) {
		body := binary.BigEndian.AppendUint16(nil, key)
		body = append(append(body, 0, 12, 0, 0, 0, 1, 0, 6), "java-1"...)
		frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
		_, err := c.Write(frame)
		require.NoError(t, err)
		_, err = io.ReadFull(c, frame)
		require.NoError(t, err)
	}
	ask(3)
	require.Equal(t, "0 fetches", p.Calm("java"))
	ask(1)
	require.Equal(t, "calm", p.Calm("java"))
	require.Equal(t, "0 fetches", p.Calm("kcat"))
	for range mostFetches {
		ask(1)
	}
	require.Equal(t, "101 fetches", p.Calm("java"))
	p.Reset("java")
	require.Equal(t, "0 fetches", p.Calm("java"))
}

func TestEveryExplainedDifferenceIsToldToPeople(t *testing.T) {
	raw, err := os.ReadFile("../../docs/conformance.md")
	require.NoError(t, err)
	for _, e := range allExplained {
		require.Contains(t, string(raw), e.reason)
	}
}
