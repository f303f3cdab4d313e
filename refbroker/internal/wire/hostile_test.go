package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited for "+what)
	}
}

// bulk answers Produce after hold has let it go.
func bulk(hold func(r *kmsg.ProduceRequest)) API {
	a := Of("Produce", 3, 13, func(_ context.Context, req *Request, r *kmsg.ProduceRequest) (Response, error) {
		hold(r)
		return req.Response(), nil
	})
	a.Bulk = true
	return a
}

// produceSized is a Produce request with so many bytes of records.
func produceSized(records int) []byte {
	r := kmsg.NewPtrProduceRequest()
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = make([]byte, records)
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	return request(1, 9, r)
}

func requireServed(t *testing.T, s *served, c net.Conn, text string) {
	t.Helper()
	send(t, c, request(5, 2, metadataFor(text)))
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 2
	require.Equal(t, int32(5), receive(t, c, false, resp))
	require.Equal(t, text, *resp.ClusterID)
}

func TestAClientThatStopsWithinARequestIsCutOff(t *testing.T) {
	s := serve(t, func(c *Config) { c.FrameTimeout = 50 * time.Millisecond }, echo(nil))
	good := s.dial()
	for i, begun := range [][]byte{{0}, {0, 0, 0, 50}, request(1, 2, metadataFor(strings.Repeat("x", 300)))[:200]} {
		c := s.dial()
		send(t, c, begun)
		requireClosed(t, c)
		requireServed(t, s, good, "meanwhile") // idle is not slow
		require.Equal(t, int64(i+1), s.Stats().Slow.Load())
	}
	require.Zero(t, s.Stats().Malformed.Load())
}

// A slow loris: each byte comes soon after the last, the request never.
func TestAClientThatDripsIsCutOff(t *testing.T) {
	s := serve(t, func(c *Config) { c.FrameTimeout = 50 * time.Millisecond }, echo(nil))
	c := s.dial()
	send(t, c, []byte{0, 0, 0x10, 0})
	for sent := 0; ; sent++ {
		require.Less(t, sent, 0x1000, "never cut off")
		if _, err := c.Write([]byte{0}); err != nil {
			break
		}
		time.Sleep(2 * time.Millisecond) // the dripping itself
	}
	eventually(t, "the count of slow clients", func() bool { return s.Stats().Slow.Load() == 1 })
}

func TestAClientThatTakesNoResponseIsCutOff(t *testing.T) {
	text := strings.Repeat("x", 32<<10)
	s := serve(t, func(c *Config) { c.WriteTimeout = time.Second }, echo(nil))
	c := s.dial()
	go func() {
		for { // until the server closes
			if _, err := c.Write(request(1, 2, metadataFor(text[:30000]))); err != nil {
				return
			}
		}
	}()
	eventually(t, "the count of slow clients", func() bool { return s.Stats().Slow.Load() == 1 })
	eventually(t, "its connection to be closed", func() bool { n, _ := s.Connections(); return n == 0 })
	requireServed(t, s, s.dial(), "others")
}

func TestConnectionsFromOneAddressAreBounded(t *testing.T) {
	s := serve(t, func(c *Config) { c.MaxConnsPerIP = 2 }, echo(nil))
	first, second := s.dial(), s.dial()
	requireServed(t, s, first, "a")
	requireServed(t, s, second, "b")
	requireClosed(t, s.dial())
	require.NoError(t, first.Close())
	eventually(t, "the first to be gone", func() bool { n, _ := s.Connections(); return n == 1 })
	requireServed(t, s, s.dial(), "c")
	require.Equal(t, []int64{3, 1}, []int64{s.Stats().Accepted.Load(), s.Stats().Refused.Load()})
}

func TestRequestsWaitForMemory(t *testing.T) {
	const size = 64 << 10
	arrived, release := make(chan int, 10), make(chan struct{})
	s := serve(t, func(c *Config) { c.MaxQueued = size }, echo(nil), bulk(func(r *kmsg.ProduceRequest) {
		arrived <- len(r.Topics[0].Partitions[0].Records)
		<-release
	}))
	var waiting []net.Conn
	for i := range 4 { // the first fits, the second overdraws, the others wait
		c := s.dial()
		send(t, c, produceSized(size+i))
		waiting = append(waiting, c)
		if i < 2 {
			require.Equal(t, size+i, <-arrived)
		}
	}
	eventually(t, "two requests to wait", func() bool {
		s.memory.mu.Lock()
		defer s.memory.mu.Unlock()
		return len(s.memory.waiting) == 2
	})
	require.Empty(t, arrived)
	_, queued := s.Connections()
	require.LessOrEqual(t, queued, int64(3*size))
	requireServed(t, s, s.dial(), "small ones never wait")
	close(release)
	for _, c := range waiting {
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		require.Equal(t, int32(1), receive(t, c, true, resp))
	}
	eventually(t, "all memory to be back", func() bool { return s.memory.left() == size })
}

func TestCloseDoesNotWaitForRequestsThatWaitForMemory(t *testing.T) {
	arrived := make(chan struct{}, 2)
	release := make(chan struct{})
	s := serve(t, func(c *Config) { c.MaxQueued = 1 }, bulk(func(*kmsg.ProduceRequest) {
		arrived <- struct{}{}
		<-release
	}))
	holder, waiter := s.dial(), s.dial()
	send(t, holder, produceSized(32<<10))
	<-arrived
	send(t, waiter, produceSized(32<<10))
	eventually(t, "a request to wait", func() bool {
		s.memory.mu.Lock()
		defer s.memory.mu.Unlock()
		return len(s.memory.waiting) == 1
	})
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	requireClosed(t, waiter)
	close(release)
	<-closed
	require.Equal(t, int64(1), s.memory.left())
}

// Whatever is asked for, all get it in the end, and never is more lent than the
// limit and one frame.
func TestTheBudgetNeverLocksUp(t *testing.T) {
	const limit, frame = 1000, 400
	b := &budget{free: limit}
	var work sync.WaitGroup
	var least atomic.Int64
	for i := range 16 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			l := &loan{of: b}
			for range 300 {
				for l.held < frame && random.IntN(4) > 0 {
					require.NoError(t, l.take(t.Context(), min(1+random.Int64N(frame), frame-l.held)))
					least.Store(min(least.Load(), b.left()))
				}
				runtime.Gosched()
				l.giveBack()
			}
		})
	}
	work.Wait()
	require.Equal(t, int64(limit), b.left())
	require.Empty(t, b.waiting)
	require.Nil(t, b.favoured)
	require.GreaterOrEqual(t, least.Load(), int64(-frame))
}

// A claim must not cost what it claims.
func TestAHostileRequestCostsLittleMoreThanItsSize(t *testing.T) {
	table := everyAPI()
	claim := func(key, version int16, header, body []byte, size int) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = append(b, 0, 0, 0, 1, 0xff, 0xff)
		b = append(append(b, header...), body...)
		return append(b, make([]byte, size-len(b))...)
	}
	const size = 1 << 20
	most := binary.BigEndian.AppendUint32(nil, size-100) // as many elements as there are bytes
	some := binary.BigEndian.AppendUint32(nil, size/3)
	compact := binary.AppendUvarint(nil, size/3)
	for name, frame := range map[string][]byte{
		"metadata of many topics":   claim(3, 1, nil, most, size),
		"metadata, compact":         claim(3, 12, []byte{0}, compact, size),
		"produce to many topics":    claim(0, 8, nil, append([]byte{0xff, 0xff, 0, 1, 0, 0, 0, 1}, some...), size),
		"produce, compact":          claim(0, 9, []byte{0}, append([]byte{0, 0, 1, 0, 0, 0, 1}, compact...), size),
		"fetch of many topics":      claim(1, 4, nil, append(make([]byte, 17), some...), size),
		"fetch, compact":            claim(1, 12, []byte{0}, append(make([]byte, 25), compact...), size),
		"many tags in the header":   claim(3, 12, binary.AppendUvarint(nil, size/2), nil, size),
		"offsets of many groups":    claim(9, 8, []byte{0}, compact, size),
		"coordinators of many keys": claim(10, 4, []byte{0, 0}, compact, size),
		"configs of many resources": claim(32, 4, []byte{0}, compact, size),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := table.decode(frame)
			runtime.ReadMemStats(&after)
			cost := after.TotalAlloc - before.TotalAlloc
			// 43 times with the race detector, less without.
			require.Less(t, cost, uint64(48*size), "error %v", err)
			if table.apis[keyOf(frame)].Bulk {
				require.Less(t, cost, uint64(size), "error %v", err)
			}
			t.Logf("%.1f times its size: %v", float64(cost)/size, err)
		})
	}
}

func TestAPlainRequestIsNeverLarge(t *testing.T) {
	s := serve(t, nil, echo(nil), bulk(func(*kmsg.ProduceRequest) {}))
	c := s.dial()
	head := binary.BigEndian.AppendUint32(nil, plainFrame+1)
	send(t, c, append(head, 0, 3))
	requireClosed(t, c)
	good := s.dial()
	send(t, good, produceSized(plainFrame+1))
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	require.Equal(t, int32(1), receive(t, good, true, resp))
}

// Clients of every bad kind at once do no harm: others are served meanwhile, and
// what the bad ones held is given back.
func TestHostileClientsDoNoHarm(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.FrameTimeout, c.WriteTimeout, c.MaxQueued = time.Second, 2*time.Second, 1<<20
	}, echo(nil), bulk(func(*kmsg.ProduceRequest) {}))
	requireServed(t, s, s.dial(), "before")
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()

	const deaf = 4
	large := produceSized(1 << 20)
	kinds := []func(c net.Conn, random *rand.Rand){
		func(c net.Conn, random *rand.Rand) { // garbage
			b := make([]byte, 2000)
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			_, _ = c.Write(b)
		},
		func(c net.Conn, _ *rand.Rand) { _, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n")) },
		func(c net.Conn, random *rand.Rand) { _, _ = c.Write(large[:random.IntN(len(large))]) }, // and then nothing
		func(c net.Conn, random *rand.Rand) { // gone in the middle
			_, _ = c.Write(large[:random.IntN(len(large))])
			_ = c.Close()
		},
		func(c net.Conn, _ *rand.Rand) { // asks and does not listen
			for range 400 {
				if _, err := c.Write(request(1, 2, metadataFor(strings.Repeat("y", 20000)))); err != nil {
					return
				}
			}
		},
		func(c net.Conn, _ *rand.Rand) { // a whole request with a body that ends early
			_, _ = c.Write(append([]byte{0, 0, 0, 30, 0, 3, 0, 12}, bytes.Repeat([]byte{0x7f}, 26)...))
		},
	}
	var work sync.WaitGroup
	for i := range 2 * len(kinds) {
		random := rand.New(rand.NewPCG(7, uint64(i)))
		work.Go(func() {
			for range 3 {
				c, err := net.Dial("tcp", s.addr)
				if err != nil {
					continue
				}
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				kinds[i%len(kinds)](c, random)
				if i < len(kinds) && i != deaf { // waits to be cut off
					_, _ = io.Copy(io.Discard, c)
				}
				_ = c.Close()
			}
		})
	}
	ended := make(chan struct{})
	go func() { work.Wait(); close(ended) }()
	good := s.dial()
	require.NoError(t, good.SetDeadline(time.Now().Add(2*time.Minute)))
	for busy := true; busy; {
		requireServed(t, s, good, "meanwhile")
		select {
		case <-ended:
			busy = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	eventually(t, "clients of every kind to be refused", func() bool {
		return s.Stats().Slow.Load() >= 3 && s.Stats().Malformed.Load() >= 12
	})
	requireServed(t, s, good, "after")
	eventually(t, "only the good clients to be left", func() bool { n, _ := s.Connections(); return n <= 2 })
	eventually(t, "all memory to be back", func() bool { return s.memory.left() == 1<<20 })
	eventually(t, "the goroutines to be gone", func() bool { return runtime.NumGoroutine() <= goroutines+1 })
	eventually(t, "the heap to be as before", func() bool {
		runtime.GC()
		runtime.ReadMemStats(&after)
		return after.HeapAlloc < before.HeapAlloc+8<<20 // large itself is 4 MiB
	})
}
