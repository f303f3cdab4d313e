package mirror

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/quorum"
)

// A source that takes connections and swallows what is asked names no error by
// itself; the operator reads what is being waited for all the same (OPS-2).
func TestASourceThatDoesNotAnswerIsNamed(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := hole.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			go io.Copy(io.Discard, c) //nolint:errcheck // ends with the connection
		}
	}()
	t.Cleanup(func() { _ = hole.Close(); <-ended })

	d := newDestination(t)
	d.create(hole.Addr().String())
	d.desire(quorum.Mirroring)
	d.await("what is being waited for", func() bool {
		st, _ := d.m.Status("t", topicID, 0)
		return st.Error != ""
	})
	st, _ := d.m.Status("t", topicID, 0)
	require.Contains(t, st.Error, "no answer from the source yet: waiting since")
	require.Contains(t, st.Error, hole.Addr().String())
	require.Contains(t, st.Error, sourceID)
	require.Equal(t, quorum.LogTruncation, d.mirror().State)
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
}

// A fetch that is not answered is named too, and forgotten with the next answer.
func TestAFetchThatIsNotAnsweredIsNamed(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	hold := make(chan struct{})
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	s.put(4, data(11, 1, 4, "late"))
	<-s.held
	d.await("what is being waited for", func() bool {
		st, _ := d.m.Status("t", topicID, 0)
		return st.Error != ""
	})
	st, _ := d.m.Status("t", topicID, 0)
	require.Contains(t, st.Error, "to answer a fetch")
	s.mu.Lock()
	s.hold = nil
	s.mu.Unlock()
	close(hold)
	d.awaitBytes(s.log)
	d.await("no error", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Error == "" })
}

func TestWhatIsSlowIsToldOnceAndNeverAfterwards(t *testing.T) {
	for _, c := range []struct {
		name          string
		takes         time.Duration
		allowed, told int
	}{
		{"quick", 500 * time.Millisecond, 0, 0},
		{"slow", 5 * time.Second, 0, 1},
		{"a long poll", 5 * time.Second, 10, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				failed := errors.New("in the end")
				err := whileSlow("x", time.Duration(c.allowed)*time.Second, func(err error) {
					require.ErrorIs(t, err, errNoAnswer)
					told++
				}, func() error { time.Sleep(c.takes); return failed })
				require.Equal(t, failed, err)
				time.Sleep(time.Minute)
				require.Equal(t, c.told, told)
			})
		})
	}
}
