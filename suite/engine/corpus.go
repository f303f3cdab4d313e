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

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/suite/engine/explore"
)

// CorpusVersion is the version of the files of a corpus. It is another one whenever
// [Features] have other names: what files say was shown would be taken for unseen.
const CorpusVersion = 1

// entryFile is the JSON of one entry. Integers of 64 bits are strings.
type entryFile struct {
	Version  int      `json:"version"`
	Seed     uint64   `json:"seed,string"`
	Topology string   `json:"topology"`
	Nodes    int      `json:"nodes"`
	Profile  string   `json:"profile"`
	Defects  []string `json:"defects,omitempty"`
	Plans    []string `json:"plans"`
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
	if err = os.MkdirAll(c.Folder, 0o755); err == nil {
		err = os.WriteFile(path+".part", data, 0o644)
	}
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
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
	c := e.Case
	f := entryFile{
		Version: CorpusVersion, Seed: c.Seed, Topology: c.Topology, Nodes: max(c.Nodes, 1), Profile: string(c.Profile), Defects: c.Defects,
		Plans: c.plans(), First: e.First,
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // links are named A->B
	enc.SetIndent("", "  ")
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("encode an entry of a corpus: %w", err)
	}
	return out.Bytes(), nil
}

// plans are the lines of the case's faults.
func (c Case) plans() []string {
	lines := []string{}
	for _, p := range c.Faults.Links {
		lines = append(lines, p.String())
	}
	for _, p := range c.Faults.Nodes {
		lines = append(lines, p.String())
	}
	return lines
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
	e.First = f.First
	e.Case = Case{Seed: f.Seed, Topology: f.Topology, Nodes: f.Nodes, Profile: check.Profile(f.Profile), Defects: f.Defects}
	if len(f.Plans) > 0 {
		var err error
		if e.Case.Faults, err = chaos.ParseSeveral(strings.Join(f.Plans, chaos.Between)); err != nil {
			return e, err
		}
	}
	if p := e.Case.Profile; p != check.ProfileV42 && p != check.ProfileLatest {
		return e, fmt.Errorf("unknown profile %q", p)
	}
	if len(e.First) == 0 || !slices.IsSorted(e.First) {
		return e, errors.New("an entry has showed something first, in order")
	}
	_, err := e.Case.Scenario()
	return e, err
}
