package wirelog

import (
	"bytes"
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

// maxDecompressed bounds what one batch may decompress to where its records are held
// all at once, in bytes. See [Outlines] for batches of which nobody knows where they
// come from.
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

func unsnappy(data []byte) ([]byte, error) {
	if bytes.HasPrefix(data, xerial) {
		var u unsnapper
		if err := u.reset(source{data: data}, maxDecompressed); err != nil {
			return nil, err
		}
		return readBounded(&u)
	}
	n, err := snappyLen(data)
	if err != nil {
		return nil, err
	}
	if n > maxDecompressed {
		return nil, errTooLarge
	}
	return snappy.Decode(nil, data)
}
