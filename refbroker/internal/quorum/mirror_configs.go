package quorum

import (
	"fmt"
	"maps"
)

// AlterMirror changes configs of a mirror that runs.
type AlterMirror struct {
	Name  string            `json:"name"`
	Set   map[string]string `json:"set,omitempty"`
	Unset []string          `json:"unset,omitempty"`
}

// Kind names the command.
func (AlterMirror) Kind() (string, int) { return "AlterMirror", 1 }

func (c AlterMirror) apply(img *Image) (*Image, any, error) {
	m, ok := img.Mirrors[c.Name]
	if !ok {
		return nil, nil, fmt.Errorf("mirror %q: %w", c.Name, ErrNoMirror)
	}
	next := *m
	next.Configs = c.After(m.Configs)
	if maps.Equal(next.Configs, m.Configs) {
		return img, nil, nil
	}
	return img.withMirror(&next), nil, nil
}

// After is what the command makes of configs.
func (c AlterMirror) After(configs map[string]string) map[string]string {
	next := maps.Clone(configs)
	if next == nil {
		next = map[string]string{}
	}
	maps.Copy(next, c.Set)
	for _, name := range c.Unset {
		delete(next, name)
	}
	return next
}
