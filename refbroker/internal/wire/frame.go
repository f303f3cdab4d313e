package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kbin"
)

// DefaultMaxFrame is Kafka's socket.request.max.bytes.
const DefaultMaxFrame = 100 << 20

// freeBytes is the part of a frame that costs nothing of the budget: fetches,
// heartbeats and the like never wait for memory.
const freeBytes = 16 << 10

// Decoding costs more than the frame. An array is refused when it claims more
// elements than there can be in the bytes that follow, but an element is larger
// in memory than in the frame, by up to some thirty times where a frame is made
// for it. So a request without records, which no client makes large, is bounded
// by plainFrame, and counts for decoded times its size; one with records has
// its array checked against what the least batch takes.
const (
	plainFrame = 8 << 20
	decoded    = 8
	leastBatch = 61
)

// checkBulk refuses a Produce body that claims more topics than there can be:
// each has a batch. Small ones may be without.
func checkBulk(body []byte, flexible bool) error {
	if len(body) <= freeBytes {
		return nil
	}
	b := kbin.Reader{Src: body}
	var topics int32
	if flexible {
		b.CompactNullableString()
		b.Span(2 + 4)
		topics = b.CompactArrayLen()
	} else {
		b.NullableString()
		b.Span(2 + 4)
		topics = b.ArrayLen()
	}
	if !b.Ok() || int64(topics)*leastBatch > int64(len(body)) {
		return fmt.Errorf("%d topics in %d bytes of records", topics, len(body))
	}
	return nil
}

// growth is how much larger each buffer of a frame is than the one before: how
// much a client can claim beyond what it has sent.
const growth = 4

// readFrame reads one frame: a length of four bytes, then as many bytes. The
// buffer grows with what arrives, so a length alone costs nothing; before it
// holds size bytes, grow is asked whether it may. No frame is larger than most.
// io.EOF means that the peer closed between frames.
func (t *Table) readFrame(r *bufio.Reader, most int, grow func(size int) error) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:])))
	if size < minHeader || size > int64(most) {
		return nil, fmt.Errorf("frame of %d bytes (want %d to %d)", size, minHeader, most)
	}
	first, err := r.Peek(2)
	if err != nil {
		return nil, cutShort(0, size, err)
	}
	key := keyOf(first)
	if size > plainFrame && !t.apis[key].Bulk {
		return nil, fmt.Errorf("frame of %d bytes with api key %d, which has no records (want at most %d)", size, key, plainFrame)
	}
	var buf []byte
	room := 0
	for int64(len(buf)) < size {
		if len(buf) == room {
			room = int(min(size, max(freeBytes, growth*int64(room))))
			if err := grow(room); err != nil {
				return nil, fmt.Errorf("frame of %d bytes: %w", size, err)
			}
			buf = t.regrow(buf, room, t.apis[key].Bulk)
		}
		n, err := r.Read(buf[len(buf):room])
		buf = buf[:len(buf)+n]
		if err != nil && int64(len(buf)) < size {
			return nil, cutShort(len(buf), size, err)
		}
	}
	return buf, nil
}

// regrow moves what was read into a buffer with room for more.
func (t *Table) regrow(buf []byte, room int, bulk bool) []byte {
	if !bulk {
		return append(make([]byte, 0, room), buf...)
	}
	grown := append(t.frames.take(room), buf...)
	t.frames.give(buf)
	return grown
}

func cutShort(at int, size int64, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("frame cut at %d of %d bytes: %w", at, size, err)
}

// keyOf is the API key of a frame.
func keyOf(frame []byte) int16 { return int16(binary.BigEndian.Uint16(frame)) }

// minHeader is the shortest request: key, version, correlation id and a null
// client id.
const minHeader = 10

// header is the part of a request header that every version has.
type header struct {
	key, version  int16
	correlationID int32
	clientID      string
}

var errShort = errors.New("request header is cut short")

// parseHeader reads a request header up to the client id. What follows it is
// tagged fields when the request is flexible; see skipTags.
func parseHeader(b []byte) (header, []byte, error) {
	if len(b) < minHeader {
		return header{}, nil, errShort
	}
	h := header{
		key:           int16(binary.BigEndian.Uint16(b)),
		version:       int16(binary.BigEndian.Uint16(b[2:])),
		correlationID: int32(binary.BigEndian.Uint32(b[4:])),
	}
	n := int(int16(binary.BigEndian.Uint16(b[8:])))
	b = b[minHeader:]
	if n > len(b) {
		return header{}, nil, errShort
	}
	if n > 0 {
		h.clientID, b = string(b[:n]), b[n:]
	}
	return h, b, nil
}

// skipTags passes over the tagged fields that end a flexible header.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errShort
	}
	b = b[n:]
	for ; count > 0; count-- {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errShort
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, errShort
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}

// apiVersionsKey is special in two ways (KIP-511): its response never has a
// flexible header, and an unsupported version is answered in version 0.
const apiVersionsKey = 18

// decode makes a Request of a frame. An error means that the connection can't
// go on.
func (t *Table) decode(frame []byte) (*Request, API, error) {
	h, rest, err := parseHeader(frame)
	if err != nil {
		return nil, API{}, err
	}
	api, ok := t.apis[h.key]
	if !ok {
		return nil, API{}, fmt.Errorf("api key %d (version %d) is not served", h.key, h.version)
	}
	req := &Request{Key: h.key, Version: h.version, CorrelationID: h.correlationID, ClientID: h.clientID, Body: api.New()}
	if h.version < api.Min || h.version > api.Max {
		if h.key != apiVersionsKey {
			return nil, API{}, fmt.Errorf("%s version %d (served: %d to %d)", api.Name, h.version, api.Min, api.Max)
		}
		req.Version, req.Unsupported = 0, true
		req.Body.SetVersion(0)
		return req, api, nil
	}
	req.Body.SetVersion(h.version)
	if req.Body.IsFlexible() {
		if rest, err = skipTags(rest); err != nil {
			return nil, API{}, fmt.Errorf("%s version %d: %w", api.Name, h.version, err)
		}
	}
	if api.Bulk {
		if err := checkBulk(rest, req.Body.IsFlexible()); err != nil {
			return nil, API{}, fmt.Errorf("%s version %d: %w", api.Name, h.version, err)
		}
	}
	if err := req.Body.ReadFrom(rest); err != nil {
		return nil, API{}, fmt.Errorf("%s version %d: %w", api.Name, h.version, err)
	}
	return req, api, nil
}

// responseHeader begins the frame of a response: room for its length, and the
// header.
func responseHeader(req *Request) []byte {
	b := make([]byte, 4, 256)
	b = binary.BigEndian.AppendUint32(b, uint32(req.CorrelationID))
	if req.Key != apiVersionsKey && req.Body.IsFlexible() {
		b = append(b, 0)
	}
	return b
}

// encode makes the frame of a response.
func encode(req *Request, resp Response) []byte {
	b := resp.AppendTo(responseHeader(req))
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
