package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// Names within an evidence folder.
const (
	RunFile     = "run.json"
	HistoryFile = "history.jsonl"
	LogsDir     = "logs"     // logs/CLUSTER/NODE/TOPIC-PARTITION/, at the run's end
	EpisodesDir = "episodes" // episodes/NUMBER/CLUSTER/NODE/TOPIC-PARTITION/, at an episode's end
	BrokerDir   = "broker"   // broker/CLUSTER-NODE.log
)

// Evidence is everything that a check may look at.
type Evidence struct {
	// Dir is the folder it was loaded from; empty for hand-made evidence.
	Dir      string
	Run      Run
	Events   []history.Event
	Replicas []*Replica // as they were at the run's end
	// Captured are the logs at the end of the episodes that have some of their
	// own, by the episode's number.
	Captured map[int32][]*Replica
	// Dumps are what the log dump tool printed of destinations' logs.
	Dumps []Dump
	// Errors are what brokers logged as errors, line by line, by their cluster: of
	// those whose output was saved, in runs with a [Episode.ForeignStop].
	Errors map[string][]string

	// ledger is the history of evidence that was loaded: Events then lacks the
	// writes and reads of a run with mirrors.
	ledger *ledger
}

// Replica is the raw log of one replica.
type Replica struct {
	Cluster   string
	Node      int32
	Topic     string
	Partition int32
	// Dir is the folder of the log, relative to the evidence's.
	Dir     string
	Batches []wirelog.Batch
	// Problems are torn tails and other bytes that are no batch.
	Problems []*wirelog.Problem

	log *wirelog.Log // whose bytes the batches are; nil for hand-made evidence
}

// release says that the log's bytes are not looked at for a while.
func (r *Replica) release() {
	if r.log != nil {
		_ = r.log.Release() // else they stay, which costs memory only
	}
}

// Close frees the raw logs. Evidence that was closed can't be judged any more.
func (ev *Evidence) Close() error {
	var errs []error
	for _, replicas := range append([][]*Replica{ev.Replicas}, slices.Collect(maps.Values(ev.Captured))...) {
		for _, r := range replicas {
			if r.log != nil {
				errs = append(errs, r.log.Close())
			}
			r.Batches = nil
		}
	}
	return errors.Join(errs...)
}

// Place names the replica's partition, such as "orders-3".
func (r *Replica) Place() string { return history.Place(r.Topic, r.Partition) }

// LogDir returns where a replica's log lies within an evidence folder.
func LogDir(cluster string, node int32, topic string, partition int32) string {
	return LogDirIn(LogsDir, cluster, node, topic, partition)
}

// LogDirIn is [LogDir] for another folder of logs, such as an [Episode]'s.
func LogDirIn(logs, cluster string, node int32, topic string, partition int32) string {
	return filepath.Join(logs, cluster, strconv.Itoa(int(node)), history.Place(topic, partition))
}

// EpisodeDir returns where what belongs to one episode lies within an evidence
// folder.
func EpisodeDir(number int32) string {
	return filepath.Join(EpisodesDir, strconv.Itoa(int(number)))
}

// BrokerLog returns where a broker's output lies within an evidence folder.
func BrokerLog(cluster string, node int32) string {
	return filepath.Join(BrokerDir, cluster+"-"+strconv.Itoa(int(node))+".log")
}

// Load reads a saved evidence folder. It is strict about run.json and the
// history, and reads raw logs as far as they go.
func Load(dir string) (*Evidence, error) {
	ev := &Evidence{Dir: dir}
	if err := ev.readRun(); err != nil {
		return nil, fmt.Errorf("load evidence: %w", err)
	}
	if err := ev.readHistory(filepath.Join(dir, HistoryFile)); err != nil {
		return nil, fmt.Errorf("load evidence: %w", err)
	}
	var err error
	if ev.Replicas, err = loadReplicas(dir, LogsDir, &ev.Run); err != nil {
		return nil, fmt.Errorf("load evidence: %w", err)
	}
	if ev.Dumps, err = loadDumps(dir, &ev.Run); err != nil {
		return nil, fmt.Errorf("load evidence: %w", err)
	}
	if ev.Errors, err = loadErrors(dir, &ev.Run); err != nil {
		return nil, fmt.Errorf("load evidence: %w", err)
	}
	for _, e := range ev.Run.Episodes {
		if filepath.Clean(e.Logs) == LogsDir {
			continue
		}
		if ev.Captured == nil {
			ev.Captured = map[int32][]*Replica{}
		}
		if ev.Captured[e.Number], err = loadReplicas(dir, e.Logs, &ev.Run); err != nil {
			return nil, fmt.Errorf("load evidence: episode %d: %w", e.Number, err)
		}
	}
	return ev, nil
}

func (ev *Evidence) readRun() error {
	path := filepath.Join(ev.Dir, RunFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	run, err := ReadRun(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ev.Run = *run
	return nil
}

// ReadRun reads a plan, as strict as [Load].
func ReadRun(data []byte) (*Run, error) {
	var run Run
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&run); err != nil {
		return nil, err
	}
	return &run, run.Validate()
}

// readHistory reads a history into the ledger, and all events of a run without
// mirrors as they are: its checks look at what comes after what.
func (ev *Evidence) readHistory(path string) error {
	ev.ledger = newLedger(newStems())
	err := history.ScanFile(path, func(s *history.Scanner) error {
		for {
			e, err := s.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			ev.ledger.add(e)
			if len(ev.Run.Edges) == 0 {
				ev.keep(e.Clone())
			}
		}
	})
	if len(ev.Run.Edges) > 0 {
		ev.Events = ev.ledger.events
	}
	return err
}

// keep takes an event as it is, and records that were read one after the other
// as so many events.
func (ev *Evidence) keep(e history.Event) {
	if e.Read == nil {
		ev.Events = append(ev.Events, e)
		return
	}
	e.Read.Each(func(one history.Observed) {
		e.Read = &one
		ev.Events = append(ev.Events, e)
	})
}

// loadReplicas reads every log in a folder of logs.
func loadReplicas(dir, logs string, run *Run) ([]*Replica, error) {
	var all []*Replica
	for _, c := range run.Clusters {
		for _, node := range c.Nodes {
			for _, t := range run.Topics {
				for p := range t.Partitions {
					r := &Replica{
						Cluster: c.Name, Node: node, Topic: t.Name, Partition: p,
						Dir: LogDirIn(logs, c.Name, node, t.Name, p),
					}
					err := r.load(dir)
					if errors.Is(err, os.ErrNotExist) {
						continue // not every node has a replica of it
					}
					if err != nil {
						return nil, err
					}
					all = append(all, r)
				}
			}
		}
	}
	return all, nil
}

func (r *Replica) load(dir string) error {
	log, err := wirelog.Open(filepath.Join(dir, r.Dir))
	if err != nil {
		return err
	}
	r.log = log
	if r.Batches, r.Problems, err = log.Read(); err != nil {
		return err
	}
	r.release()
	return nil
}

// replicasOf returns the replicas of a partition on a cluster.
func (ev *Evidence) replicasOf(cluster, topic string, partition int32) []*Replica {
	var all []*Replica
	for _, r := range ev.Replicas {
		if r.Cluster == cluster && r.Topic == topic && r.Partition == partition {
			all = append(all, r)
		}
	}
	return all
}

// where returns a path for a person: the evidence folder joined with rel.
func (ev *Evidence) where(rel ...string) string {
	return strings.TrimPrefix(filepath.Join(append([]string{ev.Dir}, rel...)...), "./")
}
