package quorum

import (
	"cmp"
	"context"
	"fmt"
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
// forgets some.
type stream struct {
	net.Listener
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	closed bool
}

func newStream(l net.Listener, dial func(context.Context, string, string) (net.Conn, error)) *stream {
	return &stream{Listener: l, dial: dial, conns: map[*trackedConn]struct{}{}}
}

// Accept waits for a connection of another voter.
func (s *stream) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return s.track(c)
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

// Close ends the listener and every connection.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := s.conns
	s.conns = map[*trackedConn]struct{}{}
	s.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
	// The transport closes the listener too; the second time is no error.
	_ = s.Listener.Close()
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
