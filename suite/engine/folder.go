package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// latest is the name of the link to the newest run's folder.
const latest = "latest"

// keepRuns is how many runs' folders stay when a new run starts.
const keepRuns = 5

var runName = regexp.MustCompile(`^run-\d{8}-\d{6}\.\d{3}-\d+$`)

// NewRunFolder makes the folder of one run's evidence below out, points the
// link out/latest to it, and removes the oldest runs' folders unless keepAll.
func NewRunFolder(out string, seed uint64, keepAll bool, now time.Time) (string, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for evidence: %w", err)
	}
	name := fmt.Sprintf("run-%s-%d", now.Format("20060102-150405.000"), seed)
	folder := filepath.Join(out, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for evidence: %w", err)
	}
	// A link can't be replaced in place, but a new one can take its name.
	link := filepath.Join(out, "."+name)
	if err := os.Symlink(name, link); err != nil {
		return "", fmt.Errorf("link %s: %w", latest, err)
	}
	if err := os.Rename(link, filepath.Join(out, latest)); err != nil {
		return "", errors.Join(fmt.Errorf("link %s: %w", latest, err), os.Remove(link))
	}
	if keepAll {
		return folder, nil
	}
	return folder, prune(out)
}

func prune(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("look for old evidence: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() || !runName.MatchString(e.Name()) })
	for i := range max(len(entries)-keepRuns, 0) { // ReadDir sorts by name, so by time
		if err := os.RemoveAll(filepath.Join(out, entries[i].Name())); err != nil {
			return fmt.Errorf("remove old evidence: %w", err)
		}
	}
	return nil
}

// scenarioFolder is where a test's evidence lies within the run's folder.
func scenarioFolder(run, name string) string {
	return filepath.Join(run, filepath.FromSlash(strings.ReplaceAll(name, ":", "-")))
}
