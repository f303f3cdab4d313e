package storage

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"watershed.example/psm"
)

// A group of segments is replaced as Kafka does it. What is left of them is
// written, and synced, as .cleaned files. Those of the indexes are renamed to
// .swap, then that of the log: from there on the new segment counts. The old
// files go, the indexes get their names, and last the log. A crash before
// leaves the old segments, one after is finished by recovery: the last batch of
// a group always stays, so the new segment says which old ones it replaces.
const (
	suffixCleaned = ".cleaned"
	suffixSwap    = ".swap"
)

var indexSuffixes = []string{suffixIndex, suffixTimeIndex, suffixTxnIndex}

// writeGroups writes what stays of each group beside it.
func (r *compaction) writeGroups() error {
	r.after = r.newState()
	for _, g := range r.groups {
		if err := r.writeGroup(g); err != nil {
			return err
		}
	}
	return nil
}

func (r *compaction) writeGroup(g *cleanGroup) (err error) {
	base := g.segs[0].base
	out := &segment{fs: r.fs, dir: r.dir, base: base}
	out.resetIndexes()
	name := out.file(suffixLog + suffixCleaned)
	f, err := r.fs.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	w := bufio.NewWriterSize(f, scanChunk)
	changed := len(g.segs) > 1
	for _, s := range g.segs {
		err = r.each(s, func(b *psm.Batch, raw []byte) error {
			kept, err := r.filter(b, raw)
			if err != nil {
				return err
			}
			changed = changed || len(kept) != len(raw) || &kept[0] != &raw[0]
			if kept == nil {
				return nil
			}
			if _, err := w.Write(kept); err != nil {
				return err
			}
			return r.note(out, kept)
		})
		if err != nil {
			break
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if !changed {
		return removeIfAny(r.fs, name)
	}
	out.noteTime()
	var aborted []byte
	for _, e := range out.aborted {
		aborted = e.Append(aborted)
	}
	for i, content := range [][]byte{encodeOffsetIndex(out.index), encodeTimeIndex(out.times), aborted} {
		if err := writeSynced(r.fs, out.file(indexSuffixes[i]+suffixCleaned), content); err != nil {
			return err
		}
	}
	g.out = out
	return nil
}

// note enters a batch that stays into the indexes.
func (r *compaction) note(out *segment, raw []byte) error {
	b, err := psm.DecodeBatch(raw)
	if err != nil {
		return err
	}
	out.note(&b, r.cfg.IndexInterval)
	if b.LastOffset < r.logStart {
		return nil
	}
	completed, err := advance(r.after, &b)
	for _, c := range completed {
		if c.Aborted {
			out.aborted = append(out.aborted, c.IndexEntry())
		}
	}
	return err
}

// discard takes the files of a round away that came to nothing.
func (r *compaction) discard() error {
	if r.leaving.Load() {
		return nil // the folder may be gone; opening tidies it
	}
	var err error
	for _, g := range r.groups {
		for _, suffix := range append(slices.Clone(indexSuffixes), suffixLog) {
			err = errors.Join(err, removeIfAny(r.fs, fileName(r.dir, g.segs[0].base, suffix+suffixCleaned)))
		}
	}
	return err
}

// swapIn makes the groups' new segments part of the log.
func (r *compaction) swapIn() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.usable(); err != nil {
		return err
	}
	if r.Log.gen != r.gen || !slices.Equal(r.state.Stops(), r.stops) || r.may != nil && !r.may() {
		return errOvertaken
	}
	// Before the first byte changes: an alignment must know (AL-1).
	if err := r.saveCleaned(cleaned{
		dirty: r.Log.cleaned.dirty, upTo: max(r.Log.cleaned.upTo, r.settled), forgotten: max(r.Log.cleaned.forgotten, r.forgotten),
	}); err != nil {
		return err
	}
	if err := r.dropOldSnapshots(); err != nil {
		return err
	}
	for _, g := range r.groups {
		if g.out == nil {
			continue
		}
		if err := r.swapGroup(g); err != nil {
			return err
		}
	}
	return r.saveCleaned(cleaned{dirty: r.bound, upTo: r.Log.cleaned.upTo, forgotten: r.Log.cleaned.forgotten})
}

// dropOldSnapshots drops the producer snapshots below the bound: they may have
// a transaction open whose marker is not there any longer. One at or above
// stays, for it alone knows producers whose records retention took.
func (r *compaction) dropOldSnapshots() error {
	if r.lastSnapshot < r.bound {
		if err := r.flush(); err != nil {
			return err
		}
		if err := r.snapshot(); err != nil {
			return err
		}
	}
	return r.snapshots.DeleteBefore(r.bound)
}

func (r *compaction) swapGroup(g *cleanGroup) error {
	out := g.out
	for _, suffix := range indexSuffixes {
		if err := r.fs.Rename(out.file(suffix+suffixCleaned), out.file(suffix+suffixSwap)); err != nil {
			return fmt.Errorf("swap %s: %w", out.file(suffix), err)
		}
	}
	if err := SyncDir(r.fs, r.dir); err != nil {
		return err
	}
	if err := r.fs.Rename(out.file(suffixLog+suffixCleaned), out.file(suffixLog+suffixSwap)); err != nil {
		return fmt.Errorf("swap %s: %w", out.file(suffixLog), err)
	}
	var gone []int64
	for _, s := range g.segs[1:] {
		gone = append(gone, s.base)
	}
	if err := finishSwap(r.fs, r.dir, out.base, gone); err != nil {
		return r.noteBroken(fmt.Errorf("%w: %w", errBroken, err))
	}
	s, err := openSegment(r.fs, r.dir, out.base)
	if err != nil {
		return r.noteBroken(fmt.Errorf("%w: %w", errBroken, err))
	}
	s.index, s.times, s.aborted = out.index, out.times, out.aborted
	s.maxTime, s.maxTimeOffset, s.firstTime, s.sinceIndex = out.maxTime, out.maxTimeOffset, out.firstTime, out.sinceIndex
	r.pub.Lock()
	first := slices.Index(r.Log.segments, g.segs[0].seg)
	r.Log.segments = slices.Concat(r.Log.segments[:first], []*segment{s}, r.Log.segments[first+len(g.segs):])
	r.Log.gen++
	r.pub.Unlock()
	for _, old := range g.segs {
		err = errors.Join(err, old.seg.closeFiles())
	}
	return err
}

// finishSwap ends the replacement of the segment at base, and those at gone,
// by what lies in .swap files.
func finishSwap(fsys afero.Fs, dir string, base int64, gone []int64) error {
	if err := SyncDir(fsys, dir); err != nil {
		return err
	}
	for _, old := range gone {
		for _, suffix := range append(slices.Clone(indexSuffixes), suffixLog) {
			if err := removeIfAny(fsys, fileName(dir, old, suffix)); err != nil {
				return err
			}
		}
	}
	for _, suffix := range indexSuffixes {
		name := fileName(dir, base, suffix)
		if err := fsys.Rename(name+suffixSwap, name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("swap %s: %w", name, err)
		}
	}
	if err := SyncDir(fsys, dir); err != nil {
		return err
	}
	name := fileName(dir, base, suffixLog)
	if err := fsys.Rename(name+suffixSwap, name); err != nil {
		return fmt.Errorf("swap %s: %w", name, err)
	}
	return SyncDir(fsys, dir)
}

// finishSwaps ends what a crash left of a compaction.
func (r *recovery) finishSwaps(names []string) error {
	var swaps []int64
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, suffixLog+suffixSwap)
		if base, err := strconv.ParseInt(digits, 10, 64); ok && err == nil && base >= 0 {
			swaps = append(swaps, base)
		}
	}
	stays := func(name string) bool {
		digits, _, _ := strings.Cut(name, ".")
		base, err := strconv.ParseInt(digits, 10, 64)
		return err == nil && slices.Contains(swaps, base)
	}
	for _, name := range names {
		if strings.HasSuffix(name, suffixCleaned) || strings.HasSuffix(name, suffixSwap) && !stays(name) {
			if err := removeIfAny(r.fs, filepath.Join(r.dir, name)); err != nil {
				return err
			}
		}
	}
	for _, base := range swaps {
		end, err := swapEnd(r.fs, fileName(r.dir, base, suffixLog+suffixSwap))
		if err != nil {
			return err
		}
		var gone []int64
		for _, name := range names {
			digits, ok := strings.CutSuffix(name, suffixLog)
			if old, err := strconv.ParseInt(digits, 10, 64); ok && err == nil && old > base && old < end {
				gone = append(gone, old)
			}
		}
		r.cfg.Logger.Info("interrupted compaction is finished", "log", r.dir, "base", base, "replaced", len(gone)+1)
		if err := finishSwap(r.fs, r.dir, base, gone); err != nil {
			return err
		}
	}
	return nil
}

// swapEnd is the offset behind the last batch of a segment that was to be
// swapped in.
func swapEnd(fsys afero.Fs, name string) (end int64, err error) {
	f, err := openForReadAt(fsys, name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	sc := newScanner(f, 0, st.Size(), true)
	for sc.next() {
		end = sc.b.LastOffset + 1
	}
	if err := sc.failure(); err != nil {
		// It was synced before it got its name.
		return 0, fmt.Errorf("%s is damaged: %w", name, err)
	}
	return end, nil
}
