package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/bundle"
)

// Who judges a bundle's files unpacked hears that nobody looks at their checksums.
func TestAnUnpackedBundleIsTold(t *testing.T) {
	const told = "is a bundle that was unpacked: its checksums are not looked at here"
	dir := t.TempDir()
	for _, name := range []string{bundle.SumsFile, bundle.ManifestFile} {
		code, _, errs := called(t, "judge", dir)
		require.Equal(t, exitCould, code)
		require.NotContains(t, errs, told)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	_, _, errs := called(t, "judge", dir)
	require.Contains(t, errs, told)
}
