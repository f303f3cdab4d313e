package wirelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is a compression of record batches.
type Codec int8

// The codecs.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

func (c Codec) String() string {
	if int(c) < 5 && c >= 0 {
		return [...]string{"none", "gzip", "snappy", "lz4", "zstd"}[c]
	}
	return fmt.Sprintf("codec %d", int8(c))
}

// maxDecompressed bounds what one batch may decompress to, in bytes.
const maxDecompressed = 256 << 20

var errTooLarge = fmt.Errorf("decompresses to more than %d bytes", maxDecompressed)

func (c Codec) decompress(data []byte) ([]byte, error) {
	var out []byte
	var err error
	switch c {
	case None:
		return data, nil
	case Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			out, err = readBounded(r)
		}
	case Snappy:
		out, err = unsnappy(data)
	case LZ4:
		out, err = readBounded(lz4.NewReader(bytes.NewReader(data)))
	case Zstd:
		var d *zstd.Decoder
		if d, err = zstdDecoder(); err == nil {
			out, err = d.DecodeAll(data, nil)
		}
	default:
		err = errors.New("unknown compression")
	}
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", c, err)
	}
	return out, nil
}

// zstdDecoder is shared: DecodeAll may be called concurrently, and a decoder is
// costly to make.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxDecompressed))
})

func readBounded(r io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, maxDecompressed+1))
	if err == nil && len(out) > maxDecompressed {
		err = errTooLarge
	}
	return out, err
}

// xerial is the magic of the framing that Java clients put around snappy blocks.
var xerial = []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

func unsnappy(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, xerial) {
		return unsnappyBlock(data)
	}
	if len(data) < 16 {
		return nil, errors.New("xerial header is torn")
	}
	var out []byte
	for data = data[16:]; len(data) > 0; {
		if len(data) < 4 {
			return nil, errors.New("xerial block length is torn")
		}
		n := int64(int32(binary.BigEndian.Uint32(data)))
		data = data[4:]
		if n < 0 || n > int64(len(data)) {
			return nil, errors.New("xerial block is torn")
		}
		block, err := unsnappyBlock(data[:n])
		if err != nil {
			return nil, err
		}
		if out = append(out, block...); len(out) > maxDecompressed {
			return nil, errTooLarge
		}
		data = data[n:]
	}
	return out, nil
}

func unsnappyBlock(data []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(data)
	if err != nil {
		return nil, err
	}
	// Snappy makes at most 22 bytes of one, so a false length can't ask for much.
	if n > maxDecompressed || n > 64*len(data)+64 {
		return nil, errTooLarge
	}
	return snappy.Decode(nil, data)
}
