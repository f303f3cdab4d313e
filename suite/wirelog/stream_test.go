package wirelog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// streamed reads a log by its stream; batches are copied.
func streamed(t testing.TB, l *Log) (batches []Batch, problems []*Problem) {
	t.Helper()
	s := l.Stream()
	for {
		b, err := s.Next()
		var problem *Problem
		switch {
		case errors.Is(err, io.EOF):
			size, err := l.Size()
			require.NoError(t, err)
			require.Equal(t, size, s.Passed)
			require.NoError(t, s.Close())
			return batches, problems
		case errors.As(err, &problem):
			problems = append(problems, problem)
		default:
			require.NoError(t, err)
			b.Raw = bytes.Clone(b.Raw)
			batches = append(batches, b)
		}
	}
}

func folder(t testing.TB, files map[string][]byte) *Log {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	l, err := Open(dir)
	require.NoError(t, err)
	return l
}

// Who keeps a stream that is closed keeps no buffer with it.
func TestClosedStreamHoldsNoBuffer(t *testing.T) {
	s := folder(t, map[string][]byte{"0.log": golden(t, "B/t2-0")}).Stream()
	_, err := s.Next()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Nil(t, s.buf)
}

func TestStreamReadsWhatReadReads(t *testing.T) {
	one := golden(t, "B/t2-0")
	tests := map[string]map[string][]byte{
		"small":              {"0.log": one},
		"over the buffer":    {"0.log": bytes.Repeat(one, 3*streamBuffer/len(one)), "1.log": one},
		"torn":               {"0.log": one[:len(one)-9], "1.log": one},
		"empty":              {"0.log": nil, "1.log": one},
		"preallocated":       {"0.log": append(bytes.Clone(one), make([]byte, 2*streamBuffer)...), "1.log": one},
		"rest after zeroes":  {"0.log": append(append(bytes.Clone(one), make([]byte, 2*streamBuffer)...), 1)},
		"a few bytes":        {"0.log": one[:7]},
		"header alone":       {"0.log": one[:61]},
		"a bad checksum":     {"0.log": append([]byte{}, append(bytes.Clone(one[:70]), append([]byte{one[70] ^ 1}, one[71:]...)...)...)},
		"a batch of 3 MiB":   {"0.log": append(large(one, 3<<20), one...)},
		"larger than it may": {"0.log": one[:60]},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			l := folder(t, files)
			want, wantProblems, err := l.Read()
			require.NoError(t, err)
			got, problems := streamed(t, l)
			require.Equal(t, len(want), len(got))
			for i := range want {
				require.Equal(t, want[i], got[i])
			}
			require.Equal(t, len(wantProblems), len(problems))
			for i, p := range problems {
				require.Equal(t, wantProblems[i].Position, p.Position)
				require.Equal(t, wantProblems[i].Torn, p.Torn)
			}
			require.NoError(t, l.Close())
		})
	}
}

// large is the first batch of a log, made as large as size by what lies behind its records.
func large(log []byte, size int) []byte {
	b := append(bytes.Clone(log[:61]), make([]byte, size-61)...)
	b[8], b[9], b[10], b[11] = byte((size-12)>>24), byte((size-12)>>16), byte((size-12)>>8), byte(size-12)
	return b
}

func FuzzStream(f *testing.F) {
	f.Add(golden(f, "B/t1-0"))
	f.Add(golden(f, "A/t2-0")[:300])
	f.Fuzz(func(t *testing.T, data []byte) {
		l := folder(t, map[string][]byte{"00000000000000000000.log": data})
		want, _, err := l.Read()
		require.NoError(t, err)
		got, _ := streamed(t, l)
		require.LessOrEqual(t, len(got), len(want)) // magic 0 and 1 are told by another text
		for i := range got {
			require.Equal(t, want[i], got[i])
		}
		require.NoError(t, l.Close())
	})
}

func TestProducerSnapshots(t *testing.T) {
	for _, name := range []string{"B/t1-0/00000000000000000011.snapshot", "B/t2-0/00000000000000000022.snapshot", "A/t2-0/00000000000000000023.snapshot"} {
		data, err := os.ReadFile("testdata/kip1279-segments/" + name)
		require.NoError(t, err)
		state, err := ReadSnapshot(data)
		require.NoError(t, err)
		switch name[:6] {
		case "A/t2-0":
			require.Empty(t, state) // A's own barrier lies right before it
		case "B/t1-0":
			// 1001 wrote behind the barrier at 9; that build forgot to forget the others.
			require.Equal(t, []int64{0, 1, 8, 1001}, []int64{state[0].ProducerID, state[1].ProducerID, state[2].ProducerID, state[3].ProducerID})
			require.Equal(t, []int64{4, 7, 8, 10}, []int64{state[0].LastOffset, state[1].LastOffset, state[2].LastOffset, state[3].LastOffset})
		case "B/t2-0":
			var ids, last []int64
			for _, e := range state {
				ids, last = append(ids, e.ProducerID), append(last, e.LastOffset)
				require.Equal(t, int64(-1), e.CurrentTxnFirstOffset)
			}
			require.Equal(t, []int64{2, 3, 4, 5, 6, 7}, ids)
			require.Equal(t, []int64{-1, -1, 18, -1, 12, 13}, last)
		}
		for _, bad := range [][]byte{nil, data[:9], append(bytes.Clone(data), 0), append([]byte{9}, data[1:]...)} {
			_, err := ReadSnapshot(bad)
			require.Error(t, err)
		}
	}
}
