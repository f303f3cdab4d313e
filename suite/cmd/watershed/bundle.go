package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"watershed.example/suite/bundle"
	"watershed.example/suite/engine"
)

func bundleCommand() *cobra.Command {
	var product, out string
	var secretFiles, facts []string
	var maxLog int64
	cmd := &cobra.Command{
		Use:   "bundle FOLDER --product NAME",
		Short: "Pack a run's evidence into one archive that others can check",
		Long: `Pack the folder of a run (out/latest, say) into watershed-PRODUCT-TIME.tar.gz: results, histories, raw logs, brokers' logs and
plans, with a checksum of each file. watershed judge reads it, and judges all of it anew. Passwords and keys are taken out; files for keys are left out.`,
		Example: "  watershed bundle out/latest --product 'refbroker 1.0'\n  watershed judge watershed-refbroker-1.0-20261130T130000Z.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var secrets []string
			for _, f := range secretFiles {
				data, err := os.ReadFile(f)
				if err != nil {
					return fmt.Errorf("--secrets: %w", err)
				}
				var own []string
				for line := range strings.Lines(string(data)) {
					own = append(own, strings.TrimSpace(line))
				}
				if n := len(bundle.TooShort(own)); n > 0 {
					return fmt.Errorf("--secrets %s: %d of its lines have fewer than %d characters, which stand in any text; leave them out, values of passwords and tokens are taken out anyway", f, n, bundle.MinSecret)
				}
				secrets = append(secrets, own...)
			}
			said := map[string]string{}
			for _, f := range facts {
				k, v, ok := strings.Cut(f, "=")
				if !ok || k == "" {
					return fmt.Errorf("--fact %q: want KEY=VALUE", f)
				}
				said[k] = v
			}
			file, sum, err := pack(args[0], out, bundle.Options{Product: product, Facts: said, Secrets: secrets, MaxFile: maxLog})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\nsha256 %s\n", file, sum)
			return err
		},
	}
	cmd.Flags().StringVar(&product, "product", "", "`NAME` and version of what was certified")
	cmd.Flags().StringVar(&out, "out", ".", "`folder` for the archive")
	cmd.Flags().StringArrayVar(&facts, "fact", nil, "`KEY=VALUE` that the manifest is to say of the product")
	cmd.Flags().StringArrayVar(&secretFiles, "secrets", nil, "`FILE` of secrets, one a line, of 6 characters or more, to be taken out wherever they stand")
	cmd.Flags().Int64Var(&maxLog, "max-log", 0, "raw logs of more `BYTES` than this are left out, but for what lies around findings (256 MiB)")
	_ = cmd.MarkFlagRequired("product")
	return cmd
}

// pack writes the bundle of a run's folder, with what its result says of findings, and
// what is known of the clusters that were certified.
func pack(folder, out string, o bundle.Options) (file, sum string, err error) {
	recorded, err := readRecorded(folder)
	if err != nil {
		return "", "", err
	}
	for _, s := range recorded.Scenarios {
		for _, v := range s.Verdicts {
			for _, f := range v.Findings {
				o.Around = append(o.Around, bundle.Place{Cluster: f.Cluster, Node: f.Node, Topic: f.Topic, Partition: f.Partition, Offset: f.Offset})
			}
		}
	}
	found, err := engine.LoadFound(folder)
	if err != nil {
		return "", "", err
	}
	if found != nil {
		facts := found.Facts()
		maps.Copy(facts, o.Facts)
		o.Facts = facts
	}
	o.Tool, o.Time = buildVersion(), time.Now()
	return bundle.Write(folder, out, o)
}

// judgeBundle judges what a bundle holds anew, and compares that with the
// verdicts in it.
func judgeBundle(cmd *cobra.Command, file string) (err error) {
	dir, err := os.MkdirTemp("", "watershed-bundle-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	m, err := bundle.Open(file, dir)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if _, err := fmt.Fprintf(w, "%s: %s, made %s by %s; %d files are as they were\n", filepath.Base(file), m.Product, m.Made, m.Tool, len(m.Files)); err != nil {
		return err
	}
	for _, l := range m.LeftOut {
		if l.Reason != bundle.Brokers {
			if _, err := fmt.Fprintf(w, "left out: %s (%d bytes, sha256 %s): %s\n", l.Path, l.Size, cmp.Or(l.SHA256, "not told"), l.Why); err != nil {
				return err
			}
		}
	}
	run := filepath.Join(dir, bundle.RunDir)
	recorded, err := readRecorded(run)
	if err != nil {
		return err
	}
	found, err := engine.LoadFound(run)
	if err != nil {
		return err
	}
	folders, err := engine.Evidence(run)
	if err != nil {
		return err
	}
	c := comparison{run: run, recorded: recorded, found: found, verbatim: m.Tool == buildVersion() && !slices.ContainsFunc(m.Files, func(f bundle.File) bool {
		return f.Redacted > 0 && f.Path == path.Join(bundle.RunDir, resultFile)
	})}
	folders = slices.DeleteFunc(folders, func(f string) bool {
		if !m.Lacks(within(dir, f)) {
			return false
		}
		c.partial = append(c.partial, f)
		return true
	})
	results, trouble, err := rejudge(cmd.Context(), folders)
	if err != nil {
		return err
	}
	c.compare(results)
	for _, line := range c.lines() {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	err = conclude(w, results, trouble)
	switch {
	case len(c.differ) > 0:
		return verdictError{exitViolated, fmt.Sprintf("the bundle says %d things that are not so", len(c.differ))}
	case err == nil && len(c.open) > 0:
		return verdictError{exitInconclusive, "inconclusive: not all that the bundle says could be judged anew"}
	}
	return err
}

// within is the path of a folder within the run's, with slashes.
func within(run, folder string) string {
	rel, err := filepath.Rel(run, folder)
	if err != nil {
		rel = folder
	}
	return filepath.ToSlash(rel)
}
