package postmortem

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Format and Version say what a report's JSON is.
const (
	Format  = "watershed-postmortem"
	Version = 1
)

// Report is what the judge of segment folders has to say.
type Report struct {
	Format     string            `json:"format"`
	Version    int               `json:"version"`
	Outcome    Outcome           `json:"outcome"`
	Bytes      int64             `json:"bytes,string"`
	Sides      []SideReport      `json:"sides"`
	Partitions []PartitionReport `json:"partitions"`
	Findings   []Finding         `json:"findings"`
	// Internal counts folders of internal topics, which were left out.
	Internal int `json:"internal"`
}

// Outcome is the whole in one word.
type Outcome string

// The outcomes.
const (
	Violated     Outcome = "violated"     // something is certain
	Inconclusive Outcome = "inconclusive" // nothing is, but something is likely
	Clean        Outcome = "clean"
)

// SideReport is one side.
type SideReport struct {
	Name        string   `json:"name"`
	Folders     []string `json:"folders"`
	ClusterID   string   `json:"clusterId,omitempty"`
	ClusterIDBy string   `json:"clusterIdBy,omitempty"` // how it is known
}

// PartitionReport is one partition.
type PartitionReport struct {
	Topic     string      `json:"topic"`
	Partition int32       `json:"partition"`
	Logs      []LogReport `json:"logs"`
	// Parting is where each two sides' logs part.
	Partings []Parting `json:"partings,omitempty"`
	// Story tells it in words, line by line.
	Story []string `json:"story"`
}

// LogReport is the log that stands for one side.
type LogReport struct {
	Side      string          `json:"side"`
	Folder    string          `json:"folder"`
	Replicas  int             `json:"replicas"`
	First     int64           `json:"firstOffset,string"` // -1: empty
	Next      int64           `json:"nextOffset,string"`
	Batches   int64           `json:"batches,string"`
	Records   int64           `json:"records,string"`
	FirstTime string          `json:"firstTime,omitempty"`
	LastTime  string          `json:"lastTime,omitempty"`
	Barriers  []BarrierReport `json:"barriers"`
	Open      int64           `json:"openTransactions,string"`
	Forgotten int64           `json:"forgottenProducers,string"`
}

// BarrierReport is one barrier.
type BarrierReport struct {
	Offset      int64    `json:"offset,string"`
	L           int64    `json:"l,string"` // the first offset that the stop wrote
	LeaderEpoch int32    `json:"leaderEpoch"`
	Source      string   `json:"sourceClusterId"`
	Time        string   `json:"time"`
	WrittenBy   []string `json:"writtenBy"` // sides that can have written it
	Own         bool     `json:"own"`       // in no other side's log
	Aborted     int      `json:"abortedByStop"`
}

// Parting is where two sides' logs part.
type Parting struct {
	Sides  [2]string `json:"sides"`
	Common int64     `json:"commonBatches,string"`
	Offset int64     `json:"offset,string"` // -1: nowhere
	Ended  bool      `json:"oneEnds"`       // one of them has no more
}

// JSON writes the report as JSON. Numbers of 64 bits are strings.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (j *judgement) build() *Report {
	r := &Report{Format: Format, Version: Version, Outcome: Clean, Bytes: j.bytes, Internal: j.found.internal, Findings: []Finding{}}
	for i, s := range j.sides {
		r.Sides = append(r.Sides, SideReport{Name: s.Name, Folders: s.Folders, ClusterID: j.ids[i].id, ClusterIDBy: j.ids[i].how})
	}
	all := []*Finding{}
	for i := range j.found.unread {
		all = append(all, &j.found.unread[i])
	}
	for _, p := range j.partitions {
		for _, f := range p.findings.all {
			f.Topic, f.Partition = p.topic, p.number
			all = append(all, f)
		}
		r.Partitions = append(r.Partitions, j.partition(p))
	}
	slices.SortStableFunc(all, order)
	for _, f := range all {
		r.Findings = append(r.Findings, *f)
		switch {
		case f.Sure == Certain:
			r.Outcome = Violated
		case f.Sure == Likely && r.Outcome == Clean:
			r.Outcome = Inconclusive
		}
	}
	return r
}

func (j *judgement) partition(p *partition) PartitionReport {
	out := PartitionReport{Topic: p.topic, Partition: p.number, Story: j.story(p)}
	for i, l := range p.lines {
		if l == nil {
			continue
		}
		lr := LogReport{
			Side: l.side, Folder: l.folder, First: l.first, Next: l.next, Batches: l.batches, Records: l.records, Open: l.open,
			Forgotten: l.forgotten, Barriers: []BarrierReport{},
		}
		if l.batches > 0 {
			lr.FirstTime, lr.LastTime = clock(l.firstTime), clock(l.lastTime)
		}
		for _, lane := range p.lanes {
			if lane.side == i {
				lr.Replicas++
			}
		}
		for _, b := range l.barriers {
			br := BarrierReport{
				Offset: b.offset, L: b.from, LeaderEpoch: b.epoch, Source: b.source, Time: clock(b.time), WrittenBy: []string{},
				Own: p.only(i, b), Aborted: b.abortions,
			}
			for _, w := range j.writerOf(p, b) {
				br.WrittenBy = append(br.WrittenBy, j.sides[w].Name)
			}
			lr.Barriers = append(lr.Barriers, br)
		}
		out.Logs = append(out.Logs, lr)
	}
	for _, pr := range p.pairs {
		out.Partings = append(out.Partings, Parting{
			Sides: [2]string{j.sides[pr.sides[0]].Name, j.sides[pr.sides[1]].Name}, Common: pr.common, Offset: pr.parted, Ended: pr.ended,
		})
	}
	return out
}

func clock(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
