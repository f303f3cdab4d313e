package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"watershed.example/fixtures"
	"watershed.example/suite/check"
)

// capture copies the raw logs of an episode's partitions on both of its
// clusters into the evidence.
func (w *world) capture(ctx context.Context, e *episode) error {
	folder := episodeFolder(e.story.folder, e.Number)
	var places []string
	for _, p := range e.layout.All {
		places = append(places, p.String())
	}
	for _, cluster := range []string{e.Mirror.From, e.Mirror.To} {
		if err := w.env.CopyPartitions(ctx, folder, cluster, places); err != nil {
			return fmt.Errorf("save the logs of episode %s: %w", e, err)
		}
	}
	return nil
}

func episodeFolder(folder string, number int) string {
	return filepath.Join(folder, check.EpisodesDir, strconv.Itoa(number))
}

// dump prints one partition of each episode's destination with the dump tool
// into the evidence, from what was saved (BAR-7).
func (s *story) dump(ctx context.Context) error {
	for _, e := range s.episodes {
		if !e.ended {
			continue
		}
		p := e.layout.Spanned[0].String()
		from := filepath.Join(episodeFolder(s.folder, e.Number), e.Mirror.To)
		if e.last() {
			from = filepath.Join(s.folder, check.LogsDir, e.Mirror.To)
		}
		segments, err := filepath.Glob(filepath.Join(from, "1", p, "*.log"))
		if err != nil || len(segments) == 0 {
			return errors.Join(err, fmt.Errorf("dump episode %s: there is no log of %s in %s", e, p, from))
		}
		text, err := fixtures.DumpLog(ctx, segments...)
		if err != nil {
			return fmt.Errorf("dump episode %s: %w", e, err)
		}
		to := filepath.Join(episodeFolder(s.folder, e.Number), "dump", e.Mirror.To)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, p+".txt"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
