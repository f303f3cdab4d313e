//go:build !unix

package wirelog

import (
	"io"
	"os"
)

// mapped is a file's bytes, read.
type mapped []byte

func mapFile(f *os.File, size int64) (mapped, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, err
}

func (mapped) release() error { return nil }

func (mapped) close() error { return nil }
