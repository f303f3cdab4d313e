package dump

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
)

// index prints an offset index (relative offset and position, 4 bytes each) or a
// time index (timestamp of 8 bytes, relative offset of 4). What a broker that
// was killed has allocated before and not used is zeros: like Kafka's tool, it
// ends at the first entry but one that is of the segment's own start.
func index(w io.Writer, f io.Reader, path string, start int64) error {
	raw, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	size := 8
	if filepath.Ext(path) == ".timeindex" {
		size = 12
	}
	out := bufio.NewWriter(w)
	if len(raw) < size && size == 8 { // of a time index Kafka's tool says nothing
		fmt.Fprintf(out, "%s is empty.\n", path)
	}
	whole := len(raw) / size
	for i := range whole {
		entry := raw[i*size : (i+1)*size]
		relative := entry
		if size == 12 {
			relative = entry[8:]
		}
		offset := start + int64(binary.BigEndian.Uint32(relative))
		if offset == start && i > 0 {
			break
		}
		if size == 12 {
			fmt.Fprintf(out, "timestamp: %d offset: %d\n", int64(binary.BigEndian.Uint64(entry)), offset)
		} else {
			fmt.Fprintf(out, "offset: %d position: %d\n", offset, binary.BigEndian.Uint32(entry[4:]))
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if odd := len(raw) - whole*size; odd > 0 {
		return fmt.Errorf("%w: %d bytes are left, too few for an entry", ErrDamaged, odd)
	}
	return nil
}
