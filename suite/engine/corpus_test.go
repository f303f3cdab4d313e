package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/suite/check"
	"watershed.example/suite/engine/explore"
)

func TestAnEntryIsReadBack(t *testing.T) {
	all := cases()
	rapid.Check(t, func(t *rapid.T) {
		e := explore.Entry[Case]{Case: all.Draw(t, "case"), First: []string{"settled | node down | reached", "writable | well | write on destination answered 45"}}
		if rapid.Bool().Draw(t, "defect") {
			e.Case.Defects = []string{"no-barrier", "wrong-source-id@B"}
		}
		data, err := encodeEntry(e)
		require.NoError(t, err)
		got, err := decodeEntry(data)
		require.NoError(t, err, "%s", data)
		require.Equal(t, e, got)
	})
}

func TestACorpusIsAFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "corpus")
	c, err := LoadCorpus(folder)
	require.NoError(t, err, "there is none yet")
	require.Empty(t, c.Entries)
	require.NoDirExists(t, folder)

	ways := Ways(1<<63, check.ProfileV42)
	for _, w := range ways {
		path, err := c.Add(explore.Entry[Case]{Case: w, First: []string{w.key()}})
		require.NoError(t, err)
		require.FileExists(t, path)
	}
	broken := ways[0]
	broken.Defects = []string{"no-barrier"}
	path, err := c.Add(explore.Entry[Case]{Case: broken, First: []string{"x"}})
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(data), `"seed": "9223372036854775808"`, "64 bits are a string")

	// What was half written when somebody pulled the plug is no entry, and what people put
	// beside it is theirs.
	require.NoError(t, os.WriteFile(filepath.Join(folder, "half.json.part"), []byte(`{"ver`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "README"), []byte("mine"), 0o644))
	again, err := LoadCorpus(folder)
	require.NoError(t, err)
	require.ElementsMatch(t, c.Entries, again.Entries)
	require.Len(t, again.Of(check.ProfileV42, nil), len(ways))
	require.Len(t, again.Of(check.ProfileV42, []string{"no-barrier"}), 1)
	require.Empty(t, again.Of(check.ProfileLatest, nil))
}

func TestACorpusThatIsWrongIsNamed(t *testing.T) {
	good := `{"version": 1, "seed": "7", "topology": "active-passive", "nodes": 1, "profile": "kip1279-v42", "plans": ["reset link=A->B at=before:settled"], "first": ["x"]}`
	_, err := decodeEntry([]byte(good))
	require.NoError(t, err)
	for _, k := range [][3]string{
		{`"version": 1`, `"version": 2, "colour": "red"`, "version 2, want 1"},
		{`"version": 1, `, ``, "version 0, want 1"},
		{`"seed": "7"`, `"seed": 7`, "unquoted value into uint64"},
		{`active-passive`, `moebius`, `topology "moebius"`},
		{`kip1279-v42`, `kip1279-v1`, `unknown profile "kip1279-v1"`},
		{`reset link`, `melt link`, `unknown fault "melt"`},
		{`A->B`, `B->A`, "no stop of topology active-passive has it"},
		{`"first": ["x"]`, `"first": []`, "showed something first"},
		{`"nodes"`, `"colour": "red", "nodes"`, "colour"},
		{`]}`, ``, "unexpected end"},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "entry.json")
		text := []byte(strings.Replace(good, k[0], k[1], 1))
		require.NoError(t, os.WriteFile(path, text, 0o644))
		_, err := LoadCorpus(folder)
		require.ErrorContains(t, err, k[2])
		require.ErrorContains(t, err, path)
		require.NotContains(t, err.Error(), "\n")
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, left, "it is left as it was")
	}
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "c"), 0o755))
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err = LoadCorpus(file)
	require.ErrorContains(t, err, file)
	c := Corpus{Folder: file}
	_, err = c.Add(explore.Entry[Case]{Case: Ways(1, check.ProfileV42)[0], First: []string{"x"}})
	require.ErrorContains(t, err, file)
}
