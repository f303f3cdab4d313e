package wirelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// ErrBeyond says that a batch's records go on beyond what is read of them.
var ErrBeyond = errors.New("beyond what is read of a batch")

// maxWindow bounds what a codec may have a reader keep, in bytes: the 8 MiB that
// RFC 8878 asks every reader of zstd for. (Of lz4 the format's largest block is that.)
const maxWindow = 8 << 20

// inflater reads the records of batches, whatever their compression, as streams:
// it holds the codec's window and not what a batch decompresses to. Its decoders
// are used again for the next batch, since they are costly to make.
type inflater struct {
	codec Codec
	src   source
	from  io.Reader
	left  int64 // bytes that may yet be read
	limit int64 // how many those were

	gzip   *gzip.Reader
	snappy unsnapper
	lz4    *lz4.Reader
	zstd   *zstd.Decoder
}

// start begins with a batch, of which no more than limit bytes of records are read.
func (f *inflater) start(b *Batch, limit int64) (err error) {
	f.src = source{b.Raw[headerLen:], b.unheld > 0}
	f.codec, f.left, f.limit = b.Codec(), limit, limit
	switch f.codec {
	case None:
		f.from = &f.src
	case Gzip:
		if f.gzip == nil {
			f.gzip = new(gzip.Reader)
		}
		f.from, err = f.gzip, f.gzip.Reset(&f.src)
	case Snappy:
		f.from, err = &f.snappy, f.snappy.reset(f.src, maxWindow)
	case LZ4:
		if f.lz4 == nil {
			f.lz4 = lz4.NewReader(nil)
		}
		f.lz4.Reset(&f.src)
		f.from = f.lz4
	case Zstd:
		if f.zstd == nil {
			f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return err
			}
		}
		f.from, err = f.zstd, f.zstd.Reset(narrowed(&f.src))
	default:
		err = errors.New("unknown compression")
	}
	return f.explain(err)
}

// stop lets go of the batch.
func (f *inflater) stop() {
	f.src, f.from, f.snappy.src = source{}, nil, source{}
}

func (f *inflater) explain(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, ErrBeyond) {
		return err
	}
	return fmt.Errorf("decompress %s: %w", f.codec, err)
}

func (f *inflater) Read(p []byte) (int, error) {
	if f.left == 0 {
		var more [1]byte
		if _, err := io.ReadFull(f.from, more[:]); err != nil {
			return 0, f.explain(err)
		}
		return 0, fmt.Errorf("%w: the first %d bytes of its records are", ErrBeyond, f.limit)
	}
	n, err := f.from.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, f.explain(err)
}

// source is what is held of a batch behind its header.
type source struct {
	data []byte
	cut  bool // the batch goes on behind it
}

func (s *source) end() error {
	if s.cut {
		return fmt.Errorf("%w: its first %d bytes are", ErrBeyond, maxHeld)
	}
	return io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, s.end()
	}
	n := copy(p, s.data)
	s.data = s.data[n:]
	return n, nil
}

// ReadByte spares gzip a buffer of its own.
func (s *source) ReadByte() (byte, error) {
	if len(s.data) == 0 {
		return 0, s.end()
	}
	c := s.data[0]
	s.data = s.data[1:]
	return c, nil
}

// narrowed is a zstd frame that asks for no larger window than is allowed. At its
// highest levels zstd asks for 128 MiB, however little there is to compress. A
// frame that really reaches back further can't be read on from there.
func narrowed(s *source) io.Reader {
	const single, descriptor, largest = 0x20, 5, 13 << 3 // RFC 8878, 3.1.1.1: 1 KiB << 13
	if d := s.data; len(d) > descriptor && binary.LittleEndian.Uint32(d) == 0xFD2FB528 && d[4]&single == 0 && d[descriptor] > largest {
		head := append(bytes.Clone(d[:descriptor]), largest)
		s.data = d[len(head):]
		return io.MultiReader(bytes.NewReader(head), s)
	}
	return s
}

// xerial is the magic of the framing that Java clients put around snappy blocks.
var xerial = []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// unsnapper reads snappy, one block after the other: a block is not divided.
type unsnapper struct {
	src    source
	framed bool
	limit  int64 // of a block
	buf    []byte
	out    []byte // of buf, that was not yet read
}

func (u *unsnapper) reset(s source, limit int64) error {
	u.src, u.limit, u.out, u.framed = s, limit, nil, bytes.HasPrefix(s.data, xerial)
	if u.framed {
		if len(s.data) < 16 {
			return errors.New("xerial header is torn")
		}
		u.src.data = s.data[16:]
		return nil
	}
	if s.cut {
		return s.end()
	}
	if len(s.data) == 0 {
		return snappy.ErrCorrupt
	}
	return nil
}

func (u *unsnapper) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		if len(u.src.data) == 0 {
			return 0, u.src.end()
		}
		block := u.src.data
		u.src.data = nil
		if u.framed {
			if len(block) < 4 {
				return 0, u.torn("xerial block length is torn")
			}
			n := int64(int32(binary.BigEndian.Uint32(block)))
			block = block[4:]
			if n < 0 || n > int64(len(block)) {
				return 0, u.torn("xerial block is torn")
			}
			u.src.data, block = block[n:], block[:n]
		}
		n, err := snappyLen(block)
		if err != nil {
			return 0, err
		}
		if int64(n) > u.limit {
			return 0, fmt.Errorf("%w: a snappy block of %d bytes is read whole or not at all, and no more than %d are", ErrBeyond, n, u.limit)
		}
		if cap(u.buf) < n {
			u.buf = make([]byte, n)
		}
		if u.out, err = snappy.Decode(u.buf[:cap(u.buf)], block); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

func (u *unsnapper) torn(what string) error {
	if u.src.cut {
		return u.src.end()
	}
	return errors.New(what)
}

// snappyLen is what a block says that it decompresses to. Snappy makes at most 22
// bytes of one, so a false length can't ask for much.
func snappyLen(block []byte) (int, error) {
	n, err := snappy.DecodedLen(block)
	if err == nil && n > 64*len(block)+64 {
		err = snappy.ErrCorrupt
	}
	return n, err
}
