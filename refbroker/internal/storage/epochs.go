package storage

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"sort"

	"github.com/spf13/afero"
)

// EpochStart is an entry of a leader epoch cache: the first offset that was
// written in a leader epoch.
type EpochStart struct {
	Epoch  int32
	Offset int64
}

// epochCache knows where each leader epoch of a log starts. Epochs and start
// offsets both strictly rise. It is kept in Kafka's leader-epoch-checkpoint.
type epochCache struct {
	fs      afero.Fs
	name    string
	entries []EpochStart
	// dirty: the checkpoint does not have all entries.
	dirty bool
}

// loadEpochs reads the checkpoint. ok is false when there is none or it can't
// be trusted; the entries are then to be found in the log again.
func loadEpochs(fsys afero.Fs, name string) (c *epochCache, ok bool, err error) {
	c = &epochCache{fs: fsys, name: name}
	raw, err := readFileIfAny(fsys, name)
	if err != nil {
		return nil, false, err
	}
	entries, perr := ParseEpochCheckpoint(raw)
	if raw == nil || perr != nil {
		c.dirty = true
		return c, false, nil
	}
	c.entries = entries
	return c, true, nil
}

// ParseEpochCheckpoint decodes a leader-epoch-checkpoint: a version line (0),
// the number of entries, then one "epoch offset" a line.
func ParseEpochCheckpoint(raw []byte) ([]EpochStart, error) {
	sc := bufio.NewScanner(bytes.NewReader(raw))
	var version, n int
	if !sc.Scan() {
		return nil, fmt.Errorf("leader epoch checkpoint: empty")
	}
	if _, err := fmt.Sscanf(sc.Text(), "%d", &version); err != nil || version != 0 {
		return nil, fmt.Errorf("leader epoch checkpoint: version %q, want 0", sc.Text())
	}
	if !sc.Scan() {
		return nil, fmt.Errorf("leader epoch checkpoint: no count")
	}
	if _, err := fmt.Sscanf(sc.Text(), "%d", &n); err != nil || n < 0 {
		return nil, fmt.Errorf("leader epoch checkpoint: count %q", sc.Text())
	}
	var out []EpochStart
	for sc.Scan() {
		var e EpochStart
		if _, err := fmt.Sscanf(sc.Text(), "%d %d", &e.Epoch, &e.Offset); err != nil {
			return nil, fmt.Errorf("leader epoch checkpoint: entry %q: %w", sc.Text(), err)
		}
		if e.Epoch < 0 || e.Offset < 0 {
			return nil, fmt.Errorf("leader epoch checkpoint: entry %q is negative", sc.Text())
		}
		if len(out) > 0 && (e.Epoch <= out[len(out)-1].Epoch || e.Offset < out[len(out)-1].Offset) {
			return nil, fmt.Errorf("leader epoch checkpoint: entry %q does not rise", sc.Text())
		}
		out = append(out, e)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("leader epoch checkpoint: %w", err)
	}
	if len(out) != n {
		return nil, fmt.Errorf("leader epoch checkpoint: %d entries, want %d", len(out), n)
	}
	return out, nil
}

func formatEpochCheckpoint(entries []EpochStart) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(entries))
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %d\n", e.Epoch, e.Offset)
	}
	return b.Bytes()
}

// latest is the highest epoch, -1 when the cache is empty.
func (c *epochCache) latest() int32 {
	if len(c.entries) == 0 {
		return -1
	}
	return c.entries[len(c.entries)-1].Epoch
}

// needs reports whether assign would change anything.
func (c *epochCache) needs(epoch int32) bool { return epoch > c.latest() }

// assign notes that epoch starts at offset, if it is above all others. An
// epoch that started at or above offset without a record is replaced. It
// changes memory only; flush makes it durable.
func (c *epochCache) assign(epoch int32, offset int64) bool {
	if epoch < 0 || !c.needs(epoch) {
		return false
	}
	// Entries are copied on change: readers hold the old slice.
	keep := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Offset >= offset })
	next := make([]EpochStart, 0, keep+1)
	next = append(next, c.entries[:keep]...)
	c.entries = append(next, EpochStart{epoch, offset})
	c.dirty = true
	return true
}

// truncate drops the epochs that start at or above end.
func (c *epochCache) truncate(end int64) bool {
	keep := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Offset >= end })
	if keep == len(c.entries) {
		return false
	}
	c.entries = slices.Clone(c.entries[:keep])
	c.dirty = true
	return true
}

// truncateStart drops the epochs that ended at or below start, and lets the
// one that holds start begin there.
func (c *epochCache) truncateStart(start int64) bool {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Offset > start }) - 1
	if i < 0 || (i == 0 && c.entries[0].Offset == start) {
		return false
	}
	next := slices.Clone(c.entries[i:])
	next[0].Offset = start
	c.entries = next
	c.dirty = true
	return true
}

func (c *epochCache) flush() error {
	if !c.dirty {
		return nil
	}
	if err := WriteFileAtomic(c.fs, c.name, formatEpochCheckpoint(c.entries)); err != nil {
		return err
	}
	c.dirty = false
	return nil
}

// endOffsetFor answers OffsetForLeaderEpoch (as Kafka does): the
// largest epoch at or below the one asked for, and where it ends; (-1, -1) is
// undefined.
func endOffsetFor(entries []EpochStart, epoch int32, logEnd int64) (int32, int64) {
	if epoch < 0 || len(entries) == 0 {
		return -1, -1
	}
	last := entries[len(entries)-1].Epoch
	switch {
	case epoch == last:
		return epoch, logEnd
	case epoch > last:
		return -1, -1
	}
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Epoch > epoch })
	if i == 0 {
		return epoch, entries[0].Offset
	}
	return entries[i-1].Epoch, entries[i].Offset
}

// epochAt is the leader epoch of the record at offset, -1 when not known.
func epochAt(entries []EpochStart, offset int64) int32 {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Offset > offset })
	if i == 0 {
		return -1
	}
	return entries[i-1].Epoch
}
