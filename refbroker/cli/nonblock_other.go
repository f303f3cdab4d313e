//go:build !unix

package cli

// setNonblock has nothing to do where descriptors are handles.
func setNonblock(int) error { return nil }

// duplicate can't copy a handle; the standard streams have none of the small
// numbers there.
func duplicate(fd int) (int, error) { return fd, nil }
