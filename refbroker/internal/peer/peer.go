// Package peer is how the nodes of one cluster send each other requests of the
// Kafka protocol: follower fetches, transaction markers, verifications. All
// nodes run one build, so versions are known and nothing is negotiated.
package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
)

// Listener is the name of the listener that nodes reach each other at; a node
// without it is reached at its listener for clients.
const Listener = "replication"

const clientListener = "client"

const (
	// requestTimeout bounds one request, connecting included.
	requestTimeout = 10 * time.Second
	// maxIdle is how many connections to a node wait for their next use.
	maxIdle = 4
)

// ErrClosed is returned once the peers are closed.
var ErrClosed = errors.New("connections to other nodes are closed")

// Config says who the peers are.
type Config struct {
	Host host.Host
	// Addresses of nodes as seen from this one; they go before what the nodes
	// advertise, so that each pair can have a link of its own.
	Addresses map[int32]string
	// Image is the cluster's metadata.
	Image func() *quorum.Image
	// ClientID names this node in its requests.
	ClientID string
}

// Peers are the other nodes of a cluster.
type Peers struct {
	cfg    Config
	format *kmsg.RequestFormatter

	mu     sync.Mutex // never held while waiting
	idle   map[string][]net.Conn
	closed bool
}

// New makes the peers; Close them.
func New(cfg Config) *Peers {
	return &Peers{cfg: cfg, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(cfg.ClientID)), idle: map[string][]net.Conn{}}
}

// Address is where a node is reached.
func (p *Peers) Address(node int32) (string, error) {
	if a, ok := p.cfg.Addresses[node]; ok {
		return a, nil
	}
	b := p.cfg.Image().Brokers[node]
	if b == nil {
		return "", fmt.Errorf("node %d is not registered", node)
	}
	for _, name := range []string{Listener, clientListener} {
		if a, ok := b.Listeners[name]; ok {
			return a, nil
		}
	}
	return "", fmt.Errorf("node %d advertises no listener %q", node, clientListener)
}

// Request sends a request, in the version that it has, and fills resp, which
// must be of its kind. With an error it is not known whether the node has taken
// the request.
func (p *Peers) Request(ctx context.Context, node int32, req kmsg.Request, resp kmsg.Response) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no answer within %s", requestTimeout))
	defer cancel()
	err := p.request(ctx, node, req, resp)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s to node %d: %w", kmsg.NameForKey(req.Key()), node, err)
	}
	return nil
}

func (p *Peers) request(ctx context.Context, node int32, req kmsg.Request, resp kmsg.Response) error {
	address, err := p.Address(node)
	if err != nil {
		return err
	}
	for {
		c, used, err := p.conn(ctx, address)
		if err != nil {
			return err
		}
		raw, sent, err := p.roundTrip(ctx, c, req)
		if err != nil {
			_ = c.Close()
			if used && !sent && ctx.Err() == nil {
				continue // it broke while it was idle
			}
			return err
		}
		p.keep(address, c)
		return Decode(resp, raw, req.GetVersion())
	}
}

// conn takes an idle connection, or makes one.
func (p *Peers) conn(ctx context.Context, address string) (c net.Conn, used bool, err error) {
	p.mu.Lock()
	closed := p.closed
	if all := p.idle[address]; len(all) > 0 {
		c = all[len(all)-1]
		p.idle[address] = all[:len(all)-1]
	}
	p.mu.Unlock()
	switch {
	case closed:
		return nil, false, ErrClosed
	case c != nil:
		return c, true, nil
	}
	c, err = p.cfg.Host.Dial(ctx, "tcp", address)
	return c, false, err
}

// keep leaves a connection for the next request.
func (p *Peers) keep(address string, c net.Conn) {
	p.mu.Lock()
	kept := !p.closed && len(p.idle[address]) < maxIdle
	if kept {
		p.idle[address] = append(p.idle[address], c)
	}
	p.mu.Unlock()
	if !kept {
		_ = c.Close()
	}
}

// Close ends the idle connections; those in use end with their requests.
func (p *Peers) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = map[string][]net.Conn{}, true
	p.mu.Unlock()
	for _, all := range idle {
		for _, c := range all {
			_ = c.Close()
		}
	}
}

// roundTrip returns the bytes behind the response's correlation id. sent says
// that the other side has answered something, or may have.
func (p *Peers) roundTrip(ctx context.Context, c net.Conn, req kmsg.Request) (raw []byte, sent bool, err error) {
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return nil, false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	const correlation = 1 // one request at a time
	if _, err := c.Write(p.format.AppendRequest(nil, req, correlation)); err != nil {
		return nil, false, err
	}
	return ReadResponse(c, correlation)
}
