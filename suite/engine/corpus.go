package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"watershed.example/suite/check"
	"watershed.example/suite/engine/explore"
)

// CorpusVersion is the version of the files of a corpus. It is another one whenever
// [Features] have other names: what files say was shown would be taken for unseen.
const CorpusVersion = 1

// entryFile is the JSON of one entry.
type entryFile struct {
	Version int `json:"version"`
	caseFile
	// First are the features that no entry before it had shown.
	First []string `json:"first"`
}

// Corpus is a folder with a file for each entry.
type Corpus struct {
	Folder  string
	Entries []explore.Entry[Case]
}

// entrySuffix ends the names of a corpus's files.
const entrySuffix = ".json"

// LoadCorpus reads a folder, which need not be there. A file that can't be read, or is of
// another version, is an error that names it: nothing is passed over, and nothing is
// written before all was read.
func LoadCorpus(folder string) (Corpus, error) {
	c := Corpus{Folder: folder}
	files, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("corpus: %w", err)
	}
	for _, f := range files {
		if f.IsDir() || !strings.HasSuffix(f.Name(), entrySuffix) {
			continue // what was half written, and whatever people put beside it
		}
		path := filepath.Join(folder, f.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return c, fmt.Errorf("corpus: %w", err)
		}
		e, err := decodeEntry(data)
		if err != nil {
			return c, fmt.Errorf("corpus: %s: %w", path, err)
		}
		c.Entries = append(c.Entries, e)
	}
	return c, nil
}

// Of are the entries that were seen in a profile, and with brokers that are wrong in the
// same ways: what others show is not what is sought.
func (c Corpus) Of(profile check.Profile, defects []string) []explore.Entry[Case] {
	return slices.DeleteFunc(slices.Clone(c.Entries), func(e explore.Entry[Case]) bool {
		return e.Case.Profile != profile || !slices.Equal(e.Case.Defects, defects)
	})
}

// Add writes an entry, whole or not at all, and returns its file. The name says what is in
// it, so that no entry takes another's place.
func (c *Corpus) Add(e explore.Entry[Case]) (path string, err error) {
	data, err := encodeEntry(e)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(e.Case.key()))
	path = filepath.Join(c.Folder, fmt.Sprintf("%s-%x%s", e.Case.Topology, sum[:8], entrySuffix))
	if err := writeWhole(path, data); err != nil {
		return "", fmt.Errorf("corpus: %w", err)
	}
	c.Entries = append(c.Entries, e)
	return path, nil
}

// key tells cases apart.
func (c Case) key() string {
	return fmt.Sprintf("%s nodes=%d seed=%d profile=%s defects=%s", c.Flags(), max(c.Nodes, 1), c.Seed, c.Profile, strings.Join(c.Defects, ","))
}

func encodeEntry(e explore.Entry[Case]) ([]byte, error) {
	f := entryFile{Version: CorpusVersion, caseFile: e.Case.file(), First: e.First}
	f.Nodes = max(f.Nodes, 1)
	data, err := encodeFile(f)
	if err != nil {
		return nil, fmt.Errorf("encode an entry of a corpus: %w", err)
	}
	return data, nil
}

func decodeEntry(data []byte) (explore.Entry[Case], error) {
	var e explore.Entry[Case]
	var version struct {
		Version int `json:"version"`
	}
	// Another version may have other fields: that is said, not which of them.
	if err := json.Unmarshal(data, &version); err != nil {
		return e, err
	}
	if version.Version != CorpusVersion {
		return e, fmt.Errorf("version %d, want %d: give -corpus another folder, or remove the file", version.Version, CorpusVersion)
	}
	var f entryFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return e, err
	}
	if len(f.First) == 0 || !slices.IsSorted(f.First) {
		return e, errors.New("an entry has showed something first, in order")
	}
	var err error
	e.First = f.First
	e.Case, err = f.read()
	return e, err
}
