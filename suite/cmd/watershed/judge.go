package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"watershed.example/suite/bundle"
	"watershed.example/suite/engine"
)

func judgeCommand() *cobra.Command {
	var files []string
	var jsonTo string
	cmd := &cobra.Command{
		Use:   "judge FOLDER... | BUNDLE.tar.gz | --files SIDE...",
		Short: "Judge saved evidence again, or segment files of brokers, without any cluster",
		Long: `Judge saved evidence again, without any cluster: each folder is one scenario's evidence, or holds that of many (a run's
folder, such as out/latest). Nothing in it is changed. Prints the story of what failed, and the verdict of each requirement.

A bundle (watershed bundle) is judged likewise: its files are checked, and the verdicts compared with those that it says.

With --files it judges segment folders that were copied from brokers after a failover: NAME=FOLDER,FOLDER... for each side, a
folder for each broker: its log directory with TOPIC-PARTITION folders, or one such folder. NAME@CLUSTERID= says a side's cluster
id where no meta.properties does. Exit codes then: 1 something is certain to be wrong, 3 nothing is, but something is likely, 0 neither.`,
		Example: "  watershed judge out/latest\n  watershed judge out/latest/TestScenarios/failback/no-fault/none\n" +
			"  watershed judge --files A=/copies/a1,/copies/a2 B=/copies/b1,/copies/b2 --json report.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(files) > 0 || len(args) > 0 {
				return nil
			}
			return errors.New("judge: what? Give a folder of evidence (out/latest, say), a bundle (….tar.gz), or copies of brokers' segments with --files")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(files) > 0 {
				return judgeFiles(cmd, append(files, args...), jsonTo)
			}
			if jsonTo != "" {
				return errors.New("--json goes with --files")
			}
			if err := judgeable(args); err != nil {
				return err
			}
			if len(args) == 1 && isBundle(args[0]) {
				return judgeBundle(cmd, args[0])
			}
			var folders []string
			for _, root := range args {
				if unpacked(root) {
					if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "watershed: %s is a bundle that was unpacked: its checksums are not looked at here, and what it says of its verdicts neither; judge the archive, or run sha256sum -c %s there\n", root, bundle.SumsFile); err != nil {
						return err
					}
				}
				found, err := engine.Evidence(root)
				if err != nil {
					return err
				}
				folders = append(folders, found...)
			}
			results, trouble, err := rejudge(cmd.Context(), folders)
			if err != nil {
				return err
			}
			return conclude(cmd.OutOrStdout(), results, trouble)
		},
	}
	cmd.Flags().StringArrayVar(&files, "files", nil, "a `SIDE`'s segment folders, as NAME=FOLDER,FOLDER...; further sides may follow as arguments")
	cmd.Flags().StringVar(&jsonTo, "json", "", "with --files: a `FILE` for the report as JSON, - for standard output instead of text")
	return cmd
}

// isBundle says whether a name is a bundle's.
func isBundle(name string) bool { return strings.HasSuffix(name, ".tar.gz") }

// judgeable says which argument is neither a folder of evidence nor a bundle by itself.
func judgeable(args []string) error {
	for _, a := range args {
		if isBundle(a) && len(args) > 1 {
			return fmt.Errorf("judge %s: a bundle is judged by itself, one at a time", a)
		}
		if info, err := os.Stat(a); err == nil && !info.IsDir() && !isBundle(a) {
			return fmt.Errorf("judge %s: a file, and no bundle (….tar.gz); give a folder of evidence, or copies of brokers' segments with --files", a)
		}
	}
	return nil
}

// unpacked says whether a folder is a bundle's, unpacked.
func unpacked(folder string) bool {
	for _, name := range []string{bundle.SumsFile, bundle.ManifestFile} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// rejudge judges folders of evidence, one after the other. trouble is what could
// not be judged.
func rejudge(ctx context.Context, folders []string) (results []*engine.Result, trouble, err error) {
	for _, f := range folders {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		res, err := engine.Rejudge(f)
		if err != nil {
			trouble = errors.Join(trouble, fmt.Errorf("%s: %w", f, err))
		}
		// Its events and logs were needed for that alone.
		if err := res.Forget(true); err != nil {
			return nil, nil, err
		}
		results = append(results, res)
	}
	return results, trouble, nil
}

// conclude prints stories and the table, and turns the verdicts into an error
// that carries the exit code. trouble is what could not be judged.
func conclude(w io.Writer, results []*engine.Result, trouble error) error {
	code := exitHeld
	for _, r := range results {
		if r.Failed() {
			if _, err := fmt.Fprintln(w, r.Story()); err != nil {
				return err
			}
		}
		switch {
		case len(r.Unaccepted()) > 0:
			code = exitViolated
		case r.Failed() && code == exitHeld:
			code = exitInconclusive
		}
	}
	table, err := engine.Table(results)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(w, table); err != nil {
		return err
	}
	switch {
	case code == exitViolated:
		return verdictError{code, "violated"}
	case trouble != nil:
		return trouble
	case code == exitInconclusive:
		return verdictError{code, "inconclusive"}
	}
	return nil
}
