package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"watershed.example/chaos"
	"watershed.example/suite/check"
)

// caseFile is what JSON files tell of a case. Integers of 64 bits are strings.
type caseFile struct {
	Seed     uint64   `json:"seed,string"`
	Topology string   `json:"topology"`
	Nodes    int      `json:"nodes"`
	Profile  string   `json:"profile"`
	Defects  []string `json:"defects,omitempty"`
	Plans    []string `json:"plans"`
}

func (c Case) file() caseFile {
	f := caseFile{Seed: c.Seed, Topology: c.Topology, Nodes: c.Nodes, Profile: string(c.Profile), Defects: c.Defects, Plans: []string{}}
	for _, p := range c.Faults.Links {
		f.Plans = append(f.Plans, p.String())
	}
	for _, p := range c.Faults.Nodes {
		f.Plans = append(f.Plans, p.String())
	}
	return f
}

// read is the case of a file. What can't be played is an error.
func (f caseFile) read() (Case, error) {
	c := Case{Seed: f.Seed, Topology: f.Topology, Nodes: f.Nodes, Profile: check.Profile(f.Profile), Defects: f.Defects}
	if c.Profile != check.ProfileV42 && c.Profile != check.ProfileLatest {
		return c, fmt.Errorf("unknown profile %q", f.Profile)
	}
	if len(f.Plans) > 0 {
		var err error
		if c.Faults, err = chaos.ParseSeveral(strings.Join(f.Plans, chaos.Between)); err != nil {
			return c, err
		}
	}
	_, err := c.Scenario()
	return c, err
}

// encodeFile is a file's content, as people read it.
func encodeFile(f any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // links are named A->B
	e.SetIndent("", "  ")
	err := e.Encode(f)
	return out.Bytes(), err
}

// writeWhole writes a file, and its folder where that is not there, whole or not at all.
func writeWhole(path string, data []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".part", data, 0o644)
	}
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	return err
}
