package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"watershed.example/suite/postmortem"
)

// judgeFiles judges segment folders that were copied from brokers.
func judgeFiles(cmd *cobra.Command, texts []string, jsonTo string) error {
	sides, err := filesSides(texts)
	if err != nil {
		return err
	}
	bar := newBar(cmd.ErrOrStderr())
	report, err := postmortem.Judge(cmd.Context(), sides, postmortem.Options{Progress: bar.show})
	bar.end()
	if err != nil {
		return err
	}
	switch jsonTo {
	case "":
		err = report.Text(cmd.OutOrStdout())
	case "-":
		err = report.JSON(cmd.OutOrStdout())
	default:
		if err = report.Text(cmd.OutOrStdout()); err == nil {
			err = writeJSON(jsonTo, report)
		}
	}
	if err != nil {
		return err
	}
	switch report.Outcome {
	case postmortem.Violated:
		return verdictError{exitViolated, "violated"}
	case postmortem.Inconclusive:
		return verdictError{exitInconclusive, "inconclusive"}
	}
	return nil
}

// filesSides reads what the flag and the arguments name. Folders without a name
// are sides A, B and so on.
func filesSides(texts []string) ([]postmortem.Side, error) {
	var sides []postmortem.Side
	for i, text := range texts {
		if _, err := os.Stat(text); err == nil || !strings.Contains(text, "=") {
			text = string(rune('A'+i%26)) + "=" + text
		}
		s, err := postmortem.ParseSide(text)
		if err != nil {
			return nil, fmt.Errorf("--files %w", err)
		}
		sides = append(sides, s)
	}
	return sides, nil
}

func writeJSON(path string, report *postmortem.Report) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return report.JSON(f)
}

// bar shows how far a reading is, on a terminal only.
type bar struct {
	w     io.Writer
	shown time.Time
	began time.Time
	wide  int
}

// barEvery is how often the bar is drawn anew.
const barEvery = 100 * time.Millisecond

func newBar(w io.Writer) *bar {
	b := &bar{began: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		b.w = w
	}
	return b
}

func (b *bar) show(done, all int64) {
	if b.w == nil || time.Since(b.shown) < barEvery {
		return
	}
	b.shown = time.Now()
	b.draw(done, all, b.shown.Sub(b.began))
}

func (b *bar) draw(done, all int64, took time.Duration) {
	const width = 30
	part := 1.0
	if all > 0 {
		part = min(float64(done)/float64(all), 1)
	}
	full := int(part * width)
	line := fmt.Sprintf("[%s%s] %3.0f %% of %s", strings.Repeat("#", full), strings.Repeat(".", width-full), part*100, size(all))
	if s := took.Seconds(); s > 1 && done > 0 {
		left := time.Duration(float64(all-done) / float64(done) * float64(took)).Round(time.Second)
		line += fmt.Sprintf(", %s/s, %s left", size(int64(float64(done)/s)), left)
	}
	pad := max(b.wide-len(line), 0)
	b.wide = len(line)
	_, _ = fmt.Fprintf(b.w, "\r%s%s", line, strings.Repeat(" ", pad)) // a bar that can't be drawn is no trouble
}

// end clears the bar.
func (b *bar) end() {
	if b.w != nil && b.wide > 0 {
		_, _ = fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", b.wide))
	}
}

// size is a number of bytes for a person.
func size(n int64) string {
	f := float64(n)
	for _, unit := range []string{"bytes", "kB", "MB", "GB"} {
		if f < 1000 {
			return fmt.Sprintf("%.3g %s", f, unit)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.3g TB", f)
}
