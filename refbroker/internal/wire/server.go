package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// ErrClosing is the cause of handlers' contexts once the server closes.
var ErrClosing = errors.New("the broker is shutting down")

// Config says how a server serves. Zero values are defaults.
type Config struct {
	Table *Table
	Log   *slog.Logger
	// MaxConns bounds the open connections of all listeners (4096); one more is
	// closed at once.
	MaxConns int
	// MaxFrame bounds a request in bytes ([DefaultMaxFrame]).
	MaxFrame int
	// Idle closes a connection on which nothing moves for so long (10 minutes,
	// as connections.max.idle.ms).
	Idle time.Duration
	// Grace is how long Close waits for responses that are being written (1 s).
	Grace time.Duration
}

// Server serves connections. Make it with [NewServer], end it with Close.
type Server struct {
	cfg    Config
	ctx    context.Context // of handlers
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	mu        sync.Mutex // never held while waiting
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	closing   bool
}

// NewServer returns a server that listens nowhere yet.
func NewServer(cfg Config) *Server {
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 4096
	}
	if cfg.MaxFrame == 0 {
		cfg.MaxFrame = DefaultMaxFrame
	}
	if cfg.Idle == 0 {
		cfg.Idle = 10 * time.Minute
	}
	if cfg.Grace == 0 {
		cfg.Grace = time.Second
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Server{cfg: cfg, ctx: ctx, cancel: cancel, conns: map[net.Conn]struct{}{}}
}

// Serve takes connections of l in the background, until Close, which closes l.
func (s *Server) Serve(name string, l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosing
	}
	s.listeners = append(s.listeners, l)
	s.work.Go(func() { s.accept(name, l) })
	return nil
}

func (s *Server) accept(name string, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors, say: what is open goes on, and a pause
			// keeps this loop from burning a core meanwhile.
			s.cfg.Log.Warn("accept failed", "listener", name, "error", err)
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-s.ctx.Done():
				return
			}
		}
		if !s.admit(name, c) {
			_ = c.Close()
		}
	}
}

// admit starts to serve c, unless there are too many.
func (s *Server) admit(name string, c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	if len(s.conns) >= s.cfg.MaxConns {
		s.cfg.Log.Warn("connection refused: too many", "listener", name, "remote", c.RemoteAddr().String(), "limit", s.cfg.MaxConns)
		return false
	}
	s.conns[c] = struct{}{}
	s.work.Go(func() {
		err := s.serve(name, c)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
		if err != nil && s.ctx.Err() == nil {
			s.cfg.Log.Info("connection closed", "listener", name, "remote", c.RemoteAddr().String(), "error", err)
		}
	})
	return true
}

// serve answers the requests of one connection, one after the other as Kafka
// does: the next is read once the response before it is written. nil means
// that the peer closed it, or that we did on purpose.
func (s *Server) serve(name string, c net.Conn) error {
	in := bufio.NewReaderSize(c, 16<<10)
	for {
		if err := s.deadline(c); err != nil {
			return err
		}
		frame, err := readFrame(in, s.cfg.MaxFrame)
		if err != nil {
			if errors.Is(err, io.EOF) || s.ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read request: %w", err)
		}
		req, api, err := s.cfg.Table.decode(frame)
		if err != nil {
			return fmt.Errorf("refused request: %w", err)
		}
		req.Listener, req.Remote = name, c.RemoteAddr()
		resp, err := api.Handle(s.ctx, req)
		if err != nil {
			if errors.Is(err, ErrCloseConnection) {
				return nil
			}
			return fmt.Errorf("%s version %d: %w", api.Name, req.Version, err)
		}
		if resp == nil {
			continue
		}
		all := pieces(req, resp)
		_, err = sendPieces(c, all)
		release(all)
		if err != nil {
			return fmt.Errorf("write %s response: %w", api.Name, err)
		}
	}
}

// deadline gives c the idle time for its next request and response. Under the
// lock, so that it never replaces the deadline that Close has set.
func (s *Server) deadline(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosing
	}
	return c.SetDeadline(time.Now().Add(s.cfg.Idle))
}

// Close stops taking requests, lets the handlers that run end (their context's
// cause is [ErrClosing]) and their responses go out, closes every connection
// and waits for everything that the server started.
func (s *Server) Close() {
	s.mu.Lock()
	s.closing = true
	for _, l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		_ = c.SetReadDeadline(time.Now())
		_ = c.SetWriteDeadline(time.Now().Add(s.cfg.Grace))
	}
	s.mu.Unlock()
	s.cancel(ErrClosing)
	s.work.Wait()
}
