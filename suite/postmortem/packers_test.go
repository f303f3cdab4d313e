package postmortem

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"watershed.example/suite/wirelog"
)

var packers = []string{"gzip", "snappy", "xerial", "lz4", "zstd"}

// zstdWriter is one for all, since it is costly to make.
var zstdWriter, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(128<<10)) // the options are right

// packed compresses a batch's records as clients do. The codec is as in the batch's
// attributes.
func packed(packer string, records []byte) (codec int16, out []byte) {
	var b bytes.Buffer
	var w io.WriteCloser
	switch packer {
	case "gzip":
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err != nil {
			panic(err) // there is no such level
		}
		codec, w = int16(wirelog.Gzip), z
	case "lz4":
		z := lz4.NewWriter(&b)
		if err := z.Apply(lz4.BlockSizeOption(lz4.Block64Kb)); err != nil { // as Java clients do
			panic(err) // there is no such size
		}
		codec, w = int16(wirelog.LZ4), z
	case "zstd":
		codec, w = int16(wirelog.Zstd), zstdWriter
		zstdWriter.Reset(&b)
	case "snappy":
		return int16(wirelog.Snappy), snappy.Encode(nil, records)
	case "xerial":
		b.WriteString("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
		for len(records) > 0 {
			n := min(len(records), 32<<10)
			block := snappy.Encode(nil, records[:n])
			b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
			b.Write(block)
			records = records[n:]
		}
		return int16(wirelog.Snappy), b.Bytes()
	default:
		return 0, records
	}
	if _, err := w.Write(records); err != nil {
		panic(err) // a buffer takes everything
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return codec, b.Bytes()
}
