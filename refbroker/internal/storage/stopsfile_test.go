package storage

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

func stopAt(at int64) psm.Stop {
	return psm.Stop{L: at, BarrierOffset: at, Epoch: int32(at) + 1, SourceClusterID: source}
}

// What a crash leaves of a line that was on its way is not believed, wherever it was
// torn; the line before is, and the next one is not lost behind what was torn.
func TestATornLineOfStops(t *testing.T) {
	p := place{fs: afero.NewMemMapFs(), dir: "/t-0"}
	l := openLog(t, p, small(), OpenOptions{})
	file := filepath.Join(p.dir, fileStops)
	require.NoError(t, l.SetStops([]psm.Stop{stopAt(1)}))
	before, err := afero.ReadFile(p.fs, file)
	require.NoError(t, err)
	require.NoError(t, l.SetStops([]psm.Stop{stopAt(1), stopAt(4)}))
	after, err := afero.ReadFile(p.fs, file)
	require.NoError(t, err)
	require.NoError(t, l.Close(false))
	require.True(t, bytes.HasPrefix(after, before), "appended")
	for size := len(before); size <= len(after); size++ {
		for _, zeros := range []bool{false, true} {
			torn := bytes.Clone(after[:size])
			want := []psm.Stop{stopAt(1)}
			if zeros { // the file was longer before its bytes came
				torn = append(torn, make([]byte, len(after)-size)...)
			}
			if size == len(after) {
				want = append(want, stopAt(4))
			}
			require.NoError(t, afero.WriteFile(p.fs, file, torn, 0o644))
			l := openLog(t, p, small(), OpenOptions{})
			require.Equal(t, want, l.Stops(), "%d of %d bytes, zeros behind: %v", size-len(before), len(after)-len(before), zeros)
			want = append(want, stopAt(7))
			require.NoError(t, l.SetStops(want))
			require.NoError(t, l.Close(false))
			l = openLog(t, p, small(), OpenOptions{})
			require.Equal(t, want, l.Stops())
			require.NoError(t, l.Close(false))
		}
	}
}

func TestStopsThatAreNotBelieved(t *testing.T) {
	one, err := encodeStops(barrierLists{stops: []psm.Stop{stopAt(1)}})
	require.NoError(t, err)
	two, err := encodeStops(barrierLists{stops: []psm.Stop{stopAt(1), stopAt(2)}})
	require.NoError(t, err)
	flipped := bytes.Replace(one, []byte(`"l":1`), []byte(`"l":9`), 1)
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"nothing":                {nil, "unexpected EOF"},
		"zeros":                  {make([]byte, 100), "first line is damaged"},
		"half a line":            {one[:20], "first line is damaged"},
		"another list":           {flipped, "CRC"},
		"damage before the last": {append(append(bytes.Clone(one), flipped...), two...), fmt.Sprintf("line at byte %d is damaged", len(one))},
		"of another version":     {bytes.Replace(one, []byte(`"version":2`), []byte(`"version":3`), 1), "version 3, want 2"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := afero.NewMemMapFs()
			require.NoError(t, afero.WriteFile(fsys, filepath.Join("/t-0", fileStops), c.raw, 0o644))
			_, _, err := loadStops(fsys, "/t-0")
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, fileStops)
		})
	}
}

// A list as earlier builds wrote it.
func TestStopsOfVersion1(t *testing.T) {
	fsys := afero.NewMemMapFs()
	require.NoError(t, afero.WriteFile(fsys, filepath.Join("/t-0", fileStops), []byte(`{
 "version": 1,
 "cutEpoch": 3,
 "stops": [{"l": 1, "barrierOffset": 1, "epoch": 2, "sourceClusterId": "`+source+`"}],
 "barriers": []
}
`), 0o644))
	l, end, err := loadStops(fsys, "/t-0")
	require.NoError(t, err)
	require.Zero(t, end, "is written anew")
	require.EqualValues(t, 3, l.cutEpoch)
	require.Equal(t, []psm.Stop{stopAt(1)}, l.stops)
}

// The file does not grow for ever, and what could not be written is not relied upon.
func TestStopsAreWrittenAnew(t *testing.T) {
	disk := &failingFs{Fs: afero.NewMemMapFs()}
	p := place{fs: disk, dir: "/t-0"}
	l := openLog(t, p, small(), OpenOptions{})
	size := func() int64 {
		st, err := disk.Stat(filepath.Join(p.dir, fileStops))
		require.NoError(t, err)
		return st.Size()
	}
	shrunk := false
	before := int64(0)
	for epoch := range int32(1000) {
		require.NoError(t, l.SetCutEpoch(epoch+1))
		shrunk = shrunk || size() < before
		before = size()
		require.Less(t, before, int64(20<<10))
	}
	require.True(t, shrunk)
	disk.fail = func(string) bool { return true }
	require.Error(t, l.SetCutEpoch(2000))
	require.EqualValues(t, 1000, l.CutEpoch())
	disk.fail = nil
	require.NoError(t, l.SetCutEpoch(2001))
	require.Less(t, size(), int64(200), "as one line")
	require.NoError(t, l.Close(false))
	l = openLog(t, p, small(), OpenOptions{})
	require.EqualValues(t, 2001, l.CutEpoch())
	require.NoError(t, l.Close(false))
}
