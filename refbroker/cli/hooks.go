package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"watershed.example/refbroker/internal/ailing"
	"watershed.example/refbroker/internal/gate"
)

// HookAction is what an armed point does to who arrives.
type HookAction = gate.Action

// The actions of an armed point.
const (
	Hold  = gate.Hold
	Crash = gate.Crash
)

// Arrival is one pass of a point of STOPPING.
type Arrival = gate.Arrival

// HookEvent is an arrival, or the release of one that was held.
type HookEvent = gate.Event

// Ailments are what is wrong with a broker's machine; the zero value is nothing.
type Ailments = ailing.Ailments

// Suffered counts what a broker met of its machine's ailments since it started.
type Suffered = ailing.Suffered

// HookStatus says what is armed and who is held.
type HookStatus struct {
	Armed []gate.Armed
	Held  []Arrival
}

// ErrHooksGone is returned once the broker, or its hooks socket, is gone.
var ErrHooksGone = errors.New("hooks connection ended")

// Hooks is a client of the socket that serve --test-hooks opens. It hears of
// every arrival since the broker started, also of those before it connected,
// and may be used by several goroutines.
type Hooks struct {
	commands chan struct{} // held by who talks on conn
	conn     net.Conn
	in       *bufio.Reader
	watch    net.Conn
	ended    chan struct{}

	mu      sync.Mutex
	events  []HookEvent
	taken   []bool // by Await
	changed chan struct{}
	err     error
}

// DialHooks connects to the hooks socket at path and begins to watch. It fails
// at once when nobody listens there.
func DialHooks(ctx context.Context, path string) (*Hooks, error) {
	conn, watch, err := dialHooks(ctx, path)
	if err != nil {
		return nil, err
	}
	return NewHooks(conn, watch), nil
}

// dialHooks makes a connection to the hooks socket for commands, and one of events.
func dialHooks(ctx context.Context, path string) (conn, watch net.Conn, err error) {
	var d net.Dialer
	if conn, err = d.DialContext(ctx, "unix", path); err != nil {
		return nil, nil, fmt.Errorf("connect to test hooks: %w", err)
	}
	if watch, err = d.DialContext(ctx, "unix", path); err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("connect to test hooks: %w", err)
	}
	if _, err := watch.Write([]byte(`{"op":"watch"}` + "\n")); err != nil {
		_, _ = conn.Close(), watch.Close()
		return nil, nil, fmt.Errorf("watch test hooks: %w", err)
	}
	return conn, watch, nil
}

// NewHooks makes a client of a connection for commands and one for events that lead to
// the hooks socket some other way: to stdin and stdout, and from stderr, of "refbroker
// hooks relay" where the broker runs. It owns them.
func NewHooks(conn, watch net.Conn) *Hooks {
	h := &Hooks{
		commands: make(chan struct{}, 1), conn: conn, in: bufio.NewReader(conn),
		watch: watch, ended: make(chan struct{}), changed: make(chan struct{}),
	}
	go h.listen()
	return h
}

func (h *Hooks) listen() {
	defer close(h.ended)
	in := bufio.NewReader(h.watch)
	for {
		var e HookEvent
		line, err := in.ReadBytes('\n')
		if err == nil && json.Unmarshal(line, &e) != nil {
			err = errors.New(string(bytes.TrimSpace(line))) // a relay's complaint
		}
		h.mu.Lock()
		if err != nil {
			h.err = fmt.Errorf("%w: %w", ErrHooksGone, err)
			// Nobody reads on, and who relays must not wait for that.
			_, _ = h.conn.Close(), h.watch.Close()
		} else {
			h.events = append(h.events, e)
			h.taken = append(h.taken, false)
		}
		close(h.changed)
		h.changed = make(chan struct{})
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Close ends both connections and waits for the watch to end.
func (h *Hooks) Close() error {
	var errs []error
	for _, c := range []net.Conn{h.conn, h.watch} {
		if err := c.Close(); !errors.Is(err, net.ErrClosed) { // the broker may be gone, and both with it
			errs = append(errs, err)
		}
	}
	<-h.ended
	return errors.Join(errs...)
}

// Gone is closed once the broker, or its hooks socket, is gone.
func (h *Hooks) Gone() <-chan struct{} { return h.ended }

// Arm makes a point ("before:settled") hold or crash, for one partition
// ("topic-0") or with "" for all. It returns when the broker has done so.
func (h *Hooks) Arm(ctx context.Context, point, partition string, action HookAction) error {
	_, err := h.ask(ctx, gate.Request{Op: "arm", Point: point, Partition: partition, Action: action})
	return err
}

// Release disarms a point and lets those go on who are held there, of one
// partition or with "" of all. It returns how many that were.
func (h *Hooks) Release(ctx context.Context, point, partition string) (int, error) {
	r, err := h.ask(ctx, gate.Request{Op: "release", Point: point, Partition: partition})
	return r.Released, err
}

// Crash kills the broker at once, as kill -9 does. That it cannot answer any
// more is no error.
func (h *Hooks) Crash(ctx context.Context) error {
	if _, err := h.ask(ctx, gate.Request{Op: "crash"}); err != nil && !errors.Is(err, ErrHooksGone) {
		return err
	}
	return nil
}

// Suffer makes the broker's machine ail so from now on, instead of as it did, and
// says what the broker has met so far.
func (h *Hooks) Suffer(ctx context.Context, a Ailments) (Suffered, error) {
	return h.suffered(ctx, &a)
}

// Suffered says what the broker has met so far.
func (h *Hooks) Suffered(ctx context.Context) (Suffered, error) { return h.suffered(ctx, nil) }

func (h *Hooks) suffered(ctx context.Context, a *Ailments) (Suffered, error) {
	r, err := h.ask(ctx, gate.Request{Op: "suffer", Ailments: a})
	if err != nil || r.Suffered == nil {
		return Suffered{}, err
	}
	return *r.Suffered, nil
}

// Status lists what is armed and who is held.
func (h *Hooks) Status(ctx context.Context) (HookStatus, error) {
	r, err := h.ask(ctx, gate.Request{Op: "status"})
	return HookStatus{Armed: r.Armed, Held: r.Held}, err
}

// Await returns the first arrival at point, of one partition or with "" of
// any, that no earlier Await has returned, and waits for it. An arrival before
// the call, or before DialHooks, counts.
func (h *Hooks) Await(ctx context.Context, point, partition string) (Arrival, error) {
	for {
		h.mu.Lock()
		for i, e := range h.events {
			if a := e.Arrived; a != nil && !h.taken[i] && a.Point == point && (partition == "" || a.Partition == partition) {
				h.taken[i] = true
				h.mu.Unlock()
				return *a, nil
			}
		}
		changed, err := h.changed, h.err
		h.mu.Unlock()
		if err != nil {
			return Arrival{}, fmt.Errorf("await %s of %q: %w", point, partition, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Arrival{}, fmt.Errorf("await %s of %q: %w", point, partition, context.Cause(ctx))
		}
	}
}

// Events returns all that has been heard so far, in order.
func (h *Hooks) Events() []HookEvent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// ask sends one request and reads its reply.
func (h *Hooks) ask(ctx context.Context, req gate.Request) (gate.Reply, error) {
	var r gate.Reply
	select {
	case h.commands <- struct{}{}:
		defer func() { <-h.commands }()
	case <-ctx.Done():
		return r, fmt.Errorf("test hooks %s: %w", req.Op, context.Cause(ctx))
	}
	// An exchange that was cut off would leave its reply for the next one, so
	// the connection ends with it.
	stop := context.AfterFunc(ctx, func() { _ = h.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := json.Marshal(req)
	if err == nil {
		_, err = h.conn.Write(append(line, '\n'))
	}
	if err == nil {
		line, err = h.in.ReadBytes('\n')
	}
	if err != nil {
		if ctx.Err() != nil {
			return r, fmt.Errorf("test hooks %s: %w", req.Op, context.Cause(ctx))
		}
		return r, fmt.Errorf("test hooks %s: %w: %w", req.Op, ErrHooksGone, err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("test hooks %s: %w", req.Op, err)
	}
	if !r.OK {
		return r, fmt.Errorf("test hooks %s: %s", req.Op, r.Error)
	}
	return r, nil
}
