package quorum

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// heartbeatMark begins a connection that brings heartbeats to the controller.
const heartbeatMark = 0xf6

// DefaultSessionTimeout is how long the controller waits to hear from a broker
// before it fences it.
const DefaultSessionTimeout = 1500 * time.Millisecond

// beatsPerSession is how many heartbeats a broker sends in a session timeout.
const beatsPerSession = 6

// heartbeat tells the controller that a broker lives.
type heartbeat struct {
	ID    int32 `json:"id"`
	Epoch int64 `json:"epoch"`
	// Fenced: the broker knows that it was fenced, and would serve. One that has
	// been told to stop does not ask.
	Fenced bool `json:"fenced,omitempty"`
}

// hearts is what the controller hears. Its times are its own clock's, so they
// mean nothing to another controller.
type hearts struct {
	mu sync.Mutex // never held while waiting
	by map[int32]heard
}

type heard struct {
	epoch int64
	at    time.Time
	// asks: the last heartbeat came from a broker that knew it was fenced.
	asks bool
}

// beat notes a heartbeat.
func (h *hearts) beat(b heartbeat, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.by[b.ID]; ok && old.epoch > b.Epoch {
		return // of a run that is over
	}
	h.by[b.ID] = heard{b.Epoch, now, b.Fenced}
}

// forgive starts every session anew: this controller is new, or was itself
// held up.
func (h *hearts) forgive() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.by)
}

// suspect lets a broker's session have begun some time ago: that of the
// controller before this one, whose silence is why there was an election.
func (h *hearts) suspect(b *Broker, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.by[b.ID]; !ok || old.epoch < b.Epoch {
		h.by[b.ID] = heard{epoch: b.Epoch, at: since}
	}
}

// judge says which brokers of an image are to be fenced and unfenced. A broker
// that was never heard of has its session begin now.
func (h *hearts) judge(img *Image, now time.Time, session time.Duration) (fence, unfence []*Broker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range sortedIDs(img.Brokers) {
		b := img.Brokers[id]
		last, ok := h.by[id]
		if !ok || last.epoch < b.Epoch {
			h.by[id] = heard{epoch: b.Epoch, at: now}
			continue
		}
		switch silent := now.Sub(last.at) > session; {
		case !b.Fenced && silent:
			fence = append(fence, b)
		case b.Fenced && !silent && last.asks && last.epoch == b.Epoch:
			unfence = append(unfence, b)
		}
	}
	return fence, unfence
}

// KeepAlive tells the controller, wherever it is, that this broker lives, until
// ctx ends. A node that is alone has nobody to tell.
func (n *Node) KeepAlive(ctx context.Context, epoch int64) {
	if len(n.voters) < 2 {
		return
	}
	tick := time.NewTicker(n.cfg.SessionTimeout / beatsPerSession)
	defer tick.Stop()
	var c net.Conn
	to := int32(-1)
	drop := func() {
		if c != nil {
			_ = c.Close()
			c = nil
		}
	}
	defer drop()
	for {
		b := heartbeat{ID: n.cfg.NodeID, Epoch: epoch}
		if known := n.Image().Brokers[b.ID]; known != nil {
			b.Fenced = known.Fenced && known.Epoch == epoch
		}
		leader := n.Leader()
		if leader != to {
			drop()
			to = leader
		}
		switch {
		case leader == n.cfg.NodeID:
			n.hearts.beat(b, time.Now())
		case leader >= 0:
			var err error
			if c, err = n.tell(ctx, c, leader, b); err != nil {
				n.cfg.Log.Debug("heartbeat failed", "controller", leader, "error", err)
				drop()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell sends one heartbeat, over c if it is there.
func (n *Node) tell(ctx context.Context, c net.Conn, leader int32, b heartbeat) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.SessionTimeout/2)
	defer cancel()
	if c == nil {
		address, ok := n.voters[leader]
		if !ok {
			return nil, fmt.Errorf("no address for voter %d: %w", leader, kerr.NotController)
		}
		fresh, err := n.cfg.Host.Dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		if _, err := fresh.Write([]byte{heartbeatMark}); err != nil {
			return fresh, err
		}
		c = fresh
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := json.Marshal(b)
	if err != nil {
		return c, err
	}
	if err := writeBlock(c, raw); err != nil {
		return c, err
	}
	_, err = readBlock(c) // the controller has it
	return c, err
}

// serveHeartbeats takes heartbeats off a connection until that ends.
func (n *Node) serveHeartbeats(ctx context.Context, c net.Conn) {
	select {
	case <-n.started:
	case <-ctx.Done():
		return
	}
	for {
		_ = c.SetDeadline(time.Now().Add(10 * n.cfg.SessionTimeout))
		raw, err := readBlock(c)
		if err != nil {
			return
		}
		var b heartbeat
		// A node that no longer leads hangs up: the broker looks for the one
		// that does.
		if json.Unmarshal(raw, &b) != nil || n.Leader() != n.cfg.NodeID {
			return
		}
		n.hearts.beat(b, time.Now())
		if writeBlock(c, nil) != nil {
			return
		}
	}
}
