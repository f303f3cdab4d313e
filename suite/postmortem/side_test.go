package postmortem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What can't be compared is no all-clear: whoever gave a wrong folder hears which.
func TestFoldersThatCantBeMeant(t *testing.T) {
	whole := join(shared(), onward())
	tests := []struct {
		name string
		b    func(t *testing.T, root, a string) []string // the second side's folders
		want string
	}{
		{"an empty one", func(t *testing.T, root, _ string) []string {
			dir := filepath.Join(root, "b")
			require.NoError(t, os.Mkdir(dir, 0o755))
			return []string{dir}
		}, "side B: ROOT/b has no TOPIC-PARTITION folder with segments"},
		{"an empty one among others", func(t *testing.T, root, _ string) []string {
			dir := filepath.Join(root, "c")
			require.NoError(t, os.Mkdir(dir, 0o755))
			return []string{write(t, root, "b", "orders-0", whole), dir}
		}, "side B: ROOT/c has no TOPIC-PARTITION folder with segments"},
		{"a name that is no partition's", func(t *testing.T, root, _ string) []string {
			return []string{write(t, root, "b", "orders", whole)}
		}, "side B: ROOT/b has no TOPIC-PARTITION folder with segments (00000000000000000000.log): ROOT/b/orders holds segments, and its name is no TOPIC-PARTITION"},
		{"internal topics alone", func(t *testing.T, root, _ string) []string {
			return []string{write(t, root, "b", "__consumer_offsets-0", whole)}
		}, "side B: ROOT/b: no TOPIC-PARTITION folder with segments but those of internal topics"},
		{"another cluster's", func(t *testing.T, root, _ string) []string {
			return []string{write(t, root, "b", "bills-0", whole)}
		}, "side A: ROOT/a: no partition is in the folders of another side too"},
		{"one above the first side's", func(t *testing.T, root, _ string) []string {
			write(t, root, "b", "orders-0", whole)
			return []string{root}
		}, "side A: folder ROOT/a lies in ROOT, which is given to side B: its files would count twice"},
		{"one within the first side's", func(_ *testing.T, _, a string) []string {
			return []string{filepath.Join(a, "orders-0")}
		}, "side B: folder ROOT/a/orders-0 lies in ROOT/a, which is given to side A"},
		{"one within, by a link", func(t *testing.T, root, a string) []string {
			require.NoError(t, os.Symlink(filepath.Join(a, "orders-0"), filepath.Join(root, "orders-0")))
			return []string{filepath.Join(root, "orders-0")}
		}, "side B: folder ROOT/orders-0 lies in ROOT/a, which is given to side A"},
		{"the first side's", func(_ *testing.T, _, a string) []string { return []string{a} }, "side B: folder ROOT/a is given twice, to side A too"},
		{"nested ones", func(t *testing.T, root, _ string) []string {
			dir := write(t, root, "b", "orders-0", whole)
			return []string{filepath.Join(dir, "orders-0"), dir}
		}, "side B: folder ROOT/b/orders-0 lies in ROOT/b, which is given to side B"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			a := write(t, root, "a", "orders-0", whole)
			_, err = Judge(t.Context(), []Side{{Name: "A", Folders: []string{a}}, {Name: "B", Folders: test.b(t, root, a)}}, Options{})
			require.ErrorContains(t, err, strings.ReplaceAll(test.want, "ROOT", root))
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// A folder whose name begins with another's does not lie in it, and a broker may have
// internal topics alone.
func TestFoldersThatMayBeGiven(t *testing.T) {
	root := t.TempDir()
	whole := join(shared(), onward())
	judged(t,
		Side{Name: "A", Folders: []string{write(t, root, "a", "orders-0", whole)}},
		Side{Name: "B", Folders: []string{write(t, root, "a2", "orders-0", whole), write(t, root, "..b", "__transaction_state-0", whole)}})
}

func TestClusterIDsThatAreSaid(t *testing.T) {
	for text, ok := range map[string]bool{
		"A=/a": true, "A@" + idA + "=/a": true, "A@redpanda.1f0e9a5c-8c6f-4d1c-9d8f-3f9a1c2b4d5e=/a": true, "A@xx=/a": true,
		"A@=/a": false, "A@ =/a": false, "A@x y=/a": false, "A@x\n=/a": false, "A@\x00=/a": false, "A@\xff=/a": false,
	} {
		_, err := ParseSide(text)
		require.Equal(t, ok, err == nil, "%q: %v", text, err)
		if err != nil {
			require.Contains(t, err.Error(), "can't be a cluster id")
			require.NotContains(t, err.Error(), "\n")
		}
	}
}

// An id that nothing in the files bears out is told as such.
func TestAClusterIDThatNoBarrierNames(t *testing.T) {
	tests := []struct{ name, id, file, want string }{
		{"the barrier's", idA, "", "given"},
		{"another", "xx", "", "given; no barrier names it, and they name " + idA + ", which is no side's: if it is mistyped, what is found here is too little"},
		{"one that was never mirrored", "xx", "", "given; no barrier names it"},
		{"another than the broker's", "xx", idA, "given, though FILE says " + idA + "; no barrier names it, and they name " + idA + ", which is no side's: if it is mistyped, what is found here is too little"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			a := write(t, root, "a", "orders-0", join(shared(), onward()))
			b := write(t, root, "b", "orders-0", join(shared(), []spec{reset(1, idA)}, local(1)))
			if test.file != "" {
				put(t, a, metaFile, "cluster.id="+test.file+"\n")
			}
			sides := []Side{{Name: "A", ClusterID: test.id, Folders: []string{a}}, {Name: "B", Folders: []string{b}}}
			side := 0
			if strings.Contains(test.name, "never mirrored") {
				sides[0].ClusterID, sides[1].ClusterID, side = idA, test.id, 1
			}
			require.Equal(t, strings.ReplaceAll(test.want, "FILE", filepath.Join(a, metaFile)), judged(t, sides...).Sides[side].ClusterIDBy)
		})
	}
}
