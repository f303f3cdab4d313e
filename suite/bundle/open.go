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
	"syscall"
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
	m, err := unpack(tar.NewReader(z), into)
	if err != nil {
		return nil, err
	}
	// The archive's end was read, the compression's checksum lies behind it.
	if _, err := io.Copy(io.Discard, z); err != nil {
		return nil, fmt.Errorf("is torn: %w", err)
	}
	return m, nil
}

// head is what an archive begins with, and says of all that follows.
type head struct {
	manifest *Manifest
	size     map[string]int64
	sum      map[string]string
}

// unpack writes the archive's files below into. What they are is known from the first two
// of them; what is another file, or more bytes than those say, is not unpacked.
func unpack(t *tar.Reader, into string) (*Manifest, error) {
	root, err := os.OpenRoot(into) // nothing gets out of it, whatever the names say
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // the files were closed
	said, err := begin(t, root)
	if err != nil {
		return nil, err
	}
	if err := room(into, said.size); err != nil {
		return nil, err
	}
	there := map[string]bool{SumsFile: true, ManifestFile: true}
	for {
		h, err := next(t)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch size, known := said.size[h.Name]; {
		case there[h.Name]:
			return nil, fmt.Errorf("entry %q is there twice", h.Name)
		case !known:
			return nil, fmt.Errorf("file %s was put into it later: %s does not know it", h.Name, SumsFile)
		case h.Size != size:
			return nil, fmt.Errorf("file %s is not what it was: it has %d bytes, %s says %d", h.Name, h.Size, ManifestFile, size)
		}
		there[h.Name] = true
		sum, err := unpackOne(root, filepath.FromSlash(h.Name), t)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", h.Name, err)
		}
		if sum != said.sum[h.Name] {
			return nil, fmt.Errorf("file %s is not what it was: its checksum is %s, %s says %s", h.Name, sum, SumsFile, said.sum[h.Name])
		}
	}
	for _, name := range sorted(said.sum) {
		if !there[name] {
			return nil, fmt.Errorf("file %s is missing", name)
		}
	}
	return said.manifest, nil
}

// next is the archive's next entry, which has to be a file within the bundle; io.EOF after
// the last one.
func next(t *tar.Reader) (*tar.Header, error) {
	h, err := t.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("is torn or no archive: %w", err)
	case h.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("entry %q is no regular file", h.Name)
	case !isInside(h.Name):
		return nil, fmt.Errorf("entry %q points out of the bundle", h.Name)
	}
	return h, nil
}

func isInside(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(name)) && !strings.Contains(name, `\`) && filepath.ToSlash(filepath.Clean(filepath.FromSlash(name))) == name
}

// begin reads the checksums and the manifest, which an archive has before all else, and
// holds the one to the other.
func begin(t *tar.Reader, root *os.Root) (*head, error) {
	raw := map[string][]byte{}
	for range 2 {
		h, err := next(t)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Name != SumsFile && h.Name != ManifestFile || raw[h.Name] != nil {
			break
		}
		if h.Size > maxHead {
			return nil, fmt.Errorf("file %s has %d bytes", h.Name, h.Size)
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", h.Name, err)
		}
		if err := root.WriteFile(h.Name, data, 0o644); err != nil {
			return nil, fmt.Errorf("entry %q: %w", h.Name, err)
		}
		raw[h.Name] = data
	}
	for _, name := range []string{SumsFile, ManifestFile} {
		if raw[name] == nil {
			return nil, fmt.Errorf("file %s is missing, with which it has to begin", name)
		}
	}
	sums, err := readSums(raw[SumsFile])
	if err != nil {
		return nil, err
	}
	if sum := sumOfBytes(raw[ManifestFile]); sums[ManifestFile] != sum {
		return nil, fmt.Errorf("file %s is not what it was: its checksum is %s, %s says %s", ManifestFile, sum, SumsFile, sums[ManifestFile])
	}
	m, err := decode(raw[ManifestFile])
	if err != nil {
		return nil, err
	}
	sizes, err := m.sizes()
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if sums[f.Path] != f.SHA256 {
			return nil, fmt.Errorf("file %s is not the one that %s lists", f.Path, ManifestFile)
		}
	}
	for _, name := range sorted(sums) {
		if _, listed := sizes[name]; !listed && name != ManifestFile {
			return nil, fmt.Errorf("file %s is not listed in %s", name, ManifestFile)
		}
	}
	return &head{manifest: m, size: sizes, sum: sums}, nil
}

// sizes are those of the manifest's files, by their paths, which together are no more than
// is unpacked.
func (m *Manifest) sizes() (map[string]int64, error) {
	sizes := map[string]int64{}
	var all int64
	for _, f := range m.Files {
		_, twice := sizes[f.Path]
		switch {
		case !strings.HasPrefix(f.Path, RunDir+"/") || !isInside(f.Path):
			return nil, fmt.Errorf("%s: file %q is not within %s", ManifestFile, f.Path, RunDir)
		case twice:
			return nil, fmt.Errorf("%s: file %s is listed twice", ManifestFile, f.Path)
		case f.Size < 0:
			return nil, fmt.Errorf("%s: file %s has %d bytes", ManifestFile, f.Path, f.Size)
		case f.Size > maxUnpacked-all || len(sizes) >= maxFiles: // any other order lets it overflow
			return nil, fmt.Errorf("file %s: unpacked it is more than %d bytes or %d files", f.Path, int64(maxUnpacked), maxFiles)
		}
		all += f.Size
		sizes[f.Path] = f.Size
	}
	return sizes, nil
}

// room says whether the disk takes what will be unpacked: a bundle that fills it up harms
// more than its own judgement.
func room(into string, sizes map[string]int64) error {
	var all uint64
	for _, size := range sizes {
		all += uint64(size)
	}
	if free, known := available(into); known && all > free {
		return fmt.Errorf("unpacked it has %d bytes, and the disk of %s has room for %d; TMPDIR names another folder", all, into, free)
	}
	return nil
}

// available is how many bytes the disk of a folder takes, where the system tells it. Tests
// have another one.
var available = func(folder string) (free uint64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
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

func readSums(data []byte) (map[string]string, error) {
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
