package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a server on loopback with handlers of the test's.
type served struct {
	*Server
	t    *testing.T
	addr string
}

func serve(t *testing.T, change func(*Config), apis ...API) *served {
	t.Helper()
	table, err := NewTable(apis...)
	require.NoError(t, err)
	cfg := Config{Table: table, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&cfg)
	}
	s := &served{Server: NewServer(cfg), t: t}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	require.NoError(t, s.Serve("client", l))
	t.Cleanup(s.Close)
	return s
}

func (s *served) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	require.NoError(s.t, c.SetDeadline(time.Now().Add(10*time.Second)))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// request makes a request's frame, with a client id and, in flexible versions,
// a tagged field in its header.
func request(id int32, version int16, r kmsg.Request) []byte {
	r.SetVersion(version)
	b := make([]byte, 4)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = append(b, 0, 2, 'm', 'e')
	if r.IsFlexible() {
		b = append(b, 1, 9, 3, 'x', 'y', 'z')
	}
	b = r.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func send(t *testing.T, c net.Conn, frames ...[]byte) {
	t.Helper()
	for _, f := range frames {
		_, err := c.Write(f)
		require.NoError(t, err)
	}
}

// receive reads a response, whose header has tags when flexible, and returns
// its correlation id.
func receive(t *testing.T, c net.Conn, flexible bool, into kmsg.Response) int32 {
	t.Helper()
	var head [8]byte
	_, err := io.ReadFull(c, head[:])
	require.NoError(t, err)
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err = io.ReadFull(c, body)
	require.NoError(t, err)
	if flexible {
		require.Equal(t, byte(0), body[0])
		body = body[1:]
	}
	require.NoError(t, into.ReadFrom(body))
	return int32(binary.BigEndian.Uint32(head[4:]))
}

func requireClosed(t *testing.T, c net.Conn) {
	t.Helper()
	n, err := c.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "still open")
}

// echo answers Metadata with the request's first topic as the cluster id.
func echo(handled *atomic.Int32) API {
	return Of("Metadata", 0, 12, func(_ context.Context, req *Request, r *kmsg.MetadataRequest) (Response, error) {
		if handled != nil {
			handled.Add(1)
		}
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version, resp.ClusterID = req.Version, r.Topics[0].Topic
		return resp, nil
	})
}

func metadataFor(topic string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	return r
}

func TestResponsesComeInTheOrderOfPipelinedRequests(t *testing.T) {
	s := serve(t, nil, echo(nil))
	c := s.dial()
	send(t, c, append(request(7, 2, metadataFor("first")), request(8, 12, metadataFor("second"))...))
	for _, want := range []struct {
		id      int32
		version int16
		text    string
	}{{7, 2, "first"}, {8, 12, "second"}} {
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version = want.version
		require.Equal(t, want.id, receive(t, c, want.version >= 9, resp))
		require.Equal(t, want.text, *resp.ClusterID)
	}
}

func TestAWaitingRequestHoldsUpItsOwnConnectionOnly(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := Of("Fetch", 4, 4, func(ctx context.Context, req *Request, _ *kmsg.FetchRequest) (Response, error) {
		close(arrived)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return req.Response(), nil
	})
	var handled atomic.Int32
	s := serve(t, nil, slow, echo(&handled))
	waiting, other := s.dial(), s.dial()
	send(t, waiting, request(1, 4, kmsg.NewPtrFetchRequest()), request(2, 2, metadataFor("behind")))
	<-arrived
	send(t, other, request(3, 2, metadataFor("beside")))
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 2
	require.Equal(t, int32(3), receive(t, other, false, resp))
	require.Equal(t, int32(1), handled.Load(), "what is pipelined behind it waits")
	close(release)
	fetched := kmsg.NewPtrFetchResponse()
	fetched.Version = 4
	require.Equal(t, int32(1), receive(t, waiting, false, fetched))
	require.Equal(t, int32(2), receive(t, waiting, false, resp))
	require.Equal(t, "behind", *resp.ClusterID)
}

func TestGarbageEndsItsConnectionOnly(t *testing.T) {
	var handled atomic.Int32
	fail := Of("EndTxn", 0, 5, func(context.Context, *Request, *kmsg.EndTxnRequest) (Response, error) {
		return nil, errors.New("no")
	})
	s := serve(t, func(c *Config) { c.MaxFrame = 1 << 20 }, echo(&handled), fail)
	cut := request(1, 2, metadataFor("cut"))
	binary.BigEndian.PutUint32(cut, uint32(len(cut)-4-2)) // the last bytes are not part of it
	for name, bytes := range map[string][]byte{
		"http":                  []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"negative length":       {0xff, 0xff, 0xff, 0xff},
		"no room for a header":  {0, 0, 0, 3, 0, 0, 0},
		"above the limit":       {0, 0x10, 0, 1},
		"client id cut":         {0, 0, 0, 10, 0, 3, 0, 2, 0, 0, 0, 1, 0, 9},
		"key that is not known": request(1, 0, kmsg.NewPtrSASLHandshakeRequest()),
		"version too high":      request(1, 13, metadataFor("x")),
		"negative version":      {0, 0, 0, 10, 0, 3, 0xff, 0xfe, 0, 0, 0, 1, 0xff, 0xff},
		"body cut":              cut,
		"tags cut":              {0, 0, 0, 11, 0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 5},
		"handler that fails":    request(1, 0, kmsg.NewPtrEndTxnRequest()),
	} {
		t.Run(name, func(t *testing.T) {
			c := s.dial()
			send(t, c, bytes)
			requireClosed(t, c)
			good := s.dial()
			send(t, good, request(5, 2, metadataFor(name)))
			resp := kmsg.NewPtrMetadataResponse()
			resp.Version = 2
			receive(t, good, false, resp)
			require.Equal(t, name, *resp.ClusterID)
		})
	}
}

func TestALengthAloneCostsNoMemory(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte{0, 0x80, 0, 0, 1, 2, 3}) // 8 MiB to come
		_ = w.Close()
	}()
	_, err := (&Table{}).readFrame(bufio.NewReader(r), DefaultMaxFrame, func(size int) error {
		require.LessOrEqual(t, size, freeBytes)
		return nil
	})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "cut at 3 of 8388608 bytes")
}

func TestUnsupportedApiVersionsIsAnsweredInVersionZero(t *testing.T) {
	s := serve(t, nil, Of("ApiVersions", 0, 3, func(_ context.Context, req *Request, _ *kmsg.ApiVersionsRequest) (Response, error) {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = req.Version
		if req.Unsupported {
			resp.ErrorCode = 35
		}
		return resp, nil
	}))
	for version, want := range map[int16]int16{0: 0, 3: 0, 4: 35, 99: 35} {
		c := s.dial()
		frame := request(1, min(version, 4), kmsg.NewPtrApiVersionsRequest())
		binary.BigEndian.PutUint16(frame[6:], uint16(version))
		send(t, c, frame)
		resp := kmsg.NewPtrApiVersionsResponse()
		if want == 0 {
			resp.Version = version
		}
		// Never a tagged header, or clients could not read the error.
		require.Equal(t, int32(1), receive(t, c, false, resp))
		require.Equal(t, want, resp.ErrorCode, "version %d", version)
	}
}

func TestNoResponseMeansThatTheNextRequestIsRead(t *testing.T) {
	silent := Of("Produce", 3, 3, func(context.Context, *Request, *kmsg.ProduceRequest) (Response, error) { return nil, nil })
	quits := Of("Fetch", 4, 4, func(context.Context, *Request, *kmsg.FetchRequest) (Response, error) { return nil, ErrCloseConnection })
	s := serve(t, nil, silent, quits, echo(nil))
	c := s.dial()
	send(t, c, request(1, 3, kmsg.NewPtrProduceRequest()), request(2, 2, metadataFor("after")))
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 2
	require.Equal(t, int32(2), receive(t, c, false, resp))
	send(t, c, request(3, 4, kmsg.NewPtrFetchRequest()))
	requireClosed(t, c)
}

func TestOneConnectionTooManyIsClosed(t *testing.T) {
	s := serve(t, func(c *Config) { c.MaxConns = 1 }, echo(nil))
	first := s.dial()
	send(t, first, request(1, 2, metadataFor("first")))
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 2
	receive(t, first, false, resp)
	requireClosed(t, s.dial())
	send(t, first, request(2, 2, metadataFor("still there")))
	receive(t, first, false, resp)
	require.Equal(t, "still there", *resp.ClusterID)
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	s := serve(t, func(c *Config) { c.Idle = 20 * time.Millisecond }, echo(nil))
	requireClosed(t, s.dial())
}

func TestCloseLetsHandlersEndAndTheirResponsesGoOut(t *testing.T) {
	arrived := make(chan struct{})
	s := serve(t, nil, Of("Metadata", 0, 12, func(ctx context.Context, req *Request, _ *kmsg.MetadataRequest) (Response, error) {
		close(arrived)
		<-ctx.Done()
		cause := context.Cause(ctx).Error()
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version, resp.ClusterID = req.Version, &cause
		return resp, nil
	}))
	busy, idle := s.dial(), s.dial()
	send(t, busy, request(1, 2, metadataFor("x")))
	<-arrived
	s.Close()
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 2
	receive(t, busy, false, resp)
	require.Equal(t, ErrClosing.Error(), *resp.ClusterID)
	requireClosed(t, busy)
	requireClosed(t, idle)
	_, err := net.Dial("tcp", s.addr)
	require.Error(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorIs(t, s.Serve("late", l), ErrClosing)
	require.NoError(t, l.Close())
}

func TestATableThatContradictsItselfIsRefused(t *testing.T) {
	_, err := NewTable(echo(nil), echo(nil))
	require.ErrorContains(t, err, "api key 3: both Metadata and Metadata")
	_, err = NewTable(API{Key: 1, Name: "Fetch", Min: 4, Max: 3})
	require.ErrorContains(t, err, "api Fetch (key 1): incomplete row")
}
