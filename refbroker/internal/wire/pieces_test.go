package wire

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lent is a piece in memory that counts who gives it back.
type lent struct {
	text     string
	intact   func() bool
	released *atomic.Int32
}

func (l lent) Size() int64  { return int64(len(l.text)) }
func (l lent) Intact() bool { return l.intact == nil || l.intact() }
func (l lent) Release()     { l.released.Add(1) }
func (l lent) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, l.text)
	return int64(n), err
}

// inPieces answers Metadata with a cluster id that is lent.
type inPieces struct {
	*kmsg.MetadataResponse
	id lent
}

func (r inPieces) Pieces(dst []byte) []Piece {
	whole := r.AppendTo(nil)
	at := bytes.Index(whole, []byte(r.id.text))
	return []Piece{{Bytes: append(dst, whole[:at]...)}, {Lent: r.id}, {Bytes: whole[at+len(r.id.text):]}}
}

func servePieces(t *testing.T, id lent) *served {
	return serve(t, nil, Of("Metadata", 0, 12, func(_ context.Context, req *Request, _ *kmsg.MetadataRequest) (Response, error) {
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version, resp.ClusterID = req.Version, &id.text
		return inPieces{resp, id}, nil
	}))
}

func TestAResponseInPiecesIsOneFrame(t *testing.T) {
	id := lent{text: strings.Repeat("lent", 30_000/4), released: new(atomic.Int32)}
	s := servePieces(t, id)
	c := s.dial()
	for range 2 {
		send(t, c, request(5, 2, metadataFor("x")))
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version = 2
		require.Equal(t, int32(5), receive(t, c, false, resp))
		require.Equal(t, id.text, *resp.ClusterID)
	}
	s.Close()
	require.Equal(t, int32(2), id.released.Load())
}

// The peer must not get the whole frame, or it would believe it.
func TestAResponseWhosePiecesChangedWhileTheyWereSentIsNotFinished(t *testing.T) {
	id := lent{text: "was true", intact: func() bool { return false }, released: new(atomic.Int32)}
	s := servePieces(t, id)
	c := s.dial()
	send(t, c, request(5, 2, metadataFor("x")))
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(got), id.text)
	want := int(got[0])<<24 | int(got[1])<<16 | int(got[2])<<8 | int(got[3])
	require.Less(t, len(got)-4, want)
	s.Close()
	require.Equal(t, int32(1), id.released.Load())
}
