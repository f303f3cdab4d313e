package gate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"watershed.example/refbroker/internal/ailing"
	"watershed.example/refbroker/internal/host"
)

// Request is one line that a client of the socket sends.
type Request struct {
	// Op is arm, release, watch, status, crash or suffer.
	Op        string `json:"op"`
	Point     string `json:"point,omitempty"`
	Partition string `json:"partition,omitempty"`
	Action    Action `json:"action,omitempty"`
	// Ailments are for suffer: what is wrong with the machine from now on.
	Ailments *ailing.Ailments `json:"ailments,omitempty"`
}

// Reply answers every request but watch, whose answer is a stream of [Event].
type Reply struct {
	OK       bool      `json:"ok"`
	Error    string    `json:"error,omitempty"`
	Released int       `json:"released,omitempty"`
	Armed    []Armed   `json:"armed,omitempty"`
	Held     []Arrival `json:"held,omitempty"`
	// Suffered is what the broker met of the machine's ailments.
	Suffered *ailing.Suffered `json:"suffered,omitempty"`
}

// maxSocketPath is what sun_path takes, less its final zero.
const maxSocketPath = 107

// Listen opens the hooks' unix socket. A socket file that a killed broker left
// is replaced; one that answers is refused.
func Listen(ctx context.Context, h host.Host, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("test hooks: socket path of %d bytes, a unix socket takes %d: %s", len(path), maxSocketPath, path)
	}
	if c, err := h.Dial(ctx, "unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("test hooks: socket %s is in use", path)
	}
	if err := h.FS.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("test hooks: remove stale socket: %w", err)
	}
	ln, err := h.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("test hooks: %w", err)
	}
	return ln, nil
}

// Serve answers clients on ln until ctx ends or ln fails; then it closes ln and
// every connection and waits for them.
func (h *Hooks) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for {
		c, err := ln.Accept()
		if err != nil {
			cancel()
			_ = ln.Close()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("test hooks: accept: %w", err)
		}
		wg.Go(func() { h.serveConn(ctx, c) })
	}
}

func (h *Hooks) serveConn(ctx context.Context, c net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	out := json.NewEncoder(c)
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		var req Request
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			if out.Encode(Reply{Error: fmt.Sprintf("bad request: %v", err)}) != nil {
				return
			}
			continue
		}
		if req.Op == "watch" {
			h.serveWatch(ctx, cancel, lines, out)
			return
		}
		if out.Encode(h.answer(ctx, req)) != nil {
			return
		}
	}
}

// serveWatch streams events until the client closes the connection.
func (h *Hooks) serveWatch(ctx context.Context, cancel context.CancelFunc, lines *bufio.Scanner, out *json.Encoder) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for lines.Scan() {
		}
		cancel()
	})
	// Closes the connection, which ends the reader above, before the wait.
	defer cancel()
	w := h.Watch()
	defer w.Close()
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return
		}
		if out.Encode(e) != nil {
			return
		}
	}
}

func (h *Hooks) answer(ctx context.Context, req Request) Reply {
	switch req.Op {
	case "arm":
		if err := h.Arm(req.Point, req.Partition, req.Action); err != nil {
			return Reply{Error: err.Error()}
		}
		return Reply{OK: true}
	case "release":
		return Reply{OK: true, Released: h.Release(req.Point, req.Partition)}
	case "status":
		armed, held := h.Status()
		return Reply{OK: true, Armed: armed, Held: held}
	case "crash":
		h.flush(ctx)
		h.crash()
		return Reply{OK: true}
	case "suffer":
		if h.machine == nil {
			return Reply{Error: "this broker's machine can't ail"}
		}
		suffered := h.machine.Suffered()
		if req.Ailments != nil {
			suffered = h.machine.Suffer(*req.Ailments)
		}
		return Reply{OK: true, Suffered: &suffered}
	}
	return Reply{Error: fmt.Sprintf("unknown op %q (known: arm, release, watch, status, crash, suffer)", req.Op)}
}
