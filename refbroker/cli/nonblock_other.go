//go:build !unix

package cli

// setNonblock has nothing to do where descriptors are handles.
func setNonblock(int) error { return nil }
