package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"watershed.example/fixtures/kafka"
)

// dumps compares what the two dump tools print of the files of both clusters,
// line by line, and looks for complaints of Kafka's.
func dumps(ctx context.Context, t tools, work string, apache *kafka.Cluster, ours, mirrored *refbroker, r *report) error {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	for _, c := range []cluster{apache, ours} {
		if err := fillForDumps(ctx, c); err != nil {
			return err
		}
		// Files are compared at rest; node 1 ends while the others are still there
		// to hand its leaderships to, or Kafka would not end in an orderly way.
		if err := errors.Join(c.Stop(ctx, 1), c.Close(ctx)); err != nil {
			return err
		}
	}
	for _, d := range []struct{ name, dir string }{
		{"Kafka's files", apache.DataDir(1)}, {"refbroker's files", ours.DataDir(1)}, {"refbroker's files with barriers", mirrored.DataDir(1)},
	} {
		var files []string
		for _, pattern := range []string{"*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot"} {
			found, err := filepath.Glob(filepath.Join(d.dir, "*-*", pattern))
			if err != nil {
				return err
			}
			files = append(files, found...)
		}
		files = slices.DeleteFunc(files, func(f string) bool {
			return strings.Contains(f, "__cluster_metadata") || strings.Contains(f, "-delete/")
		})
		slices.Sort(files)
		list := strings.Join(files, ",")
		theirs, err := exec.CommandContext(ctx, "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
			"-cp", filepath.Join(t.jars, "*"), "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", list).CombinedOutput()
		if err != nil {
			return fmt.Errorf("dump tool of Kafka on %s: %w: %s", d.name, err, tail(theirs))
		}
		own, err := exec.CommandContext(ctx, t.refbroker, "dump-log", "--deep-iteration", "--print-data-log", "--files", list).CombinedOutput()
		if err != nil {
			return fmt.Errorf("refbroker dump-log on %s: %w: %s", d.name, err, tail(own))
		}
		base := strings.ReplaceAll(d.name, " ", "-")
		for name, raw := range map[string][]byte{base + ".kafka": theirs, base + ".refbroker": own} {
			if err := os.WriteFile(filepath.Join(work, name), raw, 0o644); err != nil {
				return err
			}
		}
		same, explained, differences := compareDumps(byFile(theirs), byFile(own))
		if same < len(files) {
			differences = append(differences, fmt.Sprintf("%d lines of %d files: too few to have compared anything", same, len(files)))
		}
		r.row("dump tools", d.name, same, explained, differences)
		r.row("Kafka's dump tool", "complaints of "+d.name, len(files), 0, complaints(theirs))
	}
	return nil
}

func tail(raw []byte) []byte { return raw[max(0, len(raw)-2000):] }

// byFile are the lines of a dump by the file that they are about.
func byFile(raw []byte) map[string][]string {
	all := map[string][]string{}
	file := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "Dumping "); ok {
			file = name
		}
		all[file] = append(all[file], line)
	}
	for file, lines := range all {
		if strings.HasSuffix(file, ".snapshot") { // Kafka prints them in the order of a hash map
			slices.Sort(lines)
		}
	}
	return all
}

func compareDumps(theirs, own map[string][]string) (same, known int, differences []string) {
	files := map[string]bool{}
	for f := range theirs {
		files[f] = true
	}
	for f := range own {
		files[f] = true
	}
	for f := range files {
		a, b := theirs[f], own[f]
		for i := range max(len(a), len(b)) {
			var x, y string
			if i < len(a) {
				x = a[i]
			}
			if i < len(b) {
				y = b[i]
			}
			switch {
			case x == y:
				same++
			case barrierLine(x, y):
				known++
			default:
				differences = append(differences, fmt.Sprintf("%s, line %d\n    Kafka      %s\n    refbroker  %s", f, i+1, x, y))
			}
			if len(differences) >= 10 {
				return same, known, append(differences, "and maybe more")
			}
		}
	}
	return same, known, differences
}

// barrierLine says whether both lines are of one barrier, which Kafka does not
// know: it says so, and refbroker tells its fields.
func barrierLine(theirs, own string) bool {
	a, unknown, ok := strings.Cut(theirs, " controlType: ")
	b, fields, is := strings.Cut(own, " MirrorPidReset ")
	return ok && is && a == b && strings.HasPrefix(unknown, "UNKNOWN") && strings.HasPrefix(fields, `{"version":0,"sourceClusterId":"`)
}

// complaints are the lines by which Kafka's tool says that something is wrong
// with a file.
func complaints(raw []byte) []string {
	var all []string
	for line := range bytes.Lines(raw) {
		text := strings.TrimSpace(string(line))
		for _, sign := range []string{"isvalid: false", "Mismatch", "mismatch", "corrupt", "Exception", "Found", "Error", "out of order", "non-consecutive"} {
			if strings.Contains(text, sign) && !strings.HasPrefix(text, "|") {
				all = append(all, text)
				break
			}
		}
		if len(all) >= 10 {
			return append(all, "and maybe more")
		}
	}
	return all
}
