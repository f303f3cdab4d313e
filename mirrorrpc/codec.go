package mirrorrpc

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
)

// A coder walks over a message once, to write it or to read it: each message
// has one description of its fields for both directions.
type coder struct {
	// in is nil while writing.
	in  *kbin.Reader
	out []byte
	err error
}

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *coder) boolean(v *bool) {
	if c.in != nil {
		*v = c.in.Bool()
		return
	}
	c.out = kbin.AppendBool(c.out, *v)
}

func (c *coder) int8(v *int8) {
	if c.in != nil {
		*v = c.in.Int8()
		return
	}
	c.out = kbin.AppendInt8(c.out, *v)
}

func (c *coder) int16(v *int16) {
	if c.in != nil {
		*v = c.in.Int16()
		return
	}
	c.out = kbin.AppendInt16(c.out, *v)
}

func (c *coder) int32(v *int32) {
	if c.in != nil {
		*v = c.in.Int32()
		return
	}
	c.out = kbin.AppendInt32(c.out, *v)
}

func (c *coder) int64(v *int64) {
	if c.in != nil {
		*v = c.in.Int64()
		return
	}
	c.out = kbin.AppendInt64(c.out, *v)
}

func (c *coder) uuid(v *[16]byte) {
	if c.in != nil {
		*v = c.in.Uuid()
		return
	}
	c.out = kbin.AppendUuid(c.out, *v)
}

// text is a string that cannot be null; kbin reads a null as "", so null is
// told apart here.
func (c *coder) text(v *string) {
	if c.in == nil {
		c.out = kbin.AppendCompactString(c.out, *v)
		return
	}
	s := c.in.CompactNullableString()
	if s == nil {
		if c.in.Ok() {
			c.fail(errors.New("null in a string that is not nullable"))
		}
		*v = ""
		return
	}
	*v = *s
}

func (c *coder) nullText(v **string) {
	if c.in != nil {
		*v = c.in.CompactNullableString()
		return
	}
	c.out = kbin.AppendCompactNullableString(c.out, *v)
}

// array is an array that cannot be null. Reading an empty one gives nil.
func array[T any](c *coder, v *[]T, each func(*coder, *T)) {
	if c.in == nil {
		c.out = kbin.AppendCompactArrayLen(c.out, len(*v))
		for i := range *v {
			each(c, &(*v)[i])
		}
		return
	}
	*v = nil
	n := c.in.CompactArrayLen() // refuses more elements than there are bytes
	if n < 0 {
		if c.in.Ok() {
			c.fail(errors.New("null in an array that is not nullable"))
		}
		return
	}
	for range n {
		var e T
		each(c, &e)
		if !c.in.Ok() || c.err != nil {
			return
		}
		*v = append(*v, e)
	}
}

func texts(c *coder, v *[]string) {
	array(c, v, func(c *coder, s *string) { c.text(s) })
}

func int32s(c *coder, v *[]int32) {
	array(c, v, func(c *coder, n *int32) { c.int32(n) })
}

// A tag is one tagged field: it is written unless it has its default.
type tag struct {
	number    uint32
	isDefault bool
	reset     func()
	walk      func(*coder)
}

// tagOf makes the tag of a field whose default is def.
func tagOf[T comparable](number uint32, v *T, def T, walk func(*coder, *T)) tag {
	return tag{number, *v == def, func() { *v = def }, func(c *coder) { walk(c, v) }}
}

// tagArray makes the tag of an array, which is empty by default.
func tagArray[T any](number uint32, v *[]T, each func(*coder, *T)) tag {
	return tag{number, len(*v) == 0, func() { *v = nil }, func(c *coder) { array(c, v, each) }}
}

// tags walks over the tagged fields at a struct's end, in rising order.
// Unknown ones are skipped.
func (c *coder) tags(tags ...tag) {
	if c.in == nil {
		var n uint32
		for _, t := range tags {
			if !t.isDefault {
				n++
			}
		}
		c.out = kbin.AppendUvarint(c.out, n)
		for _, t := range tags {
			if t.isDefault {
				continue
			}
			body := coder{}
			t.walk(&body)
			c.out = kbin.AppendUvarint(c.out, t.number)
			c.out = kbin.AppendUvarint(c.out, uint32(len(body.out)))
			c.out = append(c.out, body.out...)
		}
		return
	}
	for _, t := range tags {
		t.reset()
	}
	last := int64(-1)
	for n := c.in.Uvarint(); n > 0 && c.in.Ok(); n-- {
		number, size := c.in.Uvarint(), c.in.Uvarint()
		body := c.in.Span(int(size))
		if !c.in.Ok() {
			return
		}
		if int64(number) <= last {
			c.fail(fmt.Errorf("tagged field %d after %d", number, last))
			return
		}
		last = int64(number)
		for _, t := range tags {
			if t.number != number {
				continue
			}
			sub := coder{in: &kbin.Reader{Src: body}}
			t.walk(&sub)
			if err := sub.done(); err != nil {
				c.fail(fmt.Errorf("tagged field %d: %w", number, err))
				return
			}
		}
	}
}

// done ends the reading of a whole message or tagged field.
func (c *coder) done() error {
	switch {
	case c.err != nil:
		return c.err
	case !c.in.Ok():
		return kbin.ErrNotEnoughData
	case len(c.in.Src) > 0:
		return fmt.Errorf("%d bytes left over", len(c.in.Src))
	}
	return nil
}

// encode appends what walk describes to dst.
func encode(dst []byte, walk func(*coder)) []byte {
	c := coder{out: dst}
	walk(&c)
	return c.out
}

// decode reads src as what walk describes.
func decode(src []byte, walk func(*coder)) error {
	c := coder{in: &kbin.Reader{Src: src}}
	walk(&c)
	return c.done()
}

// v0 is the version of a message; all of this package are version 0 only.
type v0 struct{ Version int16 }

// MaxVersion is 0.
func (*v0) MaxVersion() int16 { return 0 }

// MinVersion is 0.
func (*v0) MinVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *v0) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *v0) GetVersion() int16 { return v.Version }

// IsFlexible is true for every version.
func (*v0) IsFlexible() bool { return true }
