package mirror

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A fetch that is not answered is named too, and forgotten with the next answer.
func TestAFetchThatIsNotAnsweredIsNamed(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.mu.Lock()
	s.hold = make(chan struct{})
	s.mu.Unlock()
	s.put(4, data(11, 1, 4, "late"))
	<-s.held
	d.await("what is being waited for", func() bool {
		st, _ := d.m.Status("t", topicID, 0)
		return st.Error != ""
	})
	st, _ := d.m.Status("t", topicID, 0)
	require.Contains(t, st.Error, "to answer a fetch")
	s.release()
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
