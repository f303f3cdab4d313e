package quorum

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// forwardMark begins a connection that brings a command to the quorum's leader.
// Raft's own connections begin with the type of a message, which are small.
const forwardMark = 0xf5

// Bounds of one forwarded command, in bytes and in time.
const (
	maxForwarded   = 16 << 20
	forwardTimeout = 10 * time.Second
)

// forwarded is the leader's answer: where the command lies in the log, its
// result, or its refusal.
type forwarded struct {
	Index  uint64          `json:"index"`
	Result json.RawMessage `json:"result,omitempty"`
	// Error is "" when the command was not refused; Code and Name are those of
	// the *kerr.Error in it, if any.
	Error string `json:"error,omitempty"`
	Code  int16  `json:"code,omitempty"`
	Name  string `json:"name,omitempty"`
}

// remoteError is a refusal by another node.
type remoteError struct {
	text  string
	coded error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.coded }

// refusal makes the answer for an error.
func refusal(err error) forwarded {
	f := forwarded{Error: err.Error()}
	var k *kerr.Error
	if errors.As(err, &k) {
		f.Code, f.Name = k.Code, k.Message
	}
	return f
}

// err is the refusal as an error; nil for a success.
func (f forwarded) err() error {
	if f.Error == "" {
		return nil
	}
	e := &remoteError{text: f.Error}
	// By name first: the codes of mirroring mean something else elsewhere.
	for _, m := range mirrorErrors() {
		if m.Message == f.Name {
			e.coded = m
			return e
		}
	}
	if f.Code != 0 {
		e.coded = kerr.ErrorForCode(f.Code)
	}
	return e
}

// serveForwarded answers one command of another node.
func (n *Node) serveForwarded(ctx context.Context, c net.Conn) {
	select {
	case <-n.started:
	case <-ctx.Done():
		return
	}
	_ = c.SetDeadline(time.Now().Add(forwardTimeout))
	raw, err := readBlock(c)
	if err != nil {
		return // the other side sees the end of the connection
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	var answer forwarded
	// What this build can't read it must not write to the log.
	if _, err := Decode(raw); err != nil {
		answer = refusal(err)
	} else if o, index, err := n.applyHere(ctx, raw); err != nil {
		answer = refusal(err)
	} else if o.err != nil {
		answer = refusal(o.err)
		answer.Index = index
	} else if answer.Result, err = json.Marshal(o.result); err != nil {
		answer = refusal(err)
	} else {
		answer.Index = index
	}
	if text, err := json.Marshal(answer); err == nil {
		_ = writeBlock(c, text)
	}
}

// forward brings a command to the leader and waits until its effect is in this
// node's image.
func (n *Node) forward(ctx context.Context, leader int32, raw []byte, result reflect.Type) (any, error) {
	address, ok := n.voters[leader]
	if !ok {
		return nil, fmt.Errorf("no address for voter %d: %w", leader, kerr.NotController)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, forwardTimeout, fmt.Errorf("no answer from node %d within %s", leader, forwardTimeout))
	defer cancel()
	answer, err := n.exchange(ctx, address, raw)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if !errors.Is(err, kerr.NotController) { // then nobody knows whether it was taken
			err = fmt.Errorf("%w: %w", err, kerr.RequestTimedOut)
		}
		return nil, fmt.Errorf("forward to node %d: %w", leader, err)
	}
	if _, err := n.WaitIndex(ctx, answer.Index); err != nil {
		return nil, err
	}
	if err := answer.err(); err != nil {
		if answer.Index > 0 {
			err = &refusedError{err}
		}
		return nil, err
	}
	if result == nil {
		return nil, nil
	}
	v := reflect.New(result)
	if err := json.Unmarshal(answer.Result, v.Interface()); err != nil {
		return nil, fmt.Errorf("forward to node %d: result: %w", leader, err)
	}
	return v.Elem().Interface(), nil
}

// exchange sends one command and reads the answer.
func (n *Node) exchange(ctx context.Context, address string, raw []byte) (forwarded, error) {
	var answer forwarded
	c, err := n.cfg.Host.Dial(ctx, "tcp", address)
	if err != nil {
		// Nobody has taken the command: the leader is dead, or soon another.
		return answer, fmt.Errorf("%w: %w", err, kerr.NotController)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte{forwardMark}); err != nil {
		return answer, err
	}
	if err := writeBlock(c, raw); err != nil {
		return answer, err
	}
	text, err := readBlock(c)
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(text, &answer)
}

// writeBlock writes a length of four bytes and the block.
func writeBlock(w io.Writer, block []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...))
	return err
}

func readBlock(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxForwarded {
		return nil, fmt.Errorf("block of %d bytes (at most %d)", size, maxForwarded)
	}
	block, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(block) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return block, err
}
