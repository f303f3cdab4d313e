package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// fetchCounter is a proxy before a broker that counts Fetch requests by the
// client id that they carry.
type fetchCounter struct {
	listener net.Listener
	upstream string

	mu      sync.Mutex
	fetches map[string]int
	open    []net.Conn
	closed  bool
	work    sync.WaitGroup
}

func startFetchCounter(upstream string) (*fetchCounter, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &fetchCounter{listener: l, upstream: upstream, fetches: map[string]int{}}
	p.work.Go(p.accept)
	return p, nil
}

func (p *fetchCounter) Addr() string { return p.listener.Addr().String() }

func (p *fetchCounter) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open, p.closed = nil, true
	p.mu.Unlock()
	p.work.Wait()
}

func (p *fetchCounter) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		broker, err := net.Dial("tcp4", p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		both := func() { _, _ = client.Close(), broker.Close() }
		p.mu.Lock()
		if p.closed { // meanwhile: Close has not seen these two
			p.mu.Unlock()
			both()
			return
		}
		p.open = append(p.open, client, broker)
		p.mu.Unlock()
		p.work.Go(func() { defer both(); p.requests(broker, client) })
		p.work.Go(func() { defer both(); _, _ = io.Copy(client, broker) })
	}
}

// requests passes requests on: length (4), API key (2), version (2), correlation
// id (4), client id (2 and its bytes).
func (p *fetchCounter) requests(to io.Writer, from io.Reader) {
	const fetch, clientAt = 1, 10
	size := make([]byte, 4)
	for {
		if _, err := io.ReadFull(from, size); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(size))
		if n < 0 || n > 64<<20 {
			return
		}
		frame := make([]byte, 4+n)
		copy(frame, size)
		if _, err := io.ReadFull(from, frame[4:]); err != nil {
			return
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
		if body := frame[4:]; n >= clientAt && binary.BigEndian.Uint16(body) == fetch {
			if length := int(int16(binary.BigEndian.Uint16(body[8:]))); length > 0 && clientAt+length <= n {
				p.mu.Lock()
				p.fetches[string(body[clientAt:clientAt+length])]++
				p.mu.Unlock()
			}
		}
	}
}

// Reset begins to count anew for a client, whose ids begin with its name.
func (p *fetchCounter) Reset(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.fetches {
		if strings.HasPrefix(id, client) {
			delete(p.fetches, id)
		}
	}
}

// mostFetches is far above what a client sends that waits 200 ms at the end of a
// log for a second and a half, and far below what a busy loop sends.
const mostFetches = 100

// Calm says whether a client has waited at the log's end, and how often it asked
// if it has not. One that asked never was not looked at.
func (p *fetchCounter) Calm(client string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for id, count := range p.fetches {
		if strings.HasPrefix(id, client) {
			n += count
		}
	}
	if n == 0 || n > mostFetches {
		return fmt.Sprintf("%d fetches", n)
	}
	return "calm"
}
