package storage

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendfileMost bounds one call, after which the connection's deadline counts
// again.
const sendfileMost = 4 << 20

// sendfile moves n bytes at pos of f to c within the kernel. Unlike
// [net.TCPConn.ReadFrom] it leaves the file's position alone, which all readers
// share.
func sendfile(c *net.TCPConn, f *os.File, pos, n int64) (sent int64, err error) {
	to, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	from, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	step := func(in, out int) (done bool) {
		for sent < n {
			at := pos + sent
			k, err := unix.Sendfile(out, in, &at, int(min(n-sent, sendfileMost)))
			switch {
			case k > 0:
				sent += int64(k)
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				return false
			case err == nil:
				failed = io.ErrUnexpectedEOF
				return true
			case sent == 0 && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)):
				failed = errors.ErrUnsupported
				return true
			default:
				failed = fmt.Errorf("sendfile: %w", err)
				return true
			}
		}
		return true
	}
	var werr error
	err = from.Control(func(in uintptr) {
		werr = to.Write(func(out uintptr) bool { return step(int(in), int(out)) })
	})
	return sent, errors.Join(err, werr, failed)
}
