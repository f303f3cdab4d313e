package wirelog

import (
	"fmt"
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
	TaggedFields    int // unknown tagged fields, tolerated
	ValueRest       int // bytes after the record, tolerated
}

// Control decodes the first record of a control batch, by which the whole
// batch is known (contract BAR-2). An unknown type is no error.
func (b *Batch) Control() (Control, error) {
	var c Control
	if !b.IsControl() {
		return c, fmt.Errorf("batch at offset %d is no control batch", b.BaseOffset)
	}
	records, err := b.Records()
	if len(records) == 0 {
		if err == nil {
			err = fmt.Errorf("batch at offset %d: control batch without a record", b.BaseOffset)
		}
		return c, err
	}
	key := parser{data: records[0].Key}
	c.KeyVersion, c.Type = key.int16(), ControlType(key.int16())
	if key.err != nil {
		return c, fmt.Errorf("batch at offset %d: control key of %d bytes: %w", b.BaseOffset, len(records[0].Key), key.err)
	}
	c.KeyRest = len(key.data)
	value := parser{data: records[0].Value}
	switch c.Type {
	case Abort, Commit:
		c.ValueVersion, c.CoordinatorEpoch = value.int16(), value.int32()
	case MirrorPIDReset:
		c.ValueVersion = value.int16()
		c.SourceClusterID = value.compactString()
		c.TaggedFields = value.taggedFields()
	}
	if value.err != nil {
		return c, fmt.Errorf("batch at offset %d: value of %s, %d bytes: %w", b.BaseOffset, c.Type, len(records[0].Value), value.err)
	}
	c.ValueRest = len(value.data)
	return c, nil
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

func (p *parser) taggedFields() int {
	n := p.uvarint()
	for i := uint64(0); i < n && p.err == nil; i++ {
		p.uvarint() // tag
		size := p.uvarint()
		if p.err == nil && size > uint64(len(p.data)) {
			p.err = errLength
		}
		p.take(int64(size))
	}
	if p.err != nil {
		return 0
	}
	return int(n)
}
