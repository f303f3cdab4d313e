package bundle

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of what [Open] unpacks: a small archive can hold a lot of zeroes.
const (
	maxUnpacked = 64 << 30
	maxFiles    = 1 << 20
	maxHead     = 256 << 20 // of the manifest and of the checksums
)

// Open unpacks a bundle into an empty folder and checks every file in it. An error
// names the file that is not what it was when the bundle was made.
func Open(file, into string) (*Manifest, error) {
	m, err := open(file, into)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", file, err)
	}
	return m, nil
}

func open(file, into string) (*Manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("is no bundle: %w", err)
	}
	sums, err := unpack(tar.NewReader(z), into)
	if err != nil {
		return nil, err
	}
	// The archive's end was read, the compression's checksum lies behind it.
	if _, err := io.Copy(io.Discard, z); err != nil {
		return nil, fmt.Errorf("is torn: %w", err)
	}
	want, err := readSums(filepath.Join(into, SumsFile))
	if err != nil {
		return nil, err
	}
	delete(sums, SumsFile)
	for _, name := range sorted(sums) {
		switch sum, ok := want[name]; {
		case !ok:
			return nil, fmt.Errorf("file %s was put into it later: %s does not know it", name, SumsFile)
		case sum != sums[name]:
			return nil, fmt.Errorf("file %s is not what it was: its checksum is %s, %s says %s", name, sums[name], SumsFile, sum)
		}
	}
	for _, name := range sorted(want) {
		if _, ok := sums[name]; !ok {
			return nil, fmt.Errorf("file %s is missing", name)
		}
	}
	data, err := readHead(filepath.Join(into, ManifestFile))
	if err != nil {
		return nil, err
	}
	m, err := decode(data)
	if err != nil {
		return nil, err
	}
	delete(sums, ManifestFile)
	for _, listed := range m.Files {
		if sums[listed.Path] != listed.SHA256 {
			return nil, fmt.Errorf("file %s is not the one that %s lists", listed.Path, ManifestFile)
		}
		delete(sums, listed.Path)
	}
	for _, name := range sorted(sums) {
		return nil, fmt.Errorf("file %s is not listed in %s", name, ManifestFile)
	}
	return m, nil
}

// unpack writes the archive's files below into, and returns their checksums.
func unpack(t *tar.Reader, into string) (map[string]string, error) {
	root, err := os.OpenRoot(into) // nothing gets out of it, whatever the names say
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // the files were closed
	sums := map[string]string{}
	var all int64
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return sums, nil
		}
		if err != nil {
			return nil, fmt.Errorf("is torn or no archive: %w", err)
		}
		name := h.Name
		switch {
		case h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("entry %q is no regular file", name)
		case !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`) || filepath.ToSlash(filepath.Clean(filepath.FromSlash(name))) != name:
			return nil, fmt.Errorf("entry %q points out of the bundle", name)
		case sums[name] != "":
			return nil, fmt.Errorf("entry %q is there twice", name)
		case h.Size > maxUnpacked-all || len(sums) >= maxFiles:
			return nil, fmt.Errorf("entry %q: unpacked it is more than %d bytes or %d files", name, int64(maxUnpacked), maxFiles)
		}
		all += h.Size // which any other order lets overflow
		if sums[name], err = unpackOne(root, filepath.FromSlash(name), t); err != nil {
			return nil, fmt.Errorf("entry %q: %w", name, err)
		}
	}
}

func unpackOne(root *os.Root, name string, r io.Reader) (sum string, err error) {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, h), r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readHead reads the manifest or the checksums.
func readHead(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("file %s is missing", filepath.Base(path))
	}
	if info.Size() > maxHead {
		return nil, fmt.Errorf("file %s has %d bytes", filepath.Base(path), info.Size())
	}
	return os.ReadFile(path)
}

func readSums(path string) (map[string]string, error) {
	data, err := readHead(path)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || name == "" {
			return nil, fmt.Errorf("file %s: line %q is no checksum and name", SumsFile, strings.TrimSpace(line))
		}
		all[name] = sum
	}
	return all, nil
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
