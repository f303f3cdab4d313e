package wirelog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync"
)

// Outlines reads what the records of a batch are known by, one after the other, and
// holds none of them: whatever the batch decompresses to takes a codec's window. The
// records of batches that are trusted are read by [RecordScanner].
type Outlines struct {
	// Outline is that of the last record that was read, until the next call of Next.
	Outline

	batch *Batch
	f     inflater
	in    *bufio.Reader
	read  int32
	left  int64 // bytes of the record that were not yet read
	value int64 // bytes of them that are its value
	hash  maphash.Hash
	err   error
}

// Outline is what a record is known by.
type Outline struct {
	Offset int64
	// Key is the key's beginning, nil for null. KeyLen is the length of all of it,
	// KeySum stands for all of it within this process.
	Key    []byte
	KeyLen int64
	KeySum uint64
	// Tombstone says that the value is null.
	Tombstone bool
}

// maxKey bounds what is held of a key, in bytes.
const maxKey = 1 << 10

var outlines = sync.Pool{New: func() any { return &Outlines{in: bufio.NewReaderSize(nil, 64<<10)} }}

// Outlines begins with the batch's records, of which no more than limit bytes are
// decompressed: where there are more, [Outlines.Err] is [ErrBeyond] in the end. Close
// it after use.
func (b *Batch) Outlines(limit int64) *Outlines {
	o := outlines.Get().(*Outlines)
	*o = Outlines{batch: b, f: o.f, in: o.in, Outline: Outline{Key: o.Key[:0]}}
	o.hash.SetSeed(seed)
	o.in.Reset(&o.f)
	err := o.f.start(b, limit)
	if err == nil && b.Count < 0 {
		err = fmt.Errorf("record count %d", b.Count)
	}
	if err != nil {
		o.err = fmt.Errorf("batch at offset %d: %w", b.BaseOffset, err)
	}
	return o
}

// Close ends the use of what it has given.
func (o *Outlines) Close() {
	o.batch = nil
	o.f.stop()
	outlines.Put(o)
}

// Err says why not all records could be read.
func (o *Outlines) Err() error { return o.err }

// Next reads the next record's outline. It returns false after the last one, and at
// the first that can't be read.
func (o *Outlines) Next() bool {
	if o.err == nil {
		o.pass(o.left, false) // the last one's value and headers
	}
	if o.err != nil {
		return false
	}
	if o.read == o.batch.Count {
		if _, err := o.in.ReadByte(); !errors.Is(err, io.EOF) {
			if err == nil {
				err = errors.New("bytes after the last record")
			}
			o.fail(err)
		}
		return false
	}
	o.left = binary.MaxVarintLen64
	if o.left = o.varint(); o.left < 0 {
		o.fail(errLength)
	}
	o.pass(1, false) // attributes
	o.varint()       // time
	o.Offset = o.batch.BaseOffset + o.varint()
	o.key(o.varint())
	o.value = o.varint()
	o.Tombstone = o.value == -1
	if o.value < -1 || o.value > o.left {
		o.fail(errLength)
	}
	if o.err != nil {
		return false
	}
	o.read++
	return true
}

// ValueSum reads the record's value, and returns what stands for it within this
// process. Call it once, and look at Err: the value may go on beyond what is read.
func (o *Outlines) ValueSum() uint64 {
	o.hash.Reset()
	o.pass(o.value, true)
	return o.hash.Sum64()
}

func (o *Outlines) fail(err error) {
	if o.err != nil {
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	o.err = fmt.Errorf("batch at offset %d: record %d of %d: %w", o.batch.BaseOffset, o.read, o.batch.Count, err)
}

func (o *Outlines) key(n int64) {
	o.KeyLen = max(n, 0)
	o.hash.Reset()
	if n == -1 {
		o.Key, o.KeySum = nil, 0
		return
	}
	if o.Key == nil {
		o.Key = make([]byte, 0, 64)
	}
	o.Key = o.Key[:0]
	if n < -1 {
		o.fail(errLength)
	}
	head := min(n, maxKey)
	o.grow(head)
	o.pass(n-head, true)
	o.KeySum = o.hash.Sum64()
}

// grow takes bytes into the key.
func (o *Outlines) grow(n int64) {
	for n > 0 && o.err == nil {
		chunk := o.peek(n)
		o.Key = append(o.Key, chunk...)
		n -= int64(len(chunk))
		o.take(chunk, true)
	}
}

// pass goes over bytes of the record, and hashes them if told to.
func (o *Outlines) pass(n int64, sum bool) {
	for n > 0 && o.err == nil {
		chunk := o.peek(n)
		n -= int64(len(chunk))
		o.take(chunk, sum)
	}
}

// peek returns some of the next n bytes of the record, at least one.
func (o *Outlines) peek(n int64) []byte {
	if n > o.left {
		o.fail(errLength)
		return nil
	}
	chunk, err := o.in.Peek(int(min(n, max(int64(o.in.Buffered()), 1))))
	if err != nil {
		o.fail(err)
		return nil
	}
	return chunk
}

func (o *Outlines) take(chunk []byte, sum bool) {
	if sum {
		_, _ = o.hash.Write(chunk) // never fails
	}
	o.left -= int64(len(chunk))
	_, _ = o.in.Discard(len(chunk)) // they are buffered
}

func (o *Outlines) varint() int64 {
	var v uint64
	for shift := 0; o.err == nil; shift += 7 {
		if o.left == 0 || shift > 63 {
			o.fail(errVarint)
			break
		}
		c, err := o.in.ReadByte()
		if err != nil {
			o.fail(err)
			break
		}
		o.left--
		v |= uint64(c&0x7F) << shift
		if c < 0x80 {
			return int64(v>>1) ^ -int64(v&1)
		}
	}
	return 0
}
