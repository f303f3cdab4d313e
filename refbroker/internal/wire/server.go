package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"watershed.example/refbroker/internal/auth"
)

// ErrClosing is the cause of handlers' contexts once the server closes.
var ErrClosing = errors.New("the broker is shutting down")

// Config says how a server serves. Zero values are defaults.
type Config struct {
	Table *Table
	Log   *slog.Logger
	Limits
	// Grace is how long Close waits for responses that are being written (1 s).
	Grace time.Duration
}

// Limits bound what clients can make a server hold. Zero values are defaults.
type Limits struct {
	// MaxConns bounds the open connections of all listeners (max.connections;
	// 4096), MaxConnsPerIP those from one address (max.connections.per.ip; no
	// limit). One more is closed at once.
	MaxConns, MaxConnsPerIP int
	// MaxFrame bounds a request in bytes (socket.request.max.bytes;
	// [DefaultMaxFrame]); one that has no records is bounded by 8 MiB too.
	MaxFrame int
	// MaxQueued bounds the bytes of all requests in flight together
	// (queued.max.request.bytes; [DefaultMaxQueued]); more of them wait. One
	// request at a time may go beyond it, and the first 16 KiB of each don't
	// count.
	MaxQueued int64
	// Idle closes a connection on which nothing moves between two requests
	// (connections.max.idle.ms; 10 minutes).
	Idle time.Duration
	// FrameTimeout is how long a client may take for a request that it has
	// begun, and again each time that the request has grown fourfold (30 s).
	FrameTimeout time.Duration
	// WriteTimeout is how long a client may take to take a response, and a
	// second more for each 64 KiB of it (30 s).
	WriteTimeout time.Duration
}

// Defaults of [Limits].
const (
	DefaultMaxQueued = 512 << 20
	DefaultMaxConns  = 4096
	DefaultIdle      = 10 * time.Minute
)

func (l *Limits) complete() {
	setDefault(&l.MaxConns, DefaultMaxConns)
	setDefault(&l.MaxFrame, DefaultMaxFrame)
	setDefault(&l.MaxQueued, DefaultMaxQueued)
	setDefault(&l.Idle, DefaultIdle)
	setDefault(&l.FrameTimeout, 30*time.Second)
	setDefault(&l.WriteTimeout, 30*time.Second)
}

func setDefault[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

// Server serves connections. Make it with [NewServer], end it with Close.
type Server struct {
	cfg    Config
	ctx    context.Context // of handlers
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
	memory *budget
	stats  *Stats

	mu        sync.Mutex // never held while waiting
	listeners []net.Listener
	conns     map[*conn]struct{}
	byIP      map[string]int
	closing   bool
}

// NewServer returns a server that listens nowhere yet.
func NewServer(cfg Config) *Server {
	cfg.complete()
	setDefault(&cfg.Grace, time.Second)
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Server{
		cfg: cfg, ctx: ctx, cancel: cancel, memory: &budget{free: cfg.MaxQueued}, stats: newStats(cfg.Table),
		conns: map[*conn]struct{}{}, byIP: map[string]int{},
	}
}

// Serve takes connections of l in the background, until Close, which closes l.
func (s *Server) Serve(name string, l net.Listener) error {
	return s.ServeSecure(name, l, Security{})
}

// ServeSecure is Serve for a listener that asks for something.
func (s *Server) ServeSecure(name string, l net.Listener, ask Security) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosing
	}
	s.listeners = append(s.listeners, l)
	s.work.Go(func() { s.accept(name, l, ask) })
	return nil
}

func (s *Server) accept(name string, l net.Listener, ask Security) {
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
		if ask.TLS != nil {
			c = tls.Server(c, ask.TLS)
		}
		if !s.admit(name, c, ask.SASL) {
			_ = c.Close()
		}
	}
}

// admit starts to serve c, unless there are too many.
func (s *Server) admit(name string, c net.Conn, ask *auth.Server) bool {
	ip := hostOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	why, limit := "", 0
	switch {
	case len(s.conns) >= s.cfg.MaxConns:
		why, limit = "too many", s.cfg.MaxConns
	case s.cfg.MaxConnsPerIP > 0 && s.byIP[ip] >= s.cfg.MaxConnsPerIP:
		why, limit = "too many from its address", s.cfg.MaxConnsPerIP
	}
	if why != "" {
		s.stats.Refused.Add(1)
		s.cfg.Log.Warn("connection refused: "+why, "listener", name, "remote", c.RemoteAddr().String(), "limit", limit)
		return false
	}
	s.stats.Accepted.Add(1)
	served := s.newConn(name, c)
	if ask != nil {
		served.session = ask.Session()
	}
	s.conns[served] = struct{}{}
	s.byIP[ip]++
	s.work.Go(func() {
		err := served.serve()
		s.mu.Lock()
		delete(s.conns, served)
		if s.byIP[ip]--; s.byIP[ip] == 0 {
			delete(s.byIP, ip)
		}
		s.mu.Unlock()
		_ = c.Close()
		if err != nil && s.ctx.Err() == nil {
			s.cfg.Log.Info("connection closed", "listener", name, "remote", c.RemoteAddr().String(), "error", err)
		}
	})
	return true
}

// hostOf is the address of a connection's other end, without the port.
func hostOf(c net.Conn) string {
	addr := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
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
		c.close(s.cfg.Grace)
	}
	s.mu.Unlock()
	s.cancel(ErrClosing)
	s.work.Wait()
}
