package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// addressBook finds voters by their id, so that one may move to another
// address: raft itself remembers the one of the first start.
type addressBook map[int32]string

// ServerAddr finds one voter.
func (b addressBook) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	for v, addr := range b {
		if serverID(v) == id {
			return raft.ServerAddress(addr), nil
		}
	}
	return "", fmt.Errorf("no address for voter %s (see --voter)", id)
}

func sortedIDs[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// stream is raft's way to the network: the host's listener and dialer. It
// knows every connection, so that Close ends them all: raft's transport
// forgets some. Connections that bring commands or heartbeats are told from raft's
// by their first byte.
type stream struct {
	listener net.Listener
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	// ours serve the connections that are not raft's, by their first byte.
	ours     map[byte]func(ctx context.Context, c net.Conn)
	accepted chan net.Conn

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // never held while waiting
	conns  map[*trackedConn]struct{}
	closed bool
}

func newStream(l net.Listener, dial func(context.Context, string, string) (net.Conn, error), ours map[byte]func(context.Context, net.Conn)) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{
		listener: l, dial: dial, ours: ours, accepted: make(chan net.Conn), ctx: ctx, cancel: cancel,
		conns: map[*trackedConn]struct{}{},
	}
	s.work.Go(s.accept)
	return s
}

// Addr is where the listener listens.
func (s *stream) Addr() net.Addr { return s.listener.Addr() }

// Accept waits for a raft connection of another voter.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// accept takes connections until Close.
func (s *stream) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-time.After(50 * time.Millisecond): // out of descriptors, say
				continue
			case <-s.ctx.Done():
				return
			}
		}
		if t, err := s.track(c); err == nil {
			s.work.Go(func() { s.sort(t) })
		}
	}
}

// firstByteWait bounds how long a connection may keep silent at first.
const firstByteWait = 10 * time.Second

// sort reads a connection's first byte and gives it to whom it is for.
func (s *stream) sort(c net.Conn) {
	var first [1]byte
	_ = c.SetReadDeadline(time.Now().Add(firstByteWait))
	if _, err := io.ReadFull(c, first[:]); err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	if serve, ok := s.ours[first[0]]; ok {
		serve(s.ctx, c)
		_ = c.Close()
		return
	}
	select {
	case s.accepted <- &pushedBack{Conn: c, first: first[:]}:
	case <-s.ctx.Done():
		_ = c.Close()
	}
}

// pushedBack is a connection whose first byte was read already.
type pushedBack struct {
	net.Conn
	first []byte
}

// Read reads the first byte again, and then the rest.
func (p *pushedBack) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// Dial connects to another voter.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := s.dial(ctx, "tcp", string(address))
	if err != nil {
		return nil, err
	}
	return s.track(c)
}

func (s *stream) track(c net.Conn) (net.Conn, error) {
	t := &trackedConn{Conn: c, owner: s}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.conns[t] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return t, nil
}

// Close ends the listener and every connection, and waits for what served
// them. Raft's transport closes its stream too; the second time is no error.
func (s *stream) Close() error {
	s.cancel()
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	conns := s.conns
	s.conns = map[*trackedConn]struct{}{}
	s.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
	s.work.Wait()
	return nil
}

// trackedConn leaves its stream when it is closed.
type trackedConn struct {
	net.Conn
	owner *stream
}

// Close closes the connection.
func (t *trackedConn) Close() error {
	t.owner.mu.Lock()
	delete(t.owner.conns, t)
	t.owner.mu.Unlock()
	return t.Conn.Close()
}
