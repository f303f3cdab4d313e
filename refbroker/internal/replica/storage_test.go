package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// A disk that refuses is one line in the log for a row of refused appends, and
// another once it has recovered and refuses again.
func TestRefusingDiskIsLoggedOnce(t *testing.T) {
	w := newWorld(t)
	disk := &fullFs{Fs: w.fs}
	require.NoError(t, w.m.Close(true))
	w.fs = disk
	w.start()
	p := w.topic("t", map[string]string{"segment.bytes": "100"}, node)
	var log bytes.Buffer
	p.logger = slog.New(slog.NewTextHandler(&log, nil))
	write := func() error { // each needs a segment of its own
		_, err := p.Append(t.Context(), plain(strings.Repeat("v", 60)), anyEpoch(ForClient))
		return err
	}
	require.NoError(t, write())
	for _, lines := range []int{1, 2} {
		disk.refuse = ".log"
		for range 3 {
			require.ErrorIs(t, write(), kerr.KafkaStorageError)
		}
		disk.refuse = ""
		require.NoError(t, write())
		require.Equal(t, lines, strings.Count(log.String(), "append refused by the storage"), log.String())
		require.Contains(t, log.String(), "partition=t-0")
		require.Contains(t, log.String(), errFull.Error())
	}
}
