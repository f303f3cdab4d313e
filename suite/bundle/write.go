package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"watershed.example/fixtures/secrets"
)

// Options are what [Write] is told besides the folder.
type Options struct {
	Product string
	Facts   map[string]string
	Tool    string
	Time    time.Time
	// Secrets are taken out wherever they stand.
	Secrets []string
	// Around are places in raw logs that a finding is about: of a log that is too
	// large, what lies around them goes in.
	Around []Place
	// MaxFile is the size from which on a raw log is left out, in bytes; 0 for 256 MiB.
	MaxFile int64

	maxText int64 // 0 for the package's
}

// Place is an offset in the log of one partition on one node.
type Place struct {
	Cluster   string
	Node      int32
	Topic     string
	Partition int32
	Offset    int64
}

const (
	defaultMaxFile = 256 << 20
	// maxText bounds the files that are read into memory to take secrets out, one at
	// a time.
	maxText = 512 << 20
)

// entry is a file that goes into the bundle.
type entry struct {
	File
	data []byte // nil: it is read from disk
	disk string
	from int64 // of a part of that file
	text bool  // secrets are taken out of it
	// clean says of a text that it was looked through and had none.
	clean bool
}

// Write packs the run's folder into an archive in the folder into, and returns
// its path and its own checksum.
func Write(folder, into string, o Options) (file, sum string, err error) {
	if strings.TrimSpace(o.Product) == "" {
		return "", "", errors.New("bundle: no product is named")
	}
	if o.MaxFile == 0 {
		o.MaxFile = defaultMaxFile
	}
	root, err := filepath.EvalSymlinks(folder) // out/latest is one
	if err != nil {
		return "", "", fmt.Errorf("bundle: %w", err)
	}
	known := secrets.New(o.Secrets)
	o.Product = known.String(o.Product)
	p := &packer{root: root, o: o, known: known, manifest: Manifest{
		Format: Format, Version: Version, Product: o.Product, Made: o.Time.UTC().Truncate(time.Second).Format(time.RFC3339), Tool: o.Tool, Facts: withoutSecrets(o.Facts, known),
		Files: []File{}, LeftOut: []LeftOut{},
	}}
	if err := p.gather(); err != nil {
		return "", "", fmt.Errorf("bundle: %w", err)
	}
	if len(p.entries) == 0 {
		return "", "", fmt.Errorf("bundle: %s holds no file", folder)
	}
	file = filepath.Join(into, fmt.Sprintf("watershed-%s-%s.tar.gz", plainName(o.Product), o.Time.UTC().Format("20060102T150405Z")))
	sum, err = p.write(file)
	if err != nil {
		return "", "", fmt.Errorf("bundle: %w", err)
	}
	return file, sum, nil
}

// withoutSecrets are facts without secrets.
func withoutSecrets(facts map[string]string, known *secrets.Set) map[string]string {
	out := map[string]string{}
	for k, v := range facts {
		if v != "" && secrets.Named(k) {
			v = secrets.Taken
		}
		out[known.String(k)] = known.String(v)
	}
	return out
}

var notPlain = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

func plainName(s string) string {
	return strings.Trim(notPlain.ReplaceAllString(s, "-"), "-.")
}

// packer gathers what goes into a bundle.
type packer struct {
	root     string
	o        Options
	known    *secrets.Set
	manifest Manifest
	entries  []entry
}

func (p *packer) leave(rel string, size int64, sum string, reason Reason, why string, parts ...Part) {
	p.manifest.LeftOut = append(p.manifest.LeftOut, LeftOut{Path: path.Join(RunDir, rel), Size: size, SHA256: sum, Why: why, Reason: reason, Parts: parts})
}

func (p *packer) gather() error {
	return filepath.WalkDir(p.root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(p.root, at)
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(name)
		if d.IsDir() {
			// Beside a run's plan, data is what its brokers worked in.
			if d.Name() == "data" && isThere(filepath.Join(filepath.Dir(at), "run.json")) {
				p.leave(rel, 0, "", Brokers, "the brokers' own folders; what was judged of them is in the logs")
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			p.leave(rel, 0, "", Irregular, "no regular file")
			return nil
		case strings.HasPrefix(d.Name(), "watershed-") && strings.HasSuffix(d.Name(), ".tar.gz"):
			return nil // an older bundle
		case isKeyFile(d.Name()):
			p.leave(rel, info.Size(), "", Keys, "a file for keys or passwords")
			return nil
		}
		return p.file(at, rel, info.Size())
	})
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (p *packer) file(at, rel string, size int64) error {
	e := entry{File: File{Path: path.Join(RunDir, rel), Size: size}, disk: at}
	if isText(rel) {
		if most := cmp.Or(p.o.maxText, maxText); size > most {
			// It was not looked through for secrets, so its checksum is not told either.
			p.leave(rel, size, "", Large, fmt.Sprintf("text of more than %d bytes", most))
			return nil
		}
		e.text = true
		if err := e.seal(p.known); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		p.entries = append(p.entries, e)
		return nil
	}
	secret, sum, err := scan(at, p.known)
	switch {
	case err != nil:
		return err
	case secret:
		p.leave(rel, size, "", Secret, "a secret of the target stands in it")
		return nil
	case size > p.o.MaxFile:
		parts, err := p.parts(at, rel)
		p.leave(rel, size, sum, Large, fmt.Sprintf("more than %d bytes", p.o.MaxFile), parts...)
		return err
	}
	e.SHA256 = sum
	p.entries = append(p.entries, e)
	return nil
}

// scan reads a file once, for its checksum and for secrets.
func scan(at string, known *secrets.Set) (secret bool, sum string, err error) {
	f, err := os.Open(at)
	if err != nil {
		return false, "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	longest := known.Longest()
	h := sha256.New()
	buf := make([]byte, 1<<20+longest)
	kept := 0 // bytes at the start of buf that are of the read before
	for {
		n, err := f.Read(buf[kept:])
		h.Write(buf[kept : kept+n])
		have := buf[:kept+n]
		secret = secret || known.In(have)
		kept = copy(buf, have[max(len(have)-longest, 0):])
		if errors.Is(err, io.EOF) {
			return secret, hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return false, "", err
		}
	}
}

func sumOfBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// write writes the archive; a file that is there already is an error.
func (p *packer) write(file string) (sum string, err error) {
	slices.SortFunc(p.entries, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(p.manifest.LeftOut, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	var sums bytes.Buffer
	for _, e := range p.entries {
		p.manifest.Files = append(p.manifest.Files, e.File)
	}
	manifest, err := p.manifest.encode()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&sums, "%s  %s\n", sumOfBytes(manifest), ManifestFile)
	for _, e := range p.entries {
		fmt.Fprintf(&sums, "%s  %s\n", e.SHA256, e.Path)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	h := sha256.New()
	z := gzip.NewWriter(io.MultiWriter(f, h)) // without name and time
	t := tar.NewWriter(z)
	head := []entry{
		{File: File{Path: SumsFile, Size: int64(sums.Len())}, data: sums.Bytes()},
		{File: File{Path: ManifestFile, Size: int64(len(manifest))}, data: manifest},
	}
	for _, e := range append(head, p.entries...) {
		if err := e.put(t, p.known); err != nil {
			return "", fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	if err := errors.Join(t.Close(), z.Close(), f.Sync()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// put writes one file of the archive: its name and bytes, and nothing of the
// machine that it was made on.
func (e entry) put(t *tar.Writer, known *secrets.Set) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.Path, Size: e.Size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
		return err
	}
	if e.data != nil {
		_, err := t.Write(e.data)
		return err
	}
	was := e.SHA256
	err := e.copy(t, known)
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && e.SHA256 != was {
		return errChanged
	}
	return err
}

var errChanged = errors.New("was changed while it was packed")

// seal finds size and checksum of what will go in: a text is read once for that and
// once more when it is packed, for a run may have many. One that has no secret, as most
// have none, is packed as it lies there: its checksum tells that it still has none.
func (e *entry) seal(known *secrets.Set) error {
	err := e.copy(io.Discard, known)
	e.clean = e.text && e.Redacted == 0
	return err
}

// copy writes the entry from disk, and sets its checksum to that of what it wrote.
func (e *entry) copy(w io.Writer, known *secrets.Set) error {
	h := sha256.New()
	w = io.MultiWriter(w, h)
	defer func() { e.SHA256 = hex.EncodeToString(h.Sum(nil)) }()
	f, err := os.Open(e.disk)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if e.clean {
		_, err = io.Copy(w, f) // to its end: one that grew is another
		return err
	}
	if !e.text {
		_, err = io.Copy(w, io.NewSectionReader(f, e.from, e.Size))
		return err
	}
	size := counter{w, 0}
	e.Redacted, err = redact(&size, f, e.Path, known)
	e.Size = size.n
	return err
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
