package certify_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
)

// denier stands before a broker and answers some requests itself, as one does whose
// user lacks a right, or whose disk is full: the reference broker knows neither.
type denier struct {
	t      testing.TB
	ln     net.Listener
	broker string
	wg     sync.WaitGroup

	mu    sync.Mutex
	codes map[int16]int16 // what it answers, by API key
	asked map[int16]int   // how often it did
	conns map[net.Conn]struct{}
	ended bool
}

func newDenier(t testing.TB, broker string) *denier {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &denier{t: t, ln: ln, broker: broker, codes: map[int16]int16{}, asked: map[int16]int{}, conns: map[net.Conn]struct{}{}}
	d.wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		d.mu.Lock()
		d.ended = true
		for c := range d.conns {
			_ = c.Close()
		}
		d.mu.Unlock()
		d.wg.Wait()
	})
	return d
}

// deny has it answer requests of a key with an error code from now on; 0 lets them through.
func (d *denier) deny(key, code int16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.codes[key], d.asked[key] = code, 0
}

func (d *denier) denied(key int16) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[key]
}

// keep says whether the connection may live, which it ends with the denier.
func (d *denier) keep(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.conns[c] = struct{}{}
	}
	return !d.ended
}

// serve passes on one request after the other, and its answer, as a broker takes them.
func (d *denier) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	broker, err := net.Dial("tcp", d.broker)
	if err != nil {
		return
	}
	defer func() { _ = broker.Close() }()
	if !d.keep(client) || !d.keep(broker) {
		return
	}
	for {
		request, err := frame(client)
		if err != nil {
			return
		}
		answer, err := d.answer(request)
		if err != nil {
			d.t.Error(err)
			return
		}
		if answer == nil {
			if err := send(broker, request); err != nil {
				return
			}
			if answer, err = frame(broker); err != nil {
				return
			}
		}
		if err := send(client, answer); err != nil {
			return
		}
	}
}

func frame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, body)
	return body, err
}

func send(w io.Writer, body []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// answer is what it says itself to a request; nil where it passes that on.
func (d *denier) answer(frame []byte) ([]byte, error) {
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	d.mu.Lock()
	code := d.codes[key]
	if code != 0 {
		d.asked[key]++
	}
	d.mu.Unlock()
	if code == 0 {
		return nil, nil
	}
	request := kmsg.RequestForKey(key)
	if own := mirrorrpc.RequestForKey(key); own != nil {
		request = own
	}
	request.SetVersion(version)
	body := frame[8:] // key, version, correlation id
	if n := int16(binary.BigEndian.Uint16(body)); n > 0 {
		body = body[n:] // the client's id
	}
	if body = body[2:]; request.IsFlexible() {
		body = body[1:] // no tagged fields
	}
	if err := request.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("read a request of key %d: %w", key, err)
	}
	response, err := refusal(request, code)
	if err != nil {
		return nil, err
	}
	response.SetVersion(version)
	answer := frame[4:8:8]
	if response.IsFlexible() {
		answer = append(answer, 0)
	}
	return response.AppendTo(answer), nil
}

// refusal refuses all that a request asks for.
func refusal(request kmsg.Request, code int16) (kmsg.Response, error) {
	switch r := request.(type) {
	case *kmsg.CreateTopicsRequest:
		resp := kmsg.NewPtrCreateTopicsResponse()
		for _, t := range r.Topics {
			said := kmsg.NewCreateTopicsResponseTopic()
			said.Topic, said.ErrorCode = t.Topic, code
			resp.Topics = append(resp.Topics, said)
		}
		return resp, nil
	case *kmsg.DeleteTopicsRequest:
		resp := kmsg.NewPtrDeleteTopicsResponse()
		for _, t := range r.Topics {
			said := kmsg.NewDeleteTopicsResponseTopic()
			said.Topic, said.ErrorCode = t.Topic, code
			resp.Topics = append(resp.Topics, said)
		}
		return resp, nil
	case *kmsg.InitProducerIDRequest:
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ErrorCode = code
		return resp, nil
	case *kmsg.ProduceRequest:
		resp := kmsg.NewPtrProduceResponse()
		for _, t := range r.Topics {
			said := kmsg.NewProduceResponseTopic()
			said.Topic, said.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition, part.ErrorCode = p.Partition, code
				said.Partitions = append(said.Partitions, part)
			}
			resp.Topics = append(resp.Topics, said)
		}
		return resp, nil
	case *kmsg.DescribeProducersRequest:
		resp := kmsg.NewPtrDescribeProducersResponse()
		for _, t := range r.Topics {
			said := kmsg.NewDescribeProducersResponseTopic()
			said.Topic = t.Topic
			for _, p := range t.Partitions {
				part := kmsg.NewDescribeProducersResponseTopicPartition()
				part.Partition, part.ErrorCode = p, code
				said.Partitions = append(said.Partitions, part)
			}
			resp.Topics = append(resp.Topics, said)
		}
		return resp, nil
	case *mirrorrpc.CreateClusterMirrorRequest:
		return &mirrorrpc.CreateClusterMirrorResponse{ErrorCode: code}, nil
	}
	return nil, errors.Join(errors.New("the denier has no answer"), fmt.Errorf("to %T", request))
}
