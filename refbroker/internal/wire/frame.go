package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// DefaultMaxFrame is Kafka's socket.request.max.bytes.
const DefaultMaxFrame = 100 << 20

// readFrame reads one frame: a length of four bytes, then as many bytes. The
// buffer grows with what arrives, so a length alone costs nothing. io.EOF
// means that the peer closed between frames.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:])))
	if size < minHeader || size > int64(limit) {
		return nil, fmt.Errorf("frame of %d bytes (want %d to %d)", size, minHeader, limit)
	}
	buf := make([]byte, 0, min(size, 64<<10))
	for int64(len(buf)) < size {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(size, 2*int64(cap(buf))))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil && int64(len(buf)) < size {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("frame cut at %d of %d bytes: %w", len(buf), size, err)
		}
	}
	return buf, nil
}

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
