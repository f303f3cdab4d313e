package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"watershed.example/refbroker/internal/auth"
)

// conn is one connection that is served.
type conn struct {
	s    *Server
	c    net.Conn
	in   *bufio.Reader
	name string // of the listener
	loan loan
	// session is who the client is, nil where nobody asks.
	session *auth.Session

	mu      sync.Mutex // never held while waiting
	closing bool
}

func (s *Server) newConn(name string, c net.Conn) *conn {
	return &conn{s: s, c: c, in: bufio.NewReaderSize(c, freeBytes), name: name, loan: loan{of: s.memory}}
}

// leastRate is how many bytes a second a client must take of a response, beyond
// the write timeout: a reader may be slow, but not for ever.
const leastRate = 64 << 10

// serve answers the requests of a connection, one after the other as Kafka
// does: the next is read once the response before it is written. nil means
// that the peer closed it, or that we did on purpose.
func (c *conn) serve() error {
	defer c.loan.giveBack()
	if err := c.encrypt(); err != nil {
		return err
	}
	for {
		frame, err := c.next()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, ErrClosing) || c.s.ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read request: %w", err)
		}
		if err := c.answer(frame); err != nil {
			if errors.Is(err, ErrCloseConnection) {
				return nil
			}
			return err
		}
		if c.s.cfg.Table.apis[keyOf(frame)].Bulk {
			c.s.cfg.Table.frames.give(frame)
		}
		c.loan.giveBack()
	}
}

// next reads a frame. A client may be idle between two frames for a long time,
// but not within one.
func (c *conn) next() ([]byte, error) {
	if err := c.readWithin(c.s.cfg.Idle); err != nil {
		return nil, err
	}
	if _, err := c.in.Peek(1); err != nil {
		return nil, err
	}
	if !c.whole() {
		if err := c.readWithin(c.s.cfg.FrameTimeout); err != nil {
			return nil, err
		}
	}
	frame, err := c.s.cfg.Table.readFrame(c.in, c.maxFrame(), c.grow)
	if err != nil && c.s.ctx.Err() == nil {
		c.s.stats.broken(err)
	}
	return frame, err
}

// whole says whether the next frame has arrived.
func (c *conn) whole() bool {
	n := c.in.Buffered()
	if n < 4 {
		return false
	}
	head, _ := c.in.Peek(4) // what is buffered can be seen
	return int64(n) >= 4+int64(binary.BigEndian.Uint32(head))
}

// grow makes room for size bytes of the frame that is being read. Each time the
// client has as long as before to fill it.
func (c *conn) grow(size int) error {
	more := int64(size) - freeBytes - c.loan.held
	if more <= 0 {
		return nil
	}
	if err := c.loan.take(c.s.ctx, more); err != nil {
		return err
	}
	return c.readWithin(c.s.cfg.FrameTimeout)
}

// answer handles one request and writes the response.
func (c *conn) answer(frame []byte) error {
	s, began := c.s, time.Now()
	s.stats.In.Add(int64(len(frame) + 4))
	if err := c.admits(keyOf(frame)); err != nil {
		s.stats.Refused.Add(1)
		return err
	}
	if size := int64(len(frame)); size > freeBytes && !s.cfg.Table.apis[keyOf(frame)].Bulk {
		if err := c.loan.take(s.ctx, decoded*size); err != nil {
			return err
		}
	}
	req, api, err := s.cfg.Table.decode(frame)
	if err != nil {
		s.stats.Malformed.Add(1)
		return fmt.Errorf("refused request: %w", err)
	}
	stats := s.stats.apis[api.Key]
	req.Listener, req.Remote, req.Session = c.name, c.c.RemoteAddr(), c.session
	resp, err := api.Handle(s.ctx, req)
	if err != nil {
		stats.Failed.Add(1)
		return fmt.Errorf("%s version %d: %w", api.Name, req.Version, err)
	}
	if resp != nil {
		if err := c.write(pieces(req, resp)); err != nil {
			stats.Failed.Add(1)
			return fmt.Errorf("write %s response: %w", api.Name, err)
		}
	}
	stats.served(time.Since(began))
	if c.session != nil && c.session.Refused() {
		return fmt.Errorf("%w", auth.ErrRefused)
	}
	return nil
}

func (c *conn) write(all []Piece) error {
	defer release(all)
	size := int64(0)
	for _, p := range all {
		size += p.size()
	}
	// A client that takes nothing must not hold a response for ever.
	within := c.s.cfg.WriteTimeout + time.Duration(size/leastRate)*time.Second
	if err := c.unlessClosing(func() error { return c.c.SetWriteDeadline(time.Now().Add(within)) }); err != nil && !errors.Is(err, ErrClosing) {
		return err
	}
	n, err := sendPieces(c.c, all)
	c.s.stats.Out.Add(n)
	if err != nil && c.s.ctx.Err() == nil && timedOut(err) {
		c.s.stats.Slow.Add(1)
	}
	return err
}

// readWithin gives the client so long for what it has to send.
func (c *conn) readWithin(d time.Duration) error {
	return c.unlessClosing(func() error { return c.c.SetReadDeadline(time.Now().Add(d)) })
}

// unlessClosing sets a deadline. Under the lock, so that it never replaces the
// one that close has set.
func (c *conn) unlessClosing(set func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrClosing
	}
	return set()
}

// close has the connection end once the response that is being made is
// written, for which it has grace.
func (c *conn) close(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	_ = c.c.SetReadDeadline(time.Now())
	_ = c.c.SetWriteDeadline(time.Now().Add(grace))
}
