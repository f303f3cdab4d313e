//go:build linux

package torture

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/afero"
)

// processes is this machine: each run of a node is a process of its own. Every
// run listens at addresses of 127.0.0.0/8 that nobody else has thought of, so
// that no port has to be free.
type processes struct {
	net.Dialer
	net.ListenConfig
	dir  string
	told *transcript
	// command makes a node's process, but for its arguments.
	command func() *exec.Cmd
}

// Dial is here for the interface: a Dialer's has no context.
func (m *processes) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return m.DialContext(ctx, network, address)
}

func (m *processes) addresses(int32) (client, raft string) {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	ip := net.IPv4(127, 64+b[0]%128, b[1], 1+b[2]%254).String()
	return ip + ":9092", ip + ":9191"
}

func (m *processes) data(node int32) string {
	return filepath.Join(m.dir, fmt.Sprintf("node-%d", node))
}

func (m *processes) log(node int32, p partition) (map[string][]byte, error) {
	return readFolder(afero.NewOsFs(), filepath.Join(m.data(node), "logs", p.String()))
}

func (m *processes) launch(node int32, args []string) (process, error) {
	// The node ends when this process does: its lifeline breaks.
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = read.Close() }()
	cmd := m.command()
	cmd.Args = append(cmd.Args, append(args, "--data-dir", m.data(node), "--lifeline-fd", "3")...)
	cmd.ExtraFiles = []*os.File{read}
	cmd.Stderr = m.told.of(fmt.Sprintf("%d ", node))
	if err := cmd.Start(); err != nil {
		_ = write.Close()
		return nil, err
	}
	p := &child{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		_ = write.Close()
		close(p.done)
	}()
	return p, nil
}

// child is a node's process.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // once done is closed
}

func (c *child) kill() error {
	err := c.cmd.Process.Kill()
	<-c.done
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("it was over already: %s", c.what())
	}
	return err
}

func (c *child) terminate(ctx context.Context) error {
	// It may be held up.
	if err := errors.Join(c.cmd.Process.Signal(syscall.SIGTERM), c.resume()); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("it does not end: %w", context.Cause(ctx))
	}
}

func (c *child) stop() error            { return c.cmd.Process.Signal(syscall.SIGSTOP) }
func (c *child) resume() error          { return ignoreDone(c.cmd.Process.Signal(syscall.SIGCONT)) }
func (c *child) ended() <-chan struct{} { return c.done }
func (c *child) what() string           { return c.cmd.ProcessState.String() }

func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
