package cli

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// copyOf is the number of a copy of f's descriptor.
func copyOf(t *testing.T, f *os.File) string {
	t.Helper()
	raw, err := f.SyscallConn()
	require.NoError(t, err)
	var fd int
	require.NoError(t, raw.Control(func(open uintptr) { fd, err = syscall.Dup(int(open)) }))
	require.NoError(t, err)
	return strconv.Itoa(fd)
}
