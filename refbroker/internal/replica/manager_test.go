package replica

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
)

func TestPartitionsComeAndGoWithTheImage(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	w.tops["elsewhere"] = &quorum.Topic{Name: "elsewhere", Partitions: []*quorum.Partition{{Replicas: []int32{2}}}}
	w.apply()
	add(t, p, plain("a"), anyEpoch(ForClient))

	api, err := w.m.Partition("t", 0)
	require.NoError(t, err)
	require.Same(t, p, api.(*Partition))
	byID, ok := w.m.GetByID(p.TopicID(), 0)
	require.True(t, ok)
	require.Same(t, p, byID)
	require.Equal(t, []*Partition{p}, w.m.All())
	_, err = w.m.Partition("elsewhere", 0)
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	_, err = w.m.Partition("t", 1)
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
	require.Equal(t, "t-0", p.Name())

	delete(w.tops, "t")
	w.apply()
	_, err = w.m.Partition("t", 0)
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
	_, err = p.Append(t.Context(), plain("b"), anyEpoch(ForClient))
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	require.Equal(t, []string{}, folders(t, w.fs), "the log is gone")

	p = w.topic("t", nil, node)
	require.Empty(t, all(t, p), "a topic of the same name is another")
}

// folders lists the folders of logs.
func folders(t *testing.T, fsys afero.Fs) []string {
	t.Helper()
	entries, err := afero.ReadDir(fsys, "/data/logs")
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestRestart(t *testing.T) {
	for name, clean := range map[string]bool{"clean": true, "killed": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.topic("t", map[string]string{"segment.bytes": "200"}, node)
			for range 9 {
				add(t, p, plain("a", "b"), anyEpoch(ForClient))
			}
			g, _, err := p.StartVerification(1, 0, 0, true)
			require.NoError(t, err)
			add(t, p, records(1, 0, 0, true, "open"), AppendOptions{LeaderEpoch: -1, Guard: g})
			want, before := all2(t, p), p.Offsets()
			require.NoError(t, w.m.Close(clean))
			marked, err := afero.Exists(w.fs, "/data/logs/"+cleanMark)
			require.NoError(t, err)
			require.Equal(t, clean, marked)
			w.start()
			marked, err = afero.Exists(w.fs, "/data/logs/"+cleanMark)
			require.NoError(t, err)
			require.False(t, marked, "from now on a stop is unclean")
			w.apply()
			p = w.get("t")
			require.Equal(t, want, all2(t, p))
			before.LeaderSince = before.LogEnd // a new leadership
			require.Equal(t, before, p.Offsets())
			_, ongoing, err := p.StartVerification(1, 0, 1, true)
			require.NoError(t, err)
			require.True(t, ongoing)
		})
	}
}

// all2 reads segment by segment.
func all2(t *testing.T, p *Partition) []string {
	t.Helper()
	var out []string
	for at := int64(0); at < p.Offsets().HighWatermark; {
		got := values(t, read(t, p, consumer(at)).Raw)
		require.NotEmpty(t, got)
		out = append(out, got...)
		at += int64(len(got))
	}
	return out
}

// A node that starts from an image that lags behind its disk loses no log.
func TestLogsAreNotLostToOldImages(t *testing.T) {
	w := newWorld(t)
	old := *w.topicValue("t", 1)
	w.tops["t"] = &old
	w.apply()
	delete(w.tops, "t")
	w.apply()
	newer := *w.topicValue("t", 2)
	w.tops["t"] = &newer
	w.apply()
	add(t, w.get("t"), plain("precious"), anyEpoch(ForClient))
	require.NoError(t, w.m.Close(true))

	w.start()
	w.tops = map[string]*quorum.Topic{}
	w.apply()
	require.Equal(t, []string{"t-0"}, folders(t, w.fs), "not in the image yet")
	w.tops["t"] = &old
	w.apply()
	require.Empty(t, all(t, w.get("t")))
	delete(w.tops, "t")
	w.apply()
	w.tops["t"] = &newer
	w.apply()
	require.Equal(t, []string{"0:precious"}, all(t, w.get("t")))
	require.Equal(t, []string{"t-0"}, folders(t, w.fs))
}

func (w *world) topicValue(name string, id byte) *quorum.Topic {
	return &quorum.Topic{Name: name, ID: [16]byte{id}, Partitions: []*quorum.Partition{{Replicas: []int32{node}, ISR: []int32{node}, Leader: node}}}
}

func TestLeftOversOfDeletesGo(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.m.Close(true))
	require.NoError(t, w.fs.MkdirAll("/data/logs/t-0.00ff-delete", 0o755))
	w.start()
	require.Empty(t, folders(t, w.fs))
}

func TestTopicConfigs(t *testing.T) {
	for name, c := range map[string]struct {
		configs map[string]string
		want    string
	}{
		"good":          {map[string]string{"segment.bytes": "100", "preallocate": "x", "message.timestamp.type": "LogAppendTime"}, ""},
		"no number":     {map[string]string{"segment.bytes": "big"}, `segment.bytes="big"`},
		"too small":     {map[string]string{"min.insync.replicas": "0"}, `min.insync.replicas="0"`},
		"unknown value": {map[string]string{"message.timestamp.type": "Never"}, `message.timestamp.type="Never"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateTopicConfigs(c.configs)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			_, err = NewManager(Config{Host: host.Host{FS: afero.NewMemMapFs()}, Dir: "/data", TopicDefaults: c.configs})
			require.ErrorContains(t, err, "topic defaults")
		})
	}

	w := newWorld(t)
	p := w.topic("t", map[string]string{"max.message.bytes": "70"}, node)
	_, err := p.Append(t.Context(), plain("0123456789"), anyEpoch(ForClient))
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	w.edit("t", func(q *quorum.Topic, _ *quorum.Partition) {
		q.Configs = map[string]string{"message.timestamp.type": "LogAppendTime"}
	})
	require.EqualValues(t, 1_000_000, add(t, p, plain("0123456789"), anyEpoch(ForClient)).LogAppendTime)
}

// The checkpoints are written each minute, and never say after a cut that more
// is on disk than the log has.
func TestCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.topic("t", map[string]string{"segment.bytes": "150"}, node)
		p := w.mirrored("t", 1)
		s, err := p.BeginMirror()
		require.NoError(t, err)
		for i := range int64(6) {
			_, err := p.AppendMirrored(s, at(plain("a"), i, 0))
			require.NoError(t, err)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		require.Equal(t, "0\n1\nt 0 4\n", content(t, w.fs, fileRecovery))
		require.Equal(t, "0\n1\nt 0 6\n", content(t, w.fs, fileHigh))
		require.Equal(t, "0\n0\n", content(t, w.fs, fileStart))

		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.LeaderEpoch = 2 })
		require.NoError(t, p.Cut(3, 2))
		require.Equal(t, "0\n1\nt 0 3\n", content(t, w.fs, fileRecovery))
		marks, err := parseOffsets([]byte(content(t, w.fs, fileRecovery)))
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"t-0": 3}, marks)
	})
}

func content(t *testing.T, fsys afero.Fs, name string) string {
	t.Helper()
	raw, err := afero.ReadFile(fsys, filepath.Join("/data/logs", name))
	require.NoError(t, err)
	return string(raw)
}

func TestBadCheckpoints(t *testing.T) {
	for _, bad := range []string{"1\n0\n", "0\n", "0\nx\n", "0\n2\nt 0 1\n", "0\n1\nt 0\n", "0\n1\nt x 1\n", "0\n1\nt 0 x\n"} {
		fsys := afero.NewMemMapFs()
		require.NoError(t, fsys.MkdirAll("/data/logs", 0o755))
		require.NoError(t, afero.WriteFile(fsys, "/data/logs/"+fileRecovery, []byte(bad), 0o644))
		_, err := NewManager(Config{Host: host.Host{FS: fsys}, Dir: "/data/logs"})
		require.ErrorContains(t, err, fileRecovery, "%q", bad)
	}
}

func TestReadOnlyDisk(t *testing.T) {
	_, err := NewManager(Config{Host: host.Host{FS: afero.NewReadOnlyFs(afero.NewMemMapFs())}, Dir: "/data/logs"})
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "logs folder /data/logs")
}

// fullFs refuses to write to files that match.
type fullFs struct {
	afero.Fs
	refuse string
}

var errFull = errors.New("no space left on device")

func (f *fullFs) OpenFile(name string, flag int, perm fs.FileMode) (afero.File, error) {
	if f.refuse != "" && flag&(os.O_RDWR|os.O_WRONLY) != 0 && strings.Contains(name, f.refuse) {
		return nil, errFull
	}
	return f.Fs.OpenFile(name, flag, perm)
}

// What an image wants and the disk refuses is not in force, and tried again.
func TestApplyIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	disk := &fullFs{Fs: w.fs}
	require.NoError(t, w.m.Close(true))
	w.fs = disk
	w.start()
	disk.refuse = ".log"
	w.tops["t"] = w.topicValue("t", 1)
	img := &quorum.Image{Topics: w.tops}
	require.ErrorIs(t, w.m.Apply(img), errFull)
	_, ok := w.m.Get("t", 0)
	require.False(t, ok)
	disk.refuse = ""
	w.apply()
	p := w.mirrored("t", 1)

	// A stop that can't be noted is not followed: the role stays the old.
	disk.refuse = "mirror-stops"
	next := *w.tops["t"]
	q := *next.Partitions[0]
	q.LeaderEpoch, q.Mirror.Stops = 2, []psm.Stop{{L: 0, BarrierOffset: 0, Epoch: 2, SourceClusterID: source}}
	next.Partitions = []*quorum.Partition{&q}
	w.tops["t"] = &next
	require.ErrorIs(t, w.m.Apply(&quorum.Image{Topics: w.tops}), errFull)
	_, epoch := p.Leader()
	require.EqualValues(t, 1, epoch)
	disk.refuse = ""
	w.apply()
	_, epoch = p.Leader()
	require.EqualValues(t, 2, epoch)
	require.Contains(t, content(t, w.fs, "t-0/mirror-stops.json"), source)
}

func TestApplyAfterClose(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.m.Close(true))
	require.Error(t, w.m.Apply(&quorum.Image{}))
	require.NoError(t, w.m.Close(true), "twice is fine")
}

func TestAllIsInOrder(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"b", "a", "c"} {
		w.topic(name, nil, node)
	}
	var names []string
	for _, p := range w.m.All() {
		names = append(names, p.Name())
	}
	require.True(t, slices.IsSorted(names))
	require.Len(t, names, 3)
}

// RO-4: what one partition waits for must not keep another read-only.
func TestAPartitionDoesNotWaitForAnother(t *testing.T) {
	w := newWorld(t)
	image := func(state quorum.MirrorState) *quorum.Image {
		w.index++
		top := &quorum.Topic{Name: "t", ID: [16]byte{1}, Mirror: "m"}
		for range 2 {
			top.Partitions = append(top.Partitions, &quorum.Partition{
				Replicas: []int32{node}, ISR: []int32{node}, Leader: node, LeaderEpoch: 1,
				Mirror: quorum.MirrorPartition{State: state, Aligned: true},
			})
		}
		return &quorum.Image{Index: w.index, Topics: map[string]*quorum.Topic{"t": top}}
	}
	require.NoError(t, w.m.Apply(image(quorum.Stopping)))
	busy := w.get("t")
	p, ok := w.m.Get("t", 1)
	require.True(t, ok)
	require.True(t, p.ReadOnly())

	busy.order.Lock() // as while it is being cut
	done := make(chan error, 1)
	go func() { done <- w.m.Apply(image(quorum.Stopped)) }()
	require.Eventually(t, func() bool { return !p.ReadOnly() }, 10*time.Second, time.Millisecond)
	require.True(t, busy.ReadOnly())
	busy.order.Unlock()
	require.NoError(t, <-done)
	require.False(t, busy.ReadOnly())
}
