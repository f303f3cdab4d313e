package postmortem

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Side is one cluster's folders.
type Side struct {
	Name string
	// Folders are those of its brokers: a log directory with TOPIC-PARTITION
	// folders in it, or above several of them, or one such folder.
	Folders []string
	// ClusterID is the cluster's id, empty where nobody said it.
	ClusterID string
}

// ParseSide reads NAME=FOLDER,FOLDER… or NAME@CLUSTERID=FOLDER….
func ParseSide(text string) (Side, error) {
	name, list, ok := strings.Cut(text, "=")
	name, id, said := strings.Cut(name, "@")
	if !ok || name == "" {
		return Side{}, fmt.Errorf("%q: want NAME=FOLDER,FOLDER…, as in A=/copies/broker-1,/copies/broker-2", text)
	}
	if said && !clusterID(id) {
		return Side{}, fmt.Errorf("%q: %q can't be a cluster id, such as o5jt3v-4S1Sc3Mw97_PqJw: it is empty, or has blanks or control characters", text, id)
	}
	s := Side{Name: name, ClusterID: id}
	for f := range strings.SplitSeq(list, ",") {
		if f != "" {
			s.Folders = append(s.Folders, f)
		}
	}
	if len(s.Folders) == 0 {
		return Side{}, fmt.Errorf("%q names no folder", text)
	}
	return s, nil
}

// clusterID says whether a text can be one. Kafka's is an UUID in base64, but those of
// other products are not: redpanda.1f0e9a5c-….
func clusterID(text string) bool {
	return text != "" && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
}

// root is one folder that was given.
type root struct {
	side   int
	folder string // as it was given
	at     string // without links
	abs    string
}

// resolve finds where the sides' folders are. No folder may be, or lie in, another
// one: what lies in both would be taken for two replicas, or for one of another side.
func resolve(sides []Side) ([]root, error) {
	var roots []root
	for i, s := range sides {
		for _, folder := range s.Folders {
			at, err := filepath.EvalSymlinks(folder)
			if err != nil {
				return nil, fmt.Errorf("side %s: %w", s.Name, err)
			}
			info, err := os.Stat(at)
			if err != nil {
				return nil, fmt.Errorf("side %s: %w", s.Name, err)
			}
			if !info.IsDir() {
				return nil, fmt.Errorf("side %s: %s is no folder", s.Name, folder)
			}
			abs, err := filepath.Abs(at)
			if err != nil {
				return nil, fmt.Errorf("side %s: %w", s.Name, err)
			}
			r := root{side: i, folder: folder, at: at, abs: abs}
			for _, other := range roots {
				if err := apart(sides, other, r); err != nil {
					return nil, err
				}
			}
			roots = append(roots, r)
		}
	}
	return roots, nil
}

// apart says what two folders have in common that they must not.
func apart(sides []Side, a, b root) error {
	if a.abs == b.abs {
		return fmt.Errorf("side %s: folder %s is given twice, to side %s too", sides[b.side].Name, b.folder, sides[a.side].Name)
	}
	if within(b.abs, a.abs) {
		a, b = b, a
	}
	if within(a.abs, b.abs) {
		return fmt.Errorf("side %s: folder %s lies in %s, which is given to side %s: its files would count twice", sides[a.side].Name, a.folder, b.folder, sides[b.side].Name)
	}
	return nil
}

// within says whether a folder lies in another one.
func within(inner, outer string) bool {
	rel, err := filepath.Rel(outer, inner)
	return err == nil && filepath.IsLocal(rel)
}

// comparable says which side has nothing that can be compared with another's. A
// mirror has its source's names.
func (f *found) comparable(sides []Side) error {
	of := map[string][]int{} // partition to the sides that have it
	some := make([]bool, len(sides))
	for _, r := range f.replicas {
		name := fmt.Sprintf("%s-%d", r.topic, r.partition)
		some[r.side] = true
		if !slices.Contains(of[name], r.side) {
			of[name] = append(of[name], r.side)
		}
	}
	shares := make([]bool, len(sides))
	for _, has := range of {
		for _, side := range has {
			shares[side] = shares[side] || len(has) > 1
		}
	}
	for i, s := range sides {
		if !some[i] {
			return fmt.Errorf("side %s: %s: no TOPIC-PARTITION folder with segments but those of internal topics", s.Name, strings.Join(s.Folders, ", "))
		}
	}
	for i, s := range sides {
		if len(sides) > 1 && !shares[i] {
			return fmt.Errorf("side %s: %s: no partition is in the folders of another side too, so that nothing can be compared; judge it alone, or give the right folder", s.Name, strings.Join(s.Folders, ", "))
		}
	}
	return nil
}
