package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"watershed.example/suite/check"
)

// Evidence finds the folders below root, itself included, that hold the saved
// evidence of a scenario, in the order of their names. That there is none is an
// error.
func Evidence(root string) ([]string, error) {
	var all []string
	at, err := filepath.EvalSymlinks(root) // out/latest is one
	if err != nil {
		return nil, fmt.Errorf("look for evidence: %w", err)
	}
	err = filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch _, err := os.Stat(filepath.Join(path, check.RunFile)); {
		case err == nil:
			all = append(all, path)
			return fs.SkipDir
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for evidence: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("look for evidence: no folder at or below %s has a %s", root, check.RunFile)
	}
	return all, nil
}

// Rejudge judges saved evidence again, without any cluster. An error says that
// the evidence can't be read.
func Rejudge(folder string) (*Result, error) {
	res := &Result{Folder: folder, Name: folder}
	err := judge(res)
	if err != nil {
		res.Trouble = err.Error()
		return res, err
	}
	run := res.Evidence.Run
	res.Name, res.Seed, res.Reproduce = run.Scenario, run.Seed, run.Command
	return res, nil
}
