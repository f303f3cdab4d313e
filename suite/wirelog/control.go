package wirelog

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// ControlType is the type in a control record's key.
type ControlType int16

// The control types that this package reads.
const (
	Abort          ControlType = 0
	Commit         ControlType = 1
	MirrorPIDReset ControlType = 7
)

func (t ControlType) String() string {
	switch t {
	case Abort:
		return "ABORT"
	case Commit:
		return "COMMIT"
	case MirrorPIDReset:
		return "MIRROR_PID_RESET"
	}
	return fmt.Sprintf("control type %d", int16(t))
}

// Control is a decoded control record. The fields after Type are set by type.
type Control struct {
	KeyVersion int16
	Type       ControlType
	// KeyRest counts the bytes of the key after version and type.
	KeyRest int

	// Abort and Commit (EndTxnMarker).
	ValueVersion     int16
	CoordinatorEpoch int32

	// MirrorPIDReset (MirrorPidResetRecord): ValueVersion is its Version field.
	SourceClusterID string
	// Prefixed says that a version stands before the Version field too, as in
	// records that Kafka writes with a version prefix.
	Prefixed  bool
	Tagged    []TaggedField // which the schema does not know; tolerated
	ValueRest int           // bytes after the record, tolerated
}

// TaggedField is a tagged field of a flexible record, as it lies there.
type TaggedField struct {
	Tag  uint64
	Data []byte
}

// Control decodes the first record of a control batch, by which the whole
// batch is known (contract BAR-2). An unknown type is no error.
func (b *Batch) Control() (Control, error) {
	var c Control
	if !b.IsControl() {
		return c, fmt.Errorf("batch at offset %d is no control batch", b.BaseOffset)
	}
	r, err := b.firstRecord()
	if err != nil {
		return c, err
	}
	key := parser{data: r.Key}
	c.KeyVersion, c.Type = key.int16(), ControlType(key.int16())
	if key.err != nil {
		return c, fmt.Errorf("batch at offset %d: control key of %d bytes: %w", b.BaseOffset, len(r.Key), key.err)
	}
	c.KeyRest = len(key.data)
	value := parser{data: r.Value}
	switch c.Type {
	case Abort, Commit:
		c.ValueVersion, c.CoordinatorEpoch = value.int16(), value.int32()
	case MirrorPIDReset:
		value = c.reset(r.Value)
	}
	if value.err != nil {
		return c, fmt.Errorf("batch at offset %d: value of %s, %d bytes: %w", b.BaseOffset, c.Type, len(r.Value), value.err)
	}
	c.ValueRest = len(value.data)
	return c, nil
}

// maxControl bounds what is decompressed of a control batch, in bytes. No broker
// compresses one.
const maxControl = 64 << 10

// firstRecord decodes the first record of a control batch and no other: what lies
// behind it may be anything.
func (b *Batch) firstRecord() (Record, error) {
	var s RecordScanner
	if b.Codec() == None && b.unheld == 0 {
		s.Start(b)
	} else {
		var f inflater
		err := f.start(b, maxControl)
		if err == nil {
			if s.p.data, err = io.ReadAll(&f); errors.Is(err, ErrBeyond) && len(s.p.data) > 0 {
				err = nil
			}
		}
		if err != nil {
			err = fmt.Errorf("batch at offset %d: %w", b.BaseOffset, err)
		}
		s.batch, s.err = b, err
	}
	if s.Next() {
		return s.Record, nil
	}
	if s.err == nil {
		s.err = fmt.Errorf("batch at offset %d: control batch without a record", b.BaseOffset)
	}
	return Record{}, s.err
}

// reset decodes a MirrorPidResetRecord and returns what is left of the value.
// The page of KIP-1279 shows the schema and not how it is written: its public
// build writes the Version field alone, other control records of Kafka have the
// same number once more before it. An id is never empty, so the two differ.
func (c *Control) reset(data []byte) parser {
	plain := *c
	value := plain.resetBody(parser{data: data})
	if value.err != nil || plain.SourceClusterID == "" {
		prefixed := *c
		p := parser{data: data}
		p.int16()
		p = prefixed.resetBody(p)
		if p.err == nil && prefixed.SourceClusterID != "" {
			prefixed.Prefixed = true
			*c = prefixed
			return p
		}
	}
	*c = plain
	return value
}

func (c *Control) resetBody(p parser) parser {
	c.ValueVersion = p.int16()
	c.SourceClusterID = p.compactString()
	c.Tagged = p.taggedFields()
	return p
}

// IsBarrier says whether the batch is a MIRROR_PID_RESET batch: a control
// batch whose first record's key has type 7, whatever else is wrong with it.
func (b *Batch) IsBarrier() bool {
	if !b.IsControl() {
		return false
	}
	c, err := b.Control()
	return c.Type == MirrorPIDReset && (err == nil || c.KeyVersion == 0)
}

func (p *parser) compactString() string {
	n := p.uvarint()
	if p.err == nil && n == 0 {
		p.err = fmt.Errorf("null where a string is needed")
	}
	if p.err != nil || n > uint64(len(p.data))+1 {
		if p.err == nil {
			p.err = errLength
		}
		return ""
	}
	s := string(p.take(int64(n) - 1))
	if p.err == nil && !utf8.ValidString(s) {
		p.err = fmt.Errorf("string %q is not UTF-8", s)
	}
	return s
}

func (p *parser) taggedFields() []TaggedField {
	n := p.uvarint()
	var all []TaggedField
	for i := uint64(0); i < n && p.err == nil; i++ {
		f := TaggedField{Tag: p.uvarint()}
		size := p.uvarint()
		if p.err == nil && size > uint64(len(p.data)) {
			p.err = errLength
		}
		f.Data = p.take(int64(size))
		all = append(all, f)
	}
	if p.err != nil {
		return nil
	}
	return all
}
