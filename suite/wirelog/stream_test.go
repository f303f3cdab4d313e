package wirelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
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

// A batch of any size is read, checked and compared, and its beginning is held.
func TestLargeBatchesPassBy(t *testing.T) {
	one := golden(t, "B/t2-0")
	const size = 3*maxHeld + 12345
	sealed := func(change int) []byte {
		b := large(one, size)
		if change >= 0 {
			b[change] ^= 1
		}
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[crcFrom:], castagnoli))
		return b
	}
	first := sealed(-1)
	for name, tc := range map[string]struct {
		data  []byte
		valid bool
		same  bool
		next  bool
	}{
		"whole":                 {append(bytes.Clone(first), one...), true, true, true},
		"behind a small one":    {append(bytes.Clone(one), append(bytes.Clone(first), one...)...), true, true, true},
		"last":                  {first, true, true, false},
		"another end":           {append(sealed(size-1), one...), true, false, true},
		"another middle":        {append(sealed(maxHeld), one...), true, false, true},
		"another beginning":     {append(sealed(maxHeld-1), one...), true, false, true},
		"a flipped bit far out": {append(append(bytes.Clone(first[:size-1]), 1), one...), false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var whole Batch
			for b, err := range Segment("0.log", tc.data) {
				require.NoError(t, err)
				if b.Size() == size {
					whole = b
				}
			}
			s := folder(t, map[string][]byte{"0.log": tc.data}).Stream()
			b, err := s.Next()
			for err == nil && b.Size() < size {
				b, err = s.Next()
			}
			require.NoError(t, err)
			require.Len(t, b.Raw, maxHeld)
			require.Equal(t, int64(size), b.Size())
			require.Equal(t, tc.valid, b.CRCValid)
			require.LessOrEqual(t, len(s.buf), maxHeld)
			other := folder(t, map[string][]byte{"0.log": first}).Stream()
			a, err := other.Next()
			require.NoError(t, err)
			require.Equal(t, tc.same, a.SameFrom(&b, 16))
			_, err = b.Records()
			require.ErrorIs(t, err, ErrBeyond)
			b.Raw, b.rest, b.unheld = whole.Raw, 0, 0
			require.Equal(t, whole, b)
			b, err = s.Next()
			if tc.next {
				require.NoError(t, err)
				require.True(t, b.CRCValid)
			} else {
				require.ErrorIs(t, err, io.EOF)
			}
			require.NoError(t, other.Close())
			require.NoError(t, s.Close())
		})
	}
}

// A segment that is made shorter while a large batch passes by is torn.
func TestLargeBatchIsCutWhileItIsRead(t *testing.T) {
	one := golden(t, "B/t2-0")
	l := folder(t, map[string][]byte{"0.log": append(bytes.Clone(one), large(one, 2*maxHeld)...), "1.log": one})
	s := l.Stream()
	for range 2 {
		_, err := s.Next()
		require.NoError(t, err)
	}
	require.NoError(t, os.Truncate(filepath.Join(l.Dir, "0.log"), int64(len(one)+maxHeld+7)))
	for n := 0; ; n++ {
		_, err := s.Next()
		if err == nil {
			continue
		}
		var problem *Problem
		require.ErrorAs(t, err, &problem)
		require.True(t, problem.Torn)
		require.Equal(t, int64(len(one)), problem.Position)
		require.Equal(t, int64(maxHeld+7), problem.Rest)
		break
	}
	b, err := s.Next()
	require.NoError(t, err)
	require.Equal(t, "1.log", b.Segment)
	require.NoError(t, s.Close())
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
