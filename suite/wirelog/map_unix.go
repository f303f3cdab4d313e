//go:build unix

package wirelog

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapped is a file's bytes as the system's page cache holds them.
type mapped []byte

func mapFile(f *os.File, size int64) (mapped, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return data, nil
}

// release says that the bytes are not needed for now: they no longer count as
// this process's memory.
func (m mapped) release() error { return unix.Madvise(m, unix.MADV_DONTNEED) }

func (m mapped) close() error { return unix.Munmap(m) }
