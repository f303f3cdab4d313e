package history

import (
	"bytes"
	"math"
	"unsafe"
)

// fastLine decodes the lines that make up nearly all of a history, those of
// writes and reads, where they are exactly as [Writer] writes them: the fields in
// their order, no space, plain ASCII without escapes. What it takes it decodes as
// encoding/json does, and what it is not sure of it leaves to that.
type fastLine struct {
	rest  []byte
	words [256]string // strings seen before, by a hash: most come again and again

	event   Event
	produce Produce
	batch   BatchID
	result  Result
	read    Observed
}

// decode returns the event, which is overwritten by the next call; nil where
// the line has to be decoded otherwise.
func (f *fastLine) decode(line []byte) *Event {
	f.rest = line
	e := &f.event
	e.Op, e.Episode, e.Read, e.Produce = 0, 0, nil, nil
	var ok bool
	if !f.lit(`{"seq":`) || !f.int64(&e.Seq) || !f.lit(`,"at":`) || !f.int64(&e.At) || !f.lit(`,"kind":"`) {
		return nil
	}
	switch {
	case f.lit(`read"`):
		e.Kind = KindRead
	case f.lit(`produce-begin"`):
		e.Kind = KindProduceBegin
	case f.lit(`produce-ack"`):
		e.Kind = KindProduceAck
	default:
		return nil
	}
	if f.lit(`,"op":`) && !f.int64(&e.Op) {
		return nil
	}
	if f.lit(`,"episode":`) && !f.int32(&e.Episode) {
		return nil
	}
	if e.Kind == KindRead {
		e.Read, ok = &f.read, f.observed()
	} else {
		e.Produce, ok = &f.produce, f.produced()
	}
	if !ok || len(f.rest) != 1 || f.rest[0] != '}' {
		return nil
	}
	return e
}

func (f *fastLine) observed() bool {
	o := &f.read
	*o = Observed{}
	if !f.lit(`,"read":{"reader":`) || !f.word(&o.Reader) ||
		!f.lit(`,"cluster":`) || !f.word(&o.Cluster) ||
		!f.lit(`,"topic":`) || !f.word(&o.Topic) ||
		!f.lit(`,"partition":`) || !f.int32(&o.Partition) ||
		!f.lit(`,"isolation":`) || !f.word((*string)(&o.Isolation)) ||
		!f.lit(`,"offset":`) || !f.int64(&o.Offset) {
		return false
	}
	if f.lit(`,"tag":`) {
		text, ok := f.text()
		if !ok || !plain(text) {
			return false
		}
		if len(text) > 0 { // of the line, which stays until the next one: see [Event.Clone]
			o.Tag = unsafe.String(&text[0], len(text))
		}
	}
	return (!f.lit(`,"count":`) || f.int32(&o.Count)) && f.lit(`}`)
}

func (f *fastLine) produced() bool {
	p := &f.produce
	*p = Produce{}
	if !f.lit(`,"produce":{"writer":`) || !f.word(&p.Writer) ||
		!f.lit(`,"cluster":`) || !f.word(&p.Cluster) ||
		!f.lit(`,"topic":`) || !f.word(&p.Topic) ||
		!f.lit(`,"partition":`) || !f.int32(&p.Partition) ||
		!f.lit(`,"mode":`) || !f.word((*string)(&p.Mode)) ||
		!f.lit(`,"tag":{"cluster":`) || !f.word(&p.Tag.Cluster) ||
		!f.lit(`,"writer":`) || !f.word(&p.Tag.Writer) ||
		!f.lit(`,"txn":`) || !f.int64(&p.Tag.Txn) ||
		!f.lit(`,"intent":`) || !f.word((*string)(&p.Tag.Intent)) ||
		!f.lit(`,"index":`) || !f.int64(&p.Tag.Index) ||
		!f.lit(`,"place":`) || !f.word(&p.Tag.Place) ||
		!f.lit(`},"count":`) || !f.int32(&p.Count) {
		return false
	}
	if f.lit(`,"collision":`) && !f.word((*string)(&p.Collision)) || f.lit(`,"trial":`) && !f.word((*string)(&p.Trial)) {
		return false
	}
	if f.lit(`,"batch":{"producerId":`) {
		f.batch = BatchID{}
		p.Batch = &f.batch
		if !f.int64(&p.Batch.ProducerID) || !f.lit(`,"epoch":`) || !f.int16(&p.Batch.Epoch) ||
			!f.lit(`,"baseSequence":`) || !f.int32(&p.Batch.BaseSequence) || !f.lit(`}`) {
			return false
		}
	}
	if !f.lit(`,"offset":`) || !f.int64(&p.Offset) {
		return false
	}
	if f.lit(`,"result":{"outcome":`) {
		f.result = Result{}
		p.Result = &f.result
		if !f.word((*string)(&p.Result.Outcome)) || !f.lit(`,"code":`) || !f.int16(&p.Result.Code) ||
			f.lit(`,"message":`) && !f.word(&p.Result.Message) || !f.lit(`}`) {
			return false
		}
	}
	return f.lit(`}`)
}

// lit takes the text off the line, if that goes on with it.
func (f *fastLine) lit(text string) bool {
	if len(f.rest) < len(text) || string(f.rest[:len(text)]) != text {
		return false
	}
	f.rest = f.rest[len(text):]
	return true
}

// text takes a quoted string off the line; it may hold an escape.
func (f *fastLine) text() ([]byte, bool) {
	if len(f.rest) < 2 || f.rest[0] != '"' {
		return nil, false
	}
	n := bytes.IndexByte(f.rest[1:], '"')
	if n < 0 {
		return nil, false
	}
	text := f.rest[1 : 1+n]
	f.rest = f.rest[n+2:]
	return text, true
}

func (f *fastLine) word(to *string) bool {
	text, ok := f.text()
	if !ok {
		return false
	}
	if len(text) == 0 {
		*to = ""
		return true
	}
	known := &f.words[uint8(len(text))*31^text[0]^text[len(text)-1]*7]
	if *known != string(text) {
		if !plain(text) {
			return false
		}
		*known = string(text)
	}
	*to = *known
	return true
}

// plain says whether a string is ASCII without control characters and escapes.
func plain(text []byte) bool {
	for _, c := range text {
		if c < 0x20 || c >= 0x7f || c == '\\' {
			return false
		}
	}
	return true
}

// int64 takes a quoted number off the line.
func (f *fastLine) int64(to *int64) bool {
	if len(f.rest) == 0 || f.rest[0] != '"' {
		return false
	}
	f.rest = f.rest[1:]
	return f.number(to) && f.lit(`"`)
}

func (f *fastLine) int32(to *int32) bool {
	var n int64
	if !f.number(&n) || n < math.MinInt32 || n > math.MaxInt32 {
		return false
	}
	*to = int32(n)
	return true
}

func (f *fastLine) int16(to *int16) bool {
	var n int64
	if !f.number(&n) || n < math.MinInt16 || n > math.MaxInt16 {
		return false
	}
	*to = int16(n)
	return true
}

// number takes an integer off the line that is written as Go writes it.
func (f *fastLine) number(to *int64) bool {
	rest := f.rest
	negative := len(rest) > 0 && rest[0] == '-'
	if negative {
		rest = rest[1:]
	}
	n, digits := uint64(0), 0
	for digits < len(rest) && rest[digits]-'0' <= 9 {
		if digits == 19 {
			return false
		}
		n = n*10 + uint64(rest[digits]-'0')
		digits++
	}
	if digits == 0 || n > math.MaxInt64 || rest[0] == '0' && (digits > 1 || negative) {
		return false
	}
	*to = int64(n)
	if negative {
		*to = -*to
	}
	f.rest = rest[digits:]
	return true
}
