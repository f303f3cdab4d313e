package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxResponse bounds what a broker may send in one response, in bytes.
const maxResponse = 128 << 20

// ReadResponse returns the bytes behind a response's correlation id, which must
// be the request's. begun is false where the other side ended the connection
// without a word: it had closed it before the request came.
func ReadResponse(r io.Reader, correlation int32) (raw []byte, begun bool, err error) {
	return ReadResponseInto(r, correlation, nil)
}

// ReadResponseInto is ReadResponse into a buffer that an earlier one left, if that
// is large enough. A new one has room for more, so that the next may use it.
func ReadResponseInto(r io.Reader, correlation int32, buffer []byte) (raw []byte, begun bool, err error) {
	var head [8]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		return nil, n > 0 || !errors.Is(err, io.EOF), err
	}
	size, got := int32(binary.BigEndian.Uint32(head[:])), int32(binary.BigEndian.Uint32(head[4:]))
	if size < 4 || size > maxResponse {
		return nil, true, fmt.Errorf("response of %d bytes", size)
	}
	if got != correlation {
		return nil, true, fmt.Errorf("response to request %d, not %d", got, correlation)
	}
	if raw = buffer[:0]; cap(raw) < int(size-4) {
		raw = make([]byte, 0, max(int(size-4), 2*cap(raw)))
	}
	raw = raw[:size-4]
	_, err = io.ReadFull(r, raw)
	return raw, true, err
}

// Decode reads a response of a version from the bytes behind its correlation id.
func Decode(resp kmsg.Response, raw []byte, version int16) error {
	resp.SetVersion(version)
	if resp.IsFlexible() { // response header v1
		b := kbin.Reader{Src: raw}
		for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
			b.Uvarint()
			b.Span(int(b.Uvarint()))
		}
		if err := b.Complete(); err != nil {
			return fmt.Errorf("response header: %w", err)
		}
		raw = b.Src
	}
	return resp.ReadFrom(raw)
}
