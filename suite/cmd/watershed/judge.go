package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"watershed.example/suite/engine"
)

func judgeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "judge FOLDER...",
		Short: "Judge saved evidence again, without any cluster",
		Long: `Judge saved evidence again, without any cluster: each folder is one scenario's evidence, or holds that of many (a run's
folder, such as out/latest). Nothing in it is changed. Prints the story of what failed, and the verdict of each requirement.`,
		Example: "  watershed judge out/latest\n  watershed judge out/latest/TestScenarios/failback/no-fault/none",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var folders []string
			for _, root := range args {
				found, err := engine.Evidence(root)
				if err != nil {
					return err
				}
				folders = append(folders, found...)
			}
			var results []*engine.Result
			var errs []error
			for _, f := range folders {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				res, err := engine.Rejudge(f)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", f, err))
				}
				// Its events and logs were needed for that alone.
				if err := res.Forget(true); err != nil {
					return err
				}
				results = append(results, res)
			}
			return conclude(cmd.OutOrStdout(), results, errors.Join(errs...))
		},
	}
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
