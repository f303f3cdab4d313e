//go:build unix

package cli

import "syscall"

func setNonblock(fd int) error { return syscall.SetNonblock(fd, true) }
