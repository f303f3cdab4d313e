package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"watershed.example/fixtures"
	"watershed.example/fixtures/target"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
)

// FoundFile is the file in a run's folder that says on which clusters it was played.
const FoundFile = "target.json"

// foundVersion is the version of that file.
const foundVersion = 1

// Found is what a certification was about: the target as its file describes it, without
// secrets, the clusters as they answered, and what was asked. What can be played follows
// from it, and so does which requirements a target can't show.
type Found struct {
	Version int    `json:"version"`
	Seed    uint64 `json:"seed,string"`
	// Asked is the level that had to be passed, "" for as far as the target goes.
	Asked string `json:"asked,omitempty"`
	// Chosen says that only some scenarios were to be played, and no level was out for.
	Chosen bool             `json:"chosen,omitempty"`
	Target target.Described `json:"target"`
	// Clusters are those of the target, in its order.
	Clusters []FoundCluster `json:"clusters"`
}

// FoundCluster is a cluster as it answered.
type FoundCluster struct {
	Name    string        `json:"name"`
	ID      string        `json:"id"`
	Brokers []FoundBroker `json:"brokers"`
	// Features are those of ApiVersions, with their finalized levels.
	Features map[string]int16 `json:"features"`
	// Requests are the keys of the requests that it serves.
	Requests []int16 `json:"requests"`
}

// FoundBroker is a broker as its cluster gives it out.
type FoundBroker struct {
	ID      int32  `json:"id"`
	Address string `json:"address"`
}

// found is what the certification is about, once its target was looked at.
func (c Certification) found(t *Target) *Found {
	f := &Found{Version: foundVersion, Seed: c.Seed, Chosen: c.Scenarios != nil, Target: t.file.Described()}
	if c.Level != nil {
		f.Asked = c.Level.String()
	}
	for i, s := range t.seen {
		own := FoundCluster{Name: t.file.Clusters[i].Name, ID: s.ID, Brokers: []FoundBroker{}, Features: s.Features, Requests: append([]int16{}, s.Keys...)}
		for _, b := range s.Brokers {
			own.Brokers = append(own.Brokers, FoundBroker(b))
		}
		f.Clusters = append(f.Clusters, own)
	}
	return f
}

func (f *Found) save(folder string) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", FoundFile, err)
	}
	if err := os.WriteFile(filepath.Join(folder, FoundFile), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("say which clusters are certified: %w", err)
	}
	return nil
}

// LoadFound reads what a certification in a run's folder was about; nil where it was none.
func LoadFound(folder string) (*Found, error) {
	path := filepath.Join(folder, FoundFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := ReadFound(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// ReadFound reads what that file holds.
func ReadFound(data []byte) (*Found, error) {
	var f Found
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	return &f, f.validate()
}

func (f *Found) validate() error {
	switch {
	case f.Version != foundVersion:
		return fmt.Errorf("version %d, only %d is read", f.Version, foundVersion)
	case len(f.Clusters) == 0 || len(f.Clusters) != len(f.Target.Clusters):
		return fmt.Errorf("clusters: %d answered, the target has %d", len(f.Clusters), len(f.Target.Clusters))
	case !slices.Contains(target.Profiles, f.Target.Profile):
		return fmt.Errorf("target.profile %q: want one of %s", f.Target.Profile, strings.Join(target.Profiles, ", "))
	case f.Target.Mirroring != nil && !slices.Contains(target.Adapters, f.Target.Mirroring.Adapter):
		return fmt.Errorf("target.mirroring.adapter %q: want one of %s", f.Target.Mirroring.Adapter, strings.Join(target.Adapters, ", "))
	}
	if _, err := contract.ParseLevel(f.Target.Level); err != nil {
		return fmt.Errorf("target.level: %w", err)
	}
	if f.Asked != "" {
		if _, err := contract.ParseLevel(f.Asked); err != nil {
			return fmt.Errorf("asked: %w", err)
		}
	}
	for i, c := range f.Clusters {
		if c.Name != f.Target.Clusters[i].Name {
			return fmt.Errorf("clusters[%d].name %q: the target has %q there", i, c.Name, f.Target.Clusters[i].Name)
		}
	}
	return nil
}

// target is the target as it was found, to ask what can be played on it; nothing can be
// played on this one.
func (f *Found) target() *Target {
	t := &Target{file: f.Target.Target(), run: runOf(f.Seed)}
	for _, c := range f.Clusters {
		s := fixtures.Seen{ID: c.ID, Features: c.Features, Keys: c.Requests}
		for _, b := range c.Brokers {
			s.Brokers = append(s.Brokers, fixtures.SeenBroker(b))
		}
		t.seen = append(t.seen, s)
	}
	return t
}

// runOf tells the names of a certification from those of others.
func runOf(seed uint64) string { return strconv.FormatUint(seed, 36) }

// level is the one that was asked for, nil for none.
func (f *Found) level() *contract.Level {
	if l, err := contract.ParseLevel(f.Asked); err == nil {
		return &l
	}
	return nil
}

// Profile is the text of KIP-1279 that the target follows.
func (f *Found) Profile() check.Profile { return check.Profile(f.Target.Profile) }

// Facts are what is known of the product and of what was asked, each in a line.
func (f *Found) Facts() map[string]string {
	facts := map[string]string{
		"launcher": "external", "profile": f.Target.Profile, "seed": strconv.FormatUint(f.Seed, 10), "adapter": "none",
		"level": cmp.Or(f.Asked, "as far as the target goes, "+f.Target.Level+" at the most"),
	}
	if f.Chosen {
		facts["level"] = "none: scenarios were chosen"
	}
	if m := f.Target.Mirroring; m != nil {
		facts["adapter"] = m.Adapter
	}
	for i, c := range f.Clusters {
		said := f.Target.Clusters[i]
		var brokers, features []string
		for _, b := range c.Brokers {
			brokers = append(brokers, fmt.Sprintf("%d at %s", b.ID, b.Address))
		}
		for _, name := range slices.Sorted(maps.Keys(c.Features)) {
			features = append(features, fmt.Sprintf("%s=%d", name, c.Features[name]))
		}
		tls := "off"
		switch {
		case said.TLS != nil && said.TLS.Insecure:
			tls = "on, certificates are not verified"
		case said.TLS != nil && said.TLS.Client:
			tls = "on, with a certificate of the client's"
		case said.TLS != nil:
			tls = "on"
		}
		for what, v := range map[string]string{
			"id": c.ID, "brokers": strings.Join(brokers, ", "), "features": cmp.Or(strings.Join(features, ", "), "none"),
			"requests": strings.Trim(fmt.Sprint(c.Requests), "[]"), "tls": tls, "sasl": cmp.Or(said.SASL, "off"),
		} {
			facts["cluster."+c.Name+"."+what] = v
		}
	}
	return facts
}
