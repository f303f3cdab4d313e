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

// captured says whether the episode's logs are saved at its end: those of the
// last one are saved with all others, unless records are taken away after it.
func (e *episode) captured() bool { return !e.last() || e.story.scenario.Vanish != "" }

func episodeFolder(folder string, number int) string {
	return filepath.Join(folder, check.EpisodesDir, strconv.Itoa(number))
}

// dump prints the logs of each episode's destination with the dump tool into
// the evidence, from what was saved (BAR-7).
func (s *story) dump(ctx context.Context) error {
	type target struct{ segment, to string }
	var targets []target
	for _, e := range s.episodes {
		if !e.ended {
			continue
		}
		from := episodeFolder(s.folder, e.Number)
		if !e.captured() {
			from = filepath.Join(s.folder, check.LogsDir)
		}
		for _, p := range e.layout.All {
			segments, err := longestCopy(filepath.Join(from, e.Mirror.To), p.String())
			if err != nil || len(segments) == 0 {
				return errors.Join(err, fmt.Errorf("dump episode %s: there is no log of %s in %s", e, p, from))
			}
			to := filepath.Join(s.folder, check.DumpPath(int32(e.Number), e.Mirror.To, p.Topic, p.Index))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			for _, segment := range segments {
				targets = append(targets, target{segment, to})
			}
		}
	}
	if len(targets) == 0 {
		return nil
	}
	// One process prints them all.
	var segments []string
	for _, t := range targets {
		segments = append(segments, t.segment)
	}
	printed, err := fixtures.DumpLogs(ctx, s.defects, segments...)
	if err != nil {
		return err
	}
	text := map[string][]byte{}
	for i, t := range targets {
		text[t.to] = append(text[t.to], printed[i]...)
	}
	for to, data := range text {
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return fmt.Errorf("save a dump: %w", err)
		}
	}
	return nil
}

// longestCopy are the segments of the replica of a partition that has most
// bytes, among those of the nodes whose folders lie in dir.
func longestCopy(dir, place string) (segments []string, err error) {
	nodes, err := filepath.Glob(filepath.Join(dir, "*", place))
	if err != nil {
		return nil, err
	}
	most := int64(-1)
	for _, n := range nodes {
		all, err := filepath.Glob(filepath.Join(n, "*.log"))
		if err != nil {
			return nil, err
		}
		var size int64
		for _, s := range all {
			st, err := os.Stat(s)
			if err != nil {
				return nil, fmt.Errorf("look at a saved log: %w", err)
			}
			size += st.Size()
		}
		if size > most && len(all) > 0 {
			most, segments = size, all
		}
	}
	return segments, nil
}
