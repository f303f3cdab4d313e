//go:build !linux

package storage

import (
	"errors"
	"net"
	"os"
)

func sendfile(*net.TCPConn, *os.File, int64, int64) (int64, error) { return 0, errors.ErrUnsupported }
