package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/afero"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// notInFiles are the flags that belong to one start of a process.
var notInFiles = []string{"config", "help", "ready-fd", "lifeline-fd"}

// fromFile gives flags the values that a file has for them: YAML, a mapping of
// flags' names. The command line goes before the file: flags that it has given
// keep what they have.
func fromFile(fs afero.Fs, path string, flags *pflag.FlagSet) error {
	in, err := fs.Open(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	var doc yaml.Node
	decoder := yaml.NewDecoder(in)
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // nothing but comments
		}
		return fmt.Errorf("--config %s: %w", path, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("--config %s: want one document", path)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("--config %s:%d: want a mapping of flags to values", path, root.Line)
	}
	seen := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("--config %s:%d: %q", path, key.Line, key.Value)
		flag := flags.Lookup(key.Value)
		switch before, twice := seen[key.Value]; {
		case flag == nil:
			return fmt.Errorf("%s: no such flag", at)
		case slices.Contains(notInFiles, key.Value):
			return fmt.Errorf("%s: belongs on the command line", at)
		case twice:
			return fmt.Errorf("%s: given before, in line %d", at, before)
		}
		seen[key.Value] = key.Line
		if flag.Changed {
			continue
		}
		values, err := valuesOf(flag, value)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		for _, v := range values {
			if err := flag.Value.Set(v); err != nil {
				return fmt.Errorf("%s: value %q: %w", at, v, err)
			}
		}
	}
	return nil
}

// valuesOf are the values of a flag: one, or for a flag that may be repeated
// those of a list, or of a mapping, as KEY=VALUE.
func valuesOf(flag *pflag.Flag, n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	_, repeatable := flag.Value.(pflag.SliceValue)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, errors.New("no value")
	case n.Kind == yaml.ScalarNode:
		return []string{n.Value}, nil
	case !repeatable:
		return nil, errors.New("want one value")
	}
	var values []string
	for i, item := range n.Content {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return nil, fmt.Errorf("line %d: want a list of values, or a mapping", item.Line)
		}
		switch {
		case n.Kind == yaml.SequenceNode:
			values = append(values, item.Value)
		case i%2 == 1:
			values = append(values, n.Content[i-1].Value+"="+item.Value)
		}
	}
	return values, nil
}
