package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"path"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"

	"watershed.example/fixtures/memnet"
	"watershed.example/refbroker/cli"
)

// virtual is a machine in memory, for a testing/synctest bubble. Its nodes lose
// power, and crash in the middle of a write.
type virtual struct {
	*memnet.Network
	mu    sync.Mutex // never held while waiting
	disks map[int32]*disk
	logs  map[int32]*raftLog
	runs  map[int32]int
	told  *transcript
	over  sync.WaitGroup
}

func newVirtual() *virtual {
	return &virtual{
		Network: memnet.New(), disks: map[int32]*disk{}, logs: map[int32]*raftLog{}, runs: map[int32]int{}, told: &transcript{},
	}
}

func (v *virtual) addresses(node int32) (client, raft string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.runs[node]++
	ip := fmt.Sprintf("127.1.%d.%d", v.runs[node]%250+1, node+1)
	return ip + ":9092", ip + ":9191"
}

func (v *virtual) launch(node int32, args []string) (process, error) {
	v.mu.Lock()
	if v.disks[node] == nil {
		v.disks[node], v.logs[node] = newDisk(), newRaftLog()
	}
	r := &run{
		disk: v.disks[node], view: v.disks[node].view(), log: &raftView{log: v.logs[node]}, conns: map[net.Conn]bool{},
		done: make(chan struct{}), net: v.Network,
	}
	number := v.runs[node]
	v.mu.Unlock()
	h := cli.RealHost()
	h.Dial, h.Listen, h.FS, h.Now = r.dial, r.listen, r.view, time.Now
	h.RaftStores = func(string) (cli.RaftStores, error) {
		return cli.RaftStores{Log: r.log, Stable: r.log, Close: io.NopCloser(nil)}, nil
	}
	h.Signals, h.Stdin, h.Stdout, h.Stderr = false, nil, io.Discard, v.told.of(fmt.Sprintf("%d.%d ", node, number))
	ctx, stop := context.WithCancel(context.Background())
	r.stopping = stop
	v.over.Go(func() {
		defer close(r.done)
		defer stop()
		r.code = cli.Main(ctx, append(args, "--data-dir", "/data"), h)
	})
	return r, nil
}

func (v *virtual) log(node int32, p partition) (map[string][]byte, error) {
	return readFolder(v.disks[node].base, path.Join("/data/logs", p.String()))
}

func readFolder(fsys afero.Fs, dir string) (map[string][]byte, error) {
	infos, err := afero.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, info := range infos {
		raw, err := afero.ReadFile(fsys, path.Join(dir, info.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a cleaner was faster
		}
		if err != nil {
			return nil, err
		}
		out[info.Name()] = raw
	}
	return out, nil
}

// run is one process of a virtual node.
type run struct {
	disk     *disk
	view     *view
	log      *raftView
	net      *memnet.Network
	stopping context.CancelFunc
	done     chan struct{}
	code     int

	mu        sync.Mutex // never held while waiting
	dead      bool
	conns     map[net.Conn]bool
	listeners []net.Listener
}

var errDead = errors.New("the process is over")

func (r *run) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	dead := r.dead
	r.mu.Unlock()
	if dead {
		return nil, errDead
	}
	c, err := r.net.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return r.track(c)
}

func (r *run) track(c net.Conn) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		_ = c.Close()
		return nil, errDead
	}
	t := &ofRun{Conn: c, run: r}
	r.conns[t] = true
	return t, nil
}

// ofRun is a connection that ends with its process.
type ofRun struct {
	net.Conn
	run *run
}

func (c *ofRun) Close() error {
	c.run.mu.Lock()
	delete(c.run.conns, c)
	c.run.mu.Unlock()
	return c.Conn.Close()
}

func (r *run) listen(ctx context.Context, network, address string) (net.Listener, error) {
	l, err := r.net.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		_ = l.Close()
		return nil, errDead
	}
	r.listeners = append(r.listeners, l)
	return &ofRunListener{Listener: l, run: r}, nil
}

type ofRunListener struct {
	net.Listener
	run *run
}

func (l *ofRunListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.run.track(c)
}

// die cuts the process off from disk, quorum and network, at once. What is left
// of it ends in the background, seen by nobody.
func (r *run) die() {
	r.view.end()
	r.log.end()
	r.mu.Lock()
	r.dead = true
	conns, listeners := r.conns, r.listeners
	r.conns = map[net.Conn]bool{}
	r.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for c := range conns {
		_ = c.(*ofRun).Conn.Close()
	}
}

func (r *run) kill() error {
	r.die()
	r.stopping()
	return nil
}

// crashAfter lets the process die at the nth change that it makes to its disk.
func (r *run) crashAfter(n int, torn float64) { r.view.crashAfter(n, torn, r.die) }

// losePower kills the process, and takes from its disk what was not synced.
func (r *run) losePower(rng *rand.Rand) error {
	if err := r.kill(); err != nil {
		return err
	}
	return r.disk.losePower(rng)
}

func (r *run) terminate(ctx context.Context) error {
	r.stopping()
	select {
	case <-r.done:
	case <-ctx.Done():
		return fmt.Errorf("it does not end: %w", context.Cause(ctx))
	}
	r.mu.Lock()
	crashed := r.dead // by a write, before it came to its end
	r.mu.Unlock()
	if r.code != cli.ExitOK && !crashed {
		return fmt.Errorf("it ended with code %d", r.code)
	}
	return nil
}

// stop is left to the links: goroutines can't be held up.
func (r *run) stop() error   { return nil }
func (r *run) resume() error { return nil }

func (r *run) ended() <-chan struct{} { return r.done }
func (r *run) what() string           { return fmt.Sprintf("exit code %d", r.code) }

// raftLog is what a node's quorum has on disk; all of it is synced.
type raftLog struct {
	mu          sync.Mutex // never held while waiting
	first, last uint64
	logs        map[uint64]raft.Log
	values      map[string][]byte
	numbers     map[string]uint64
}

func newRaftLog() *raftLog {
	return &raftLog{logs: map[uint64]raft.Log{}, values: map[string][]byte{}, numbers: map[string]uint64{}}
}

// raftView is the quorum's log as one process has it.
type raftView struct {
	mu  sync.Mutex // never held while waiting
	log *raftLog
}

// end gives the process a copy, which goes on by itself.
func (v *raftView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.log
	old.mu.Lock()
	defer old.mu.Unlock()
	own := newRaftLog()
	own.first, own.last = old.first, old.last
	for k, e := range old.logs {
		own.logs[k] = e
	}
	for k, e := range old.values {
		own.values[k] = e
	}
	for k, e := range old.numbers {
		own.numbers[k] = e
	}
	v.log = own
}

func (v *raftView) with(f func(*raftLog) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	return f(v.log)
}

func (v *raftView) FirstIndex() (n uint64, err error) {
	err = v.with(func(l *raftLog) error { n = l.first; return nil })
	return n, err
}

func (v *raftView) LastIndex() (n uint64, err error) {
	err = v.with(func(l *raftLog) error { n = l.last; return nil })
	return n, err
}

func (v *raftView) GetLog(index uint64, out *raft.Log) error {
	return v.with(func(l *raftLog) error {
		e, ok := l.logs[index]
		if !ok {
			return raft.ErrLogNotFound
		}
		*out = e
		return nil
	})
}

func (v *raftView) StoreLog(e *raft.Log) error { return v.StoreLogs([]*raft.Log{e}) }

func (v *raftView) StoreLogs(all []*raft.Log) error {
	return v.with(func(l *raftLog) error {
		for _, e := range all {
			l.logs[e.Index] = *e
			if l.first == 0 {
				l.first = e.Index
			}
			l.last = max(l.last, e.Index)
		}
		return nil
	})
}

func (v *raftView) DeleteRange(low, high uint64) error {
	return v.with(func(l *raftLog) error {
		for i := low; i <= high; i++ {
			delete(l.logs, i)
		}
		if low <= l.first {
			l.first = high + 1
		}
		if high >= l.last {
			l.last = low - 1
		}
		if l.first > l.last {
			l.first, l.last = 0, 0
		}
		return nil
	})
}

// errNotFound has the words that raft looks for.
var errNotFound = errors.New("not found")

func (v *raftView) Set(key, value []byte) error {
	return v.with(func(l *raftLog) error { l.values[string(key)] = value; return nil })
}

func (v *raftView) Get(key []byte) (value []byte, err error) {
	err = v.with(func(l *raftLog) error {
		var ok bool
		if value, ok = l.values[string(key)]; !ok {
			return errNotFound
		}
		return nil
	})
	return value, err
}

func (v *raftView) SetUint64(key []byte, n uint64) error {
	return v.with(func(l *raftLog) error { l.numbers[string(key)] = n; return nil })
}

func (v *raftView) GetUint64(key []byte) (n uint64, err error) {
	err = v.with(func(l *raftLog) error { n = l.numbers[string(key)]; return nil })
	return n, err
}
