//go:build unix

package cli

import "syscall"

func setNonblock(fd int) error { return syscall.SetNonblock(fd, true) }

func duplicate(fd int) (int, error) {
	n, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(n)
	}
	return n, err
}
