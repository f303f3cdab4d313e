package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Format and Version say what a manifest is.
const (
	Format  = "watershed-bundle"
	Version = 1
)

// Names within a bundle.
const (
	ManifestFile = "manifest.json"
	SumsFile     = "SHA256SUMS"
	// RunDir holds the run's folder as it was, but for what was left out.
	RunDir = "run"
)

// Manifest says what a bundle is and what is in it.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Product is what was certified, with its version.
	Product string `json:"product"`
	Made    string `json:"made"` // RFC 3339
	Tool    string `json:"tool"` // the watershed that made it
	// Facts are what else was said of the product or the run.
	Facts   map[string]string `json:"facts,omitempty"`
	Files   []File            `json:"files"`
	LeftOut []LeftOut         `json:"leftOut"`
}

// File is one file of the bundle.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size,string"`
	SHA256 string `json:"sha256"`
	// Redacted counts places where a secret was taken out.
	Redacted int `json:"redacted,omitempty"`
}

// LeftOut is a file, or a folder, of the run that is not in the bundle, or not whole.
type LeftOut struct {
	Path   string `json:"path"`
	Size   int64  `json:"size,string"`
	SHA256 string `json:"sha256,omitempty"`
	Why    string `json:"why"`
	Reason Reason `json:"reason"`
	// Parts are files with the bytes around findings, of a log that is too large.
	Parts []Part `json:"parts,omitempty"`
}

// Reason is why something was left out, for programs.
type Reason string

// The reasons.
const (
	Brokers   Reason = "brokers"   // the brokers' own folders, of which nothing is judged
	Keys      Reason = "keys"      // a file for keys or passwords
	Irregular Reason = "irregular" // no regular file
	Large     Reason = "large"
	Secret    Reason = "secret" // a secret stands in it
)

// Lacks says whether something is missing, or was changed, of what verdicts on the
// evidence in a folder of the bundle rest on.
func (m *Manifest) Lacks(folder string) bool {
	within := func(path string) bool { return strings.HasPrefix(path, folder+"/") }
	return slices.ContainsFunc(m.LeftOut, func(l LeftOut) bool { return l.Reason != Brokers && l.Reason != Keys && within(l.Path) }) ||
		slices.ContainsFunc(m.Files, func(f File) bool { return f.Redacted > 0 && path.Ext(f.Path) == ".jsonl" && within(f.Path) })
}

// Part is a piece of a file that was left out.
type Part struct {
	Path     string `json:"path"`
	Position int64  `json:"position,string"` // of its first byte in the file
}

func (m *Manifest) encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return append(data, '\n'), nil
}

func decode(data []byte) (*Manifest, error) {
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	switch {
	case m.Format != Format:
		return nil, fmt.Errorf("%s: format %q, want %q", ManifestFile, m.Format, Format)
	case m.Version != Version:
		return nil, fmt.Errorf("%s: version %d, only %d is read", ManifestFile, m.Version, Version)
	case m.Product == "":
		return nil, errors.New(ManifestFile + ": no product")
	}
	if _, err := time.Parse(time.RFC3339, m.Made); err != nil {
		return nil, fmt.Errorf("%s: made: %w", ManifestFile, err)
	}
	return &m, nil
}
