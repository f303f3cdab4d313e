// Package dump prints the files of a partition's log as Kafka's own dump tool
// (kafka-dump-log) prints them, and names MIRROR_PID_RESET with its fields
// (BAR-7).
package dump

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
)

// Options say how much is printed.
type Options struct {
	// Deep prints each record below its batch (--deep-iteration).
	Deep bool
	// Data prints keys and payloads, and implies Deep (--print-data-log).
	Data bool
	// NotNamed is the defect of a tool that does not know MIRROR_PID_RESET.
	NotNamed bool
}

// ErrDamaged is wrapped by the error for a file whose bytes end, or stop making
// sense, before its end. What lies before them has been printed.
var ErrDamaged = errors.New("damaged")

// maxBatch bounds the memory for one batch; Kafka's own limit is a batch length
// of 2 GiB, its default for a topic 1 MiB.
const maxBatch = 512 << 20

// lengthEnd is where a batch's length field ends: offset (8), length (4).
const lengthEnd = 12

// Log prints the batches of one segment. start is the offset in its name.
func Log(w io.Writer, segment io.Reader, start int64, o Options) error {
	o.Deep = o.Deep || o.Data
	out := bufio.NewWriterSize(w, 64<<10)
	err := printLog(out, bufio.NewReaderSize(segment, 256<<10), start, o)
	return errors.Join(err, out.Flush())
}

func printLog(out *bufio.Writer, in *bufio.Reader, start int64, o Options) error {
	fmt.Fprintf(out, "Log starting offset: %d\n", start)
	decompressor := kgo.DefaultDecompressor()
	var raw []byte
	for position := int64(0); ; position += int64(len(raw)) {
		damaged := func(format string, args ...any) error {
			return fmt.Errorf("%w at position %d: %s", ErrDamaged, position, fmt.Sprintf(format, args...))
		}
		head, err := in.Peek(lengthEnd)
		switch {
		case errors.Is(err, io.EOF) && len(head) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return damaged("%d bytes are left, too few for a batch", len(head))
		case err != nil:
			return fmt.Errorf("read at position %d: %w", position, err)
		}
		if isZero(head) { // a preallocated tail
			return nil
		}
		size := int64(int32(binary.BigEndian.Uint32(head[8:]))) + lengthEnd
		if size < psm.HeaderSize || size > maxBatch {
			return damaged("a batch of %d bytes", size)
		}
		raw, err = readBatch(in, raw[:0], int(size))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return damaged("a batch of %d bytes, but only %d are left", size, len(raw))
		} else if err != nil {
			return fmt.Errorf("read at position %d: %w", position, err)
		}
		b, err := psm.DecodeBatch(raw)
		if err != nil {
			return damaged("%v", err)
		}
		printBatch(out, b, position, psm.CheckCRC(raw) == nil)
		if o.Deep {
			if err := printRecords(out, b, raw, o, decompressor); err != nil {
				return damaged("records of the batch at offset %d: %v", b.BaseOffset, err)
			}
		}
	}
}

// readBatch appends size bytes to dst, a piece at a time: a length that lies
// must not cost more memory than the file has bytes.
func readBatch(in io.Reader, dst []byte, size int) ([]byte, error) {
	const piece = 1 << 20
	for len(dst) < size {
		n := min(piece, size-len(dst))
		dst = slices.Grow(dst, n)
		got, err := io.ReadFull(in, dst[len(dst):len(dst)+n])
		dst = dst[:len(dst)+got]
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func isZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

const (
	compressionMask   = 0x07
	logAppendTimeBit  = 0x08
	deleteHorizonBit  = 0x40
	noDeleteHorizonMs = "OptionalLong.empty"
)

func timestampType(b psm.Batch) string {
	if b.Attributes&logAppendTimeBit != 0 {
		return "LogAppendTime"
	}
	return "CreateTime"
}

func printBatch(out *bufio.Writer, b psm.Batch, position int64, valid bool) {
	horizon := noDeleteHorizonMs
	if b.Attributes&deleteHorizonBit != 0 { // then the base timestamp is the horizon (KIP-534)
		horizon = fmt.Sprintf("OptionalLong[%d]", b.BaseTimestamp)
	}
	codecs := [...]string{"none", "gzip", "snappy", "lz4", "zstd"}
	codec := fmt.Sprintf("unknown(%d)", b.Attributes&compressionMask)
	if c := int(b.Attributes & compressionMask); c < len(codecs) {
		codec = codecs[c]
	}
	fmt.Fprintf(out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d "+
		"partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s position: %d %s: %d size: %d magic: %d "+
		"compresscodec: %s crc: %d isvalid: %t\n",
		b.BaseOffset, b.LastOffset, b.Count, b.BaseSequence, b.LastSequence(), b.ProducerID, b.ProducerEpoch,
		b.LeaderEpoch, b.Transactional(), b.IsControl(), horizon, position, timestampType(b), b.MaxTimestamp, b.Size, b.Magic,
		codec, b.CRC, valid)
}

func printRecords(out *bufio.Writer, b psm.Batch, raw []byte, o Options, decompressor kgo.Decompressor) error {
	body, err := decompressor.Decompress(raw[psm.HeaderSize:], kgo.CompressionCodecType(b.Attributes&compressionMask))
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	for i := range b.Count {
		length, n := binary.Varint(body)
		if n <= 0 || length < 0 || length > int64(len(body)-n) {
			return fmt.Errorf("record %d of %d is cut", i+1, b.Count)
		}
		var r kmsg.Record
		if err := r.ReadFrom(body[:n+int(length)]); err != nil {
			return fmt.Errorf("record %d of %d: %w", i+1, b.Count, err)
		}
		body = body[n+int(length):]
		printRecord(out, b, r, o)
	}
	return nil
}

func printRecord(out *bufio.Writer, b psm.Batch, r kmsg.Record, o Options) {
	timestamp := b.BaseTimestamp + r.TimestampDelta64
	if b.Attributes&logAppendTimeBit != 0 {
		timestamp = b.MaxTimestamp
	}
	sequence := int32(-1)
	if b.BaseSequence >= 0 {
		sequence = psm.AddSequence(b.BaseSequence, r.OffsetDelta)
	}
	keys := make([]string, 0, len(r.Headers))
	for _, h := range r.Headers {
		keys = append(keys, h.Key)
	}
	fmt.Fprintf(out, "| offset: %d %s: %d keySize: %d valueSize: %d sequence: %d headerKeys: [%s]",
		b.BaseOffset+int64(r.OffsetDelta), timestampType(b), timestamp, sizeOf(r.Key), sizeOf(r.Value), sequence, strings.Join(keys, ","))
	switch {
	case b.IsControl():
		fmt.Fprint(out, " ", controlText(r, o.NotNamed))
	case o.Data:
		if r.Key != nil {
			fmt.Fprintf(out, " key: %s", text(r.Key))
		}
		if r.Value != nil {
			fmt.Fprintf(out, " payload: %s", text(r.Value))
		}
	}
	fmt.Fprintln(out)
}

func sizeOf(p []byte) int {
	if p == nil {
		return -1
	}
	return len(p)
}

// controlText is what the dump tool says of a control record.
func controlText(r kmsg.Record, notNamed bool) string {
	c, err := psm.DecodeControlRecord(r.Key, r.Value)
	if err != nil {
		return fmt.Sprintf("control record that can't be read: %v", err)
	}
	switch c.Type {
	case psm.ControlAbort:
		return fmt.Sprintf("endTxnMarker: ABORT coordinatorEpoch: %d", c.CoordinatorEpoch)
	case psm.ControlCommit:
		return fmt.Sprintf("endTxnMarker: COMMIT coordinatorEpoch: %d", c.CoordinatorEpoch)
	case psm.ControlMirrorPIDReset:
		if notNamed {
			break
		}
		id, err := json.Marshal(c.SourceClusterID)
		if err != nil { // no string fails
			id = []byte(`""`)
		}
		return fmt.Sprintf(`MirrorPidReset {"version":%d,"sourceClusterId":%s}`, c.Version, id)
	}
	return fmt.Sprintf("controlType: UNKNOWN(%d)", c.Type)
}
