package wirelog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte // nil for a null value
}

// Record is one record of a batch. Its bytes refer to the batch, or to what
// the batch was decompressed to.
type Record struct {
	Offset    int64
	Timestamp int64
	// Sequence is -1 in batches without sequences.
	Sequence   int32
	Attributes int8
	Key        []byte // nil for null
	Value      []byte // nil for null
	Headers    []Header
}

// Header returns the value of the first header with the key, nil where there is none.
func (r *Record) Header(key string) []byte {
	for _, h := range r.Headers {
		if h.Key == key {
			if h.Value == nil {
				return []byte{}
			}
			return h.Value
		}
	}
	return nil
}

// Records decodes the batch's records. On an error the records before it are
// returned too.
func (b *Batch) Records() ([]Record, error) {
	var s RecordScanner
	s.Start(b)
	if s.err != nil {
		return nil, s.err
	}
	// A record takes at least 7 bytes, so a false count can't ask for much memory.
	records := make([]Record, 0, min(int(b.Count), len(s.p.data)/7+1))
	for s.Next() {
		records = append(records, s.Record)
		s.Record.Headers = nil
	}
	return records, s.err
}

// RecordScanner reads the records of one batch after the other, each into the
// place of the one before: of an uncompressed batch nothing is copied.
type RecordScanner struct {
	// Record is the last one that was read, until the next call of Next.
	Record Record

	batch *Batch
	p     parser
	read  int32
	err   error
}

// Start begins with the records of a batch.
func (s *RecordScanner) Start(b *Batch) {
	s.batch, s.read, s.p, s.err = b, 0, parser{}, nil
	var data []byte
	var err error
	if b.unheld > 0 {
		err = (&source{cut: true}).end()
	} else {
		data, err = b.Codec().decompress(b.Raw[headerLen:])
	}
	switch {
	case err != nil:
		s.err = fmt.Errorf("batch at offset %d: %w", b.BaseOffset, err)
	case b.Count < 0:
		s.err = fmt.Errorf("batch at offset %d: record count %d", b.BaseOffset, b.Count)
	}
	s.p.data = data
}

// Next reads the next record. It returns false after the last one, and at the
// first that can't be read.
func (s *RecordScanner) Next() bool {
	if s.err != nil {
		return false
	}
	if s.read == s.batch.Count {
		if n := len(s.p.data); n > 0 {
			s.err = fmt.Errorf("batch at offset %d: %d bytes after its %d records", s.batch.BaseOffset, n, s.read)
		}
		return false
	}
	if !s.p.record(s.batch, &s.Record) {
		s.err = fmt.Errorf("batch at offset %d: record %d of %d: %w", s.batch.BaseOffset, s.read, s.batch.Count, s.p.err)
		return false
	}
	s.read++
	return true
}

// Err says why the last batch's records could not all be read.
func (s *RecordScanner) Err() error { return s.err }

var (
	errVarint = errors.New("varint is torn or too long")
	errLength = errors.New("length points outside the record")
)

type parser struct {
	data []byte
	err  error
}

// record reads one record; the room for its headers is used again.
func (p *parser) record(b *Batch, r *Record) bool {
	n := p.varint()
	if p.err != nil {
		return false
	}
	if n < 0 || n > int64(len(p.data)) {
		p.err = errLength
		return false
	}
	q := parser{data: p.data[:n]}
	p.data = p.data[n:]
	*r = Record{Sequence: -1, Headers: r.Headers[:0]}
	if attr := q.take(1); attr != nil {
		r.Attributes = int8(attr[0])
	}
	r.Timestamp = b.BaseTimestamp + q.varint()
	delta := q.varint()
	r.Offset = b.BaseOffset + delta
	if b.BaseSequence >= 0 {
		r.Sequence = int32((int64(b.BaseSequence) + delta) % (1 << 31))
	}
	r.Key = q.bytes()
	r.Value = q.bytes()
	headers := q.varint()
	if q.err == nil && (headers < 0 || headers > int64(len(q.data))) {
		q.err = errLength
	}
	for range headers {
		if q.err != nil {
			break
		}
		r.addHeader(q.bytes(), q.bytes())
	}
	if q.err == nil && len(q.data) > 0 {
		q.err = fmt.Errorf("%d bytes after the record's headers", len(q.data))
	}
	p.err = q.err
	return q.err == nil
}

// addHeader takes a key's text from the record before, where it is the same.
func (r *Record) addHeader(key, value []byte) {
	n := len(r.Headers)
	if n == cap(r.Headers) || r.Headers[:n+1][n].Key != string(key) {
		r.Headers = append(r.Headers, Header{Key: string(key), Value: value})
		return
	}
	r.Headers = r.Headers[:n+1]
	r.Headers[n].Value = value
}

func (p *parser) varint() int64 {
	if p.err != nil {
		return 0
	}
	if len(p.data) > 0 && p.data[0] < 0x80 { // most take one byte
		v := int64(p.data[0]>>1) ^ -int64(p.data[0]&1)
		p.data = p.data[1:]
		return v
	}
	v, n := binary.Varint(p.data)
	if n <= 0 {
		p.err = errVarint
		return 0
	}
	p.data = p.data[n:]
	return v
}

func (p *parser) uvarint() uint64 {
	if p.err != nil {
		return 0
	}
	v, n := binary.Uvarint(p.data)
	if n <= 0 {
		p.err = errVarint
		return 0
	}
	p.data = p.data[n:]
	return v
}

func (p *parser) bytes() []byte {
	n := p.varint()
	if p.err != nil || n == -1 {
		return nil
	}
	if n < -1 {
		p.err = errLength
		return nil
	}
	return p.take(n)
}

func (p *parser) take(n int64) []byte {
	if p.err != nil {
		return nil
	}
	if n < 0 || n > int64(len(p.data)) {
		p.err = errLength
		return nil
	}
	out := p.data[:n:n]
	p.data = p.data[n:]
	return out
}

func (p *parser) int16() int16 {
	if b := p.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (p *parser) int32() int32 {
	if b := p.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}
