package dump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"watershed.example/psm"
)

// File prints one file of a partition, by the kind that its name's ending
// says: .log, .index, .timeindex, .snapshot or .txnindex. The error names the
// file.
func File(w io.Writer, fs afero.Fs, path string, o Options) error {
	base := filepath.Base(path)
	stem, _, _ := strings.Cut(base, ".")
	start, err := strconv.ParseInt(stem, 10, 64)
	if err != nil {
		return fmt.Errorf("%s: the name does not begin with an offset, as 00000000000000000000.log does", path)
	}
	kind := filepath.Ext(base)
	if !slices.Contains([]string{".log", ".index", ".timeindex", ".snapshot", ".txnindex"}, kind) {
		return fmt.Errorf("%s: dump-log reads .log, .index, .timeindex, .snapshot and .txnindex files", path)
	}
	f, err := fs.Open(path)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := fmt.Fprintf(w, "Dumping %s\n", path); err != nil {
		return err
	}
	switch kind {
	case ".log":
		err = Log(w, f, start, o)
	case ".index", ".timeindex":
		err = index(w, f, path, start)
	case ".snapshot":
		err = snapshot(w, f)
	case ".txnindex":
		err = txnIndex(w, f)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func snapshot(w io.Writer, f io.Reader) error {
	raw, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	entries, err := psm.DecodeSnapshot(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	out := bufio.NewWriter(w)
	for _, e := range entries {
		first := "OptionalLong.empty"
		if e.CurrentTxnFirstOffset >= 0 {
			first = fmt.Sprintf("OptionalLong[%d]", e.CurrentTxnFirstOffset)
		}
		fmt.Fprintf(out, "producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d",
			e.ProducerID, e.Epoch, e.CoordinatorEpoch, first, e.Timestamp)
		// Without one it was made by a marker alone, or its epoch is new. What a
		// coordinator writes has no sequence, which wraps like any other.
		if e.LastOffset >= 0 {
			fmt.Fprintf(out, " firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
				subSequence(e.LastSequence, e.OffsetDelta), e.LastSequence, e.LastOffset, e.OffsetDelta, e.Timestamp)
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// subSequence is Kafka's rule, for sequences that are none (-1) too.
func subSequence(sequence, by int32) int32 {
	if sequence < by {
		return math.MaxInt32 - (by - sequence) + 1
	}
	return sequence - by
}

func txnIndex(w io.Writer, f io.Reader) error {
	raw, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	entries, err := psm.DecodeTxnIndex(raw)
	out := bufio.NewWriter(w)
	for _, e := range entries {
		fmt.Fprintf(out, "version: 0 producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
			e.ProducerID, e.FirstOffset, e.LastOffset, e.LSO)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return errors.Join(err, out.Flush())
}
