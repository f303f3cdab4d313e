package storage

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// onDisk is the place whose files are the system's.
func onDisk(t testing.TB) place {
	for _, p := range places(t) {
		if p.name != "memory" {
			return p
		}
	}
	t.Fatal("no place on disk")
	return place{}
}

// A section begins with the batches that a read of the same range has, and goes
// on as far as it may, whatever the sizes of batches and the way that indexes
// fall. (A read may end a batch earlier: it does not look for its end.)
func TestASectionIsWhatAReadReturns(t *testing.T) {
	for seed := range uint64(3) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		l := openLog(t, onDisk(t), Config{SegmentBytes: 400_000, IndexInterval: 1 + rnd.IntN(20_000), Now: now}, OpenOptions{})
		largest := []int{100, 3000, 60_000}[seed%3]
		for l.Size() < 900_000 {
			d := plain(1 + rnd.IntN(5))
			d.size = rnd.IntN(largest)
			lead(t, l, d.build(), client)
		}
		end := l.Marks().LogEnd
		found := 0
		for range 300 {
			offset := rnd.Int64N(end)
			upper := end
			if rnd.IntN(2) == 0 {
				upper = offset + rnd.Int64N(end-offset+1)
			}
			most, minOne := rnd.IntN(300_000), rnd.IntN(2) == 0
			s, err := l.Section(offset, upper, most, minOne)
			require.NoError(t, err)
			if s == nil {
				continue
			}
			found++
			want, err := l.Read(offset, upper, most, minOne)
			require.NoError(t, err)
			var got bytes.Buffer
			_, err = s.WriteTo(&got)
			require.NoError(t, err)
			require.True(t, bytes.HasPrefix(got.Bytes(), want), "[%d, %d) in %d bytes: %d bytes, want %d", offset, upper, most, got.Len(), len(want))
			require.Equal(t, int64(got.Len()), s.Size())
			require.Equal(t, lastOf(t, got.Bytes())+1, s.Next(), "no gaps here")
			require.LessOrEqual(t, s.Next(), upper)
			first, err := psm.DecodeHeader(got.Bytes())
			require.NoError(t, err)
			require.True(t, got.Len() <= most || minOne && got.Len() == first.Size, "%d bytes, at most %d", got.Len(), most)
			if s.Next() < upper && got.Len() <= most {
				after, err := l.Read(s.Next(), end, 1, true)
				require.NoError(t, err)
				b, err := psm.DecodeHeader(after)
				require.NoError(t, err)
				require.True(t, b.LastOffset >= upper || got.Len()+b.Size > most || startsSegment(l, b.BaseOffset), "a batch more fits")
			}
			s.Release()
		}
		require.Greater(t, found, 30, "seed %d", seed)
	}
}

func startsSegment(l *Log, offset int64) bool {
	return slices.ContainsFunc(l.segments, func(s *segment) bool { return s.base == offset })
}

func sectionOf(t *testing.T, n int) (*Log, *Section) {
	t.Helper()
	l := openLog(t, onDisk(t), Config{Now: now}, OpenOptions{})
	for range n {
		d := plain(1)
		d.size = 10_000
		lead(t, l, d.build(), client)
	}
	s, err := l.Section(1, int64(n), 1<<30, true)
	require.NoError(t, err)
	require.NotNil(t, s)
	require.Equal(t, int64(n), s.Next())
	return l, s
}

// What is larger than all buffers on the way goes over a connection, from the
// right position, to more than one at a time.
func TestASectionGoesOverConnections(t *testing.T) {
	l, s := sectionOf(t, 2000)
	want, err := l.Read(1, 2000, 1<<30, true)
	require.NoError(t, err)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = server.Close() }()
	sent := make(chan error, 2)
	for range 2 {
		in, err := net.Dial("tcp", server.Addr().String())
		require.NoError(t, err)
		defer func() { _ = in.Close() }()
		out, err := server.Accept()
		require.NoError(t, err)
		go func() {
			n, err := s.WriteTo(out)
			if err == nil && n != int64(len(want)) {
				err = io.ErrShortWrite
			}
			_ = out.Close()
			sent <- err
		}()
		defer func() {
			got, err := io.ReadAll(in)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), "%d bytes, want %d", len(got), len(want))
			require.NoError(t, <-sent)
		}()
	}
}

func TestASectionOfALogThatIsCutIsNotIntact(t *testing.T) {
	l, s := sectionOf(t, 20)
	defer s.Release()
	require.True(t, s.Intact())
	lead(t, l, plain(1).build(), client)
	require.True(t, s.Intact(), "an append changes nothing of it")
	_, err := l.TruncateTo(10)
	require.NoError(t, err)
	require.False(t, s.Intact())
	_, err = s.WriteTo(io.Discard)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the file is shorter")
}

// The file stays until the section is released, though the log is closed.
func TestASectionOutlivesItsLog(t *testing.T) {
	l, s := sectionOf(t, 20)
	require.NoError(t, l.Close(true))
	var got bytes.Buffer
	_, err := s.WriteTo(&got)
	require.NoError(t, err)
	b, err := psm.DecodeHeader(got.Bytes())
	require.NoError(t, err)
	require.Equal(t, int64(1), b.BaseOffset)
	s.Release()
	_, err = s.WriteTo(io.Discard)
	require.Error(t, err, "closed with the last that used it")
	again, err := l.Section(1, 20, 1<<30, true)
	require.ErrorIs(t, err, ErrClosed)
	require.Nil(t, again)
}

func TestFilesInMemoryHaveNoSections(t *testing.T) {
	for _, p := range places(t) {
		if p.name != "memory" {
			continue
		}
		l := openLog(t, p, Config{Now: now}, OpenOptions{})
		d := plain(1)
		d.size = 100_000
		lead(t, l, d.build(), client)
		s, err := l.Section(0, 1, 1<<30, true)
		require.NoError(t, err)
		require.Nil(t, s)
	}
}
