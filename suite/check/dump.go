package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"watershed.example/suite/history"
)

// Dump is what the log dump tool printed of one log at an episode's end.
type Dump struct {
	Episode   int32
	Cluster   string
	Topic     string
	Partition int32
	// Path is the file, relative to the evidence's folder.
	Path string
	Text string
}

// DumpPath returns where the dump of a destination's log at an episode's end
// lies within an evidence folder. Runs that tell no episodes have one, number 1.
func DumpPath(episode int32, cluster, topic string, partition int32) string {
	return filepath.Join(EpisodeDir(episode), "dump", cluster, history.Place(topic, partition)+".txt")
}

// loadDumps reads the dumps of every destination that are there.
func loadDumps(dir string, run *Run) ([]Dump, error) {
	episodes := run.Episodes
	if len(episodes) == 0 {
		for i, e := range run.Edges {
			episodes = append(episodes, Episode{Number: int32(i + 1), Mirror: e.Mirror})
		}
	}
	var all []Dump
	for _, ep := range episodes {
		for _, edge := range run.Edges {
			if edge.Mirror != ep.Mirror {
				continue
			}
			for _, topic := range edge.Topics {
				for p := range run.Topic(topic).Partitions {
					d := Dump{Episode: ep.Number, Cluster: edge.Destination, Topic: topic, Partition: p, Path: DumpPath(ep.Number, edge.Destination, topic, p)}
					text, err := os.ReadFile(filepath.Join(dir, d.Path))
					if errors.Is(err, os.ErrNotExist) {
						continue
					}
					if err != nil {
						return nil, fmt.Errorf("read dump: %w", err)
					}
					d.Text = string(text)
					all = append(all, d)
				}
			}
		}
	}
	return all, nil
}

// bar7 holds that the log dump tool names each own barrier and prints its fields.
func (j *judge) bar7(r *ruling) {
	j.needStop(r)
	named := 0
	for _, p := range j.parts() {
		if p.lead == nil || p.lead.barrier < 0 {
			continue
		}
		d, e := j.dump(p), &p.lead.entries[p.lead.barrier]
		r.need(d != nil, "%s was not dumped", p.place())
		if d == nil || e.bad != nil || e.control == nil {
			continue // a barrier that can't be read is BAR-2's
		}
		line, found := recordLine(d.Text, e.BaseOffset)
		bad := func(expected string) {
			got := "no line of that record"
			if found {
				got = line
			}
			f := j.at(p.lead, UnnamedBarrier, p.lead.barrier, expected, got)
			f.Evidence = j.ev.where(d.Path)
			r.findings = append(r.findings, f)
		}
		switch squeezed := squeeze(line); {
		case !found || !strings.Contains(squeezed, "mirrorpidreset"):
			bad(fmt.Sprintf("a line for offset %d that names MIRROR_PID_RESET", e.BaseOffset))
		case !strings.Contains(line, e.control.SourceClusterID):
			bad(fmt.Sprintf("a line for offset %d with the barrier's source cluster id %q", e.BaseOffset, e.control.SourceClusterID))
		case !strings.Contains(squeezed, fmt.Sprintf("version:%d", e.control.ValueVersion)):
			bad(fmt.Sprintf("a line for offset %d with the barrier's version %d", e.BaseOffset, e.control.ValueVersion))
		default:
			named++
		}
	}
	r.need(named > 0, "no barrier was dumped")
	r.saw("%d barriers are named in a dump with their fields", named)
}

// dump returns the dump of the part's log at the episode's end; nil without one.
func (j *judge) dump(p *part) *Dump {
	number := j.number
	for i := range j.trial.views {
		if j.trial.views[i] == j && number == 0 {
			number = int32(i + 1)
		}
	}
	for i := range j.trial.ev.Dumps {
		if d := &j.trial.ev.Dumps[i]; d.Episode == number && d.Cluster == p.Destination && d.Topic == p.topic && d.Partition == p.index {
			return d
		}
	}
	return nil
}

// recordLine finds the line of the record at an offset, as Kafka's dump tool
// prints one: "| offset: 3 CreateTime: …". Lines of batches begin otherwise.
func recordLine(text string, offset int64) (string, bool) {
	want := fmt.Sprintf("offset: %d", offset)
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(strings.TrimLeft(line, "| \t"), want)
		if found && (rest == "" || rest[0] < '0' || rest[0] > '9') {
			return strings.TrimSpace(line), true
		}
	}
	return "", false
}

// squeeze drops what tools write differently: MirrorPidReset {"version":0} and
// MIRROR_PID_RESET version: 0 are the same.
func squeeze(line string) string {
	return strings.NewReplacer("_", "", `"`, "", " ", "").Replace(strings.ToLower(line))
}
