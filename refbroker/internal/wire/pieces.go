package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// Lent is a part of a response that lies elsewhere, in a file say.
type Lent interface {
	Size() int64
	// WriteTo sends it.
	io.WriterTo
	// Intact reports whether what was sent is still what the response claims.
	Intact() bool
	// Release gives it back.
	Release()
}

// Piece is one part of a response: bytes, or something lent.
type Piece struct {
	Bytes []byte
	Lent  Lent
}

func (p Piece) size() int64 {
	if p.Lent != nil {
		return p.Lent.Size()
	}
	return int64(len(p.Bytes))
}

// PiecedResponse is a response that need not be copied into one buffer.
type PiecedResponse interface {
	Response
	// Pieces is what AppendTo(dst) makes, in pieces, of which dst begins the
	// first. The last is bytes, never empty if something is lent.
	Pieces(dst []byte) []Piece
}

// errChanged ends a connection whose response is no longer true.
var errChanged = errors.New("the log changed while it was sent")

// pieces makes the frame of a response. What is lent must be released.
func pieces(req *Request, resp Response) []Piece {
	r, ok := resp.(PiecedResponse)
	if !ok {
		return []Piece{{Bytes: encode(req, resp)}}
	}
	all := r.Pieces(responseHeader(req))
	size := int64(-4)
	for _, p := range all {
		size += p.size()
	}
	binary.BigEndian.PutUint32(all[0].Bytes, uint32(size))
	return all
}

// sendPieces writes pieces one after the other, neighbouring bytes at once. The peer
// believes no frame that is not whole: so before the last bytes everything that
// was lent has to be intact.
func sendPieces(w io.Writer, all []Piece) (sent int64, err error) {
	if len(all) == 1 && all[0].Lent == nil {
		n, err := w.Write(all[0].Bytes)
		return int64(n), err
	}
	var bytes net.Buffers
	for _, p := range all {
		var n int64
		if p.Lent == nil {
			bytes = append(bytes, p.Bytes)
			continue
		}
		if n, err = bytes.WriteTo(w); err == nil {
			sent += n
			n, err = p.Lent.WriteTo(w)
		}
		sent += n
		if err != nil {
			return sent, err
		}
	}
	for _, p := range all {
		if p.Lent != nil && !p.Lent.Intact() {
			return sent, errChanged
		}
	}
	n, err := bytes.WriteTo(w)
	return sent + n, err
}

func release(all []Piece) {
	for _, p := range all {
		if p.Lent != nil {
			p.Lent.Release()
		}
	}
}
