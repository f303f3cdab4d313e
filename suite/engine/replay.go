package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"watershed.example/suite/contract"
)

// ReplayVersion is the version of the files that [Replay] is.
const ReplayVersion = 1

// Replay is a file that one command plays: a case, and what was seen of it.
type Replay struct {
	Case
	// Launcher is how it was seen; any may play it.
	Launcher string
	// Requirement is what the case was seen to violate; "" for nothing.
	Requirement string
	// Seen of Tries times it was violated: faults strike at their points, but what
	// goes on beside them is the scheduler's.
	Seen, Tries int
}

// replayFile is the file's JSON.
type replayFile struct {
	Version int `json:"version"`
	caseFile
	Launcher    string `json:"launcher,omitempty"`
	Requirement string `json:"requirement,omitempty"`
	Seen        int    `json:"seen,omitempty"`
	Tries       int    `json:"tries,omitempty"`
}

// Encode is the file's content.
func (r Replay) Encode() ([]byte, error) {
	data, err := encodeFile(replayFile{
		Version: ReplayVersion, caseFile: r.file(), Launcher: r.Launcher, Requirement: r.Requirement, Seen: r.Seen, Tries: r.Tries,
	})
	if err != nil {
		return nil, fmt.Errorf("encode a replay: %w", err)
	}
	return data, nil
}

// DecodeReplay reads a file's content. What can't be played is an error.
func DecodeReplay(data []byte) (Replay, error) {
	var f replayFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return Replay{}, fmt.Errorf("replay: %w", err)
	}
	_, known := contract.Get(f.Requirement)
	switch {
	case f.Version != ReplayVersion:
		return Replay{}, fmt.Errorf("replay: version %d, want %d", f.Version, ReplayVersion)
	case d.More():
		return Replay{}, errors.New("replay: there is more behind it")
	case f.Requirement != "" && !known:
		return Replay{}, fmt.Errorf("replay: unknown requirement %q", f.Requirement)
	}
	for _, defect := range f.Defects {
		if name, _, _ := strings.Cut(defect, "@"); !slices.Contains(KnownDefects(), name) {
			return Replay{}, fmt.Errorf("replay: unknown defect %q", defect)
		}
	}
	c, err := f.read()
	if err != nil {
		return Replay{}, fmt.Errorf("replay: %w", err)
	}
	return Replay{Case: c, Launcher: f.Launcher, Requirement: f.Requirement, Seen: f.Seen, Tries: f.Tries}, nil
}

// LoadReplay reads a file.
func LoadReplay(path string) (Replay, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Replay{}, fmt.Errorf("replay: %w", err)
	}
	r, err := DecodeReplay(data)
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Save writes a file, whole or not at all.
func (r Replay) Save(path string) error {
	data, err := r.Encode()
	if err == nil {
		err = writeWhole(path, data)
	}
	if err != nil {
		return fmt.Errorf("save a replay: %w", err)
	}
	return nil
}
