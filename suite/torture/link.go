package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// network is how connections are made: the machine's, or one in memory.
type network interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

// linkState is what becomes of the bytes on a link.
type linkState int

const (
	// flowing: they arrive.
	flowing linkState = iota
	// refusing: connections break, and new ones are refused.
	refusing
	// stalled: nothing arrives and nothing breaks, as where packets are dropped.
	stalled
)

// link is one way by which one party connects to another, a proxy that can be
// cut by itself. What it connects to may move: a node comes back elsewhere.
type link struct {
	net      network
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu      sync.Mutex // never held while waiting
	rng     *rand.Rand
	delay   time.Duration // most that a chunk is held up
	usual   time.Duration // what that was at first
	target  string        // "" while there is nobody
	state   linkState
	changed chan struct{} // closed at each change of state
	pairs   map[*pair]struct{}
}

// pair is one connection through a link.
type pair struct {
	link      *link
	near, far net.Conn // far is nil until it is made; under link.mu
	gone      chan struct{}
	once      sync.Once
}

// close ends a connection, which may just be made.
func (p *pair) close() {
	p.link.mu.Lock()
	far := p.far
	p.link.mu.Unlock()
	p.once.Do(func() {
		close(p.gone)
		_ = p.near.Close()
		if far != nil {
			_ = far.Close()
		}
	})
}

func newLink(n network, rng *rand.Rand, delay time.Duration) (*link, error) {
	listener, err := n.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{net: n, listener: listener, rng: rng, delay: delay, usual: delay, changed: make(chan struct{}), pairs: map[*pair]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.work.Go(l.accept)
	return l, nil
}

// address is where the link is entered.
func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		c, err := l.listener.Accept()
		switch {
		case l.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				_ = c.Close()
			}
			return
		case err != nil:
			select { // out of descriptors, say
			case <-time.After(10 * time.Millisecond):
			case <-l.ctx.Done():
				return
			}
		default:
			l.work.Go(func() { l.carry(&pair{link: l, near: c, gone: make(chan struct{})}) })
		}
	}
}

// carry copies both ways until one end is gone or the link breaks.
func (l *link) carry(p *pair) {
	defer p.close()
	l.mu.Lock()
	refused := l.state == refusing || l.ctx.Err() != nil
	if !refused {
		l.pairs[p] = struct{}{}
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.pairs, p)
		l.mu.Unlock()
	}()
	if refused || !l.pass(p) {
		return
	}
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	if target == "" {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	far, err := l.net.Dial(ctx, "tcp", target)
	cancel()
	if err != nil {
		return
	}
	l.mu.Lock()
	_, there := l.pairs[p]
	p.far = far
	l.mu.Unlock()
	if !there { // broken meanwhile
		_ = far.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(p, p.far, p.near) })
	both.Go(func() { l.pump(p, p.near, p.far) })
	both.Wait()
}

func (l *link) pump(p *pair, to, from net.Conn) {
	defer p.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !l.pass(p) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until what is under way may go on; false: it never may.
func (l *link) pass(p *pair) bool {
	for held := false; ; held = true {
		l.mu.Lock()
		state, changed, wait := l.state, l.changed, time.Duration(0)
		if l.delay > 0 && !held {
			wait = time.Duration(l.rng.Int64N(int64(l.delay) + 1))
		}
		l.mu.Unlock()
		switch {
		case state == refusing:
			return false
		case state == flowing && wait == 0:
			return true
		case state == flowing:
			select {
			case <-time.After(wait):
			case <-p.gone:
				return false
			}
			continue
		}
		select {
		case <-changed:
		case <-p.gone:
			return false
		}
	}
}

// set changes what becomes of the bytes. broken ends the connections that there
// are; else what was held up while stalled arrives late.
func (l *link) set(s linkState, broken bool) {
	l.mu.Lock()
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
	var gone []*pair
	if broken || s == refusing {
		for p := range l.pairs {
			gone = append(gone, p)
		}
		clear(l.pairs)
	}
	l.mu.Unlock()
	for _, p := range gone {
		p.close()
	}
}

// slow changes the most that a chunk is held up; -1 for what it was at first.
func (l *link) slow(most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most < 0 {
		most = l.usual
	}
	l.delay = most
}

// lead lets the link go to another address, "" for nobody.
func (l *link) lead(target string) {
	l.mu.Lock()
	l.target = target
	l.mu.Unlock()
}

// close ends the link and waits for all that it carries.
func (l *link) close() {
	l.cancel()
	_ = l.listener.Close()
	l.set(refusing, true)
	l.work.Wait()
}
