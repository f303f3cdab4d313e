package postmortem

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Saved evidence of runs that were held must not give a finding that is certain,
// or likely: WATERSHED_POSTMORTEM_EVIDENCE=out/latest, of a run with -keep. One
// scenario has a broker that writes its barrier over open transactions.
func TestHealthyEvidenceGivesNoAlarm(t *testing.T) {
	root := os.Getenv("WATERSHED_POSTMORTEM_EVIDENCE")
	if root == "" {
		t.Skip("set WATERSHED_POSTMORTEM_EVIDENCE to the folder of a run that was held, with -keep")
	}
	root, err := filepath.EvalSymlinks(root)
	require.NoError(t, err)
	judgedFolders := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "logs" {
			return err
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "run.json")); err != nil {
			return fs.SkipDir // a broker's own folder
		}
		var sides []Side
		clusters, err := os.ReadDir(path)
		require.NoError(t, err)
		for _, c := range clusters {
			nodes, err := filepath.Glob(filepath.Join(path, c.Name(), "*"))
			require.NoError(t, err)
			if len(nodes) > 0 {
				sides = append(sides, Side{Name: c.Name(), Folders: nodes})
			}
		}
		if len(sides) == 0 {
			return fs.SkipDir
		}
		judgedFolders++
		r := judged(t, sides...)
		for _, f := range brief(r, Likely) {
			foreign := strings.Contains(path, "foreign-stop") && strings.HasPrefix(f, "open-at-barrier certain B ")
			require.True(t, foreign, "%s: %s", path, f)
		}
		return fs.SkipDir
	}))
	require.Positive(t, judgedFolders)
	t.Logf("%d scenarios", judgedFolders)
}
