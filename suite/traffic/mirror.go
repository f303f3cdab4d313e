package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// The names of a mirror's states that traffic waits for.
const (
	StateMirroring = "MIRRORING"
	StateStopped   = "STOPPED"
)

// Control drives one mirror of a destination cluster and records what was
// asked, what was answered and every change that describe shows.
type Control struct {
	cluster Cluster
	mirror  string
	rec     *Recorder
	cl      *kgo.Client
	last    map[Partition]history.Mirror
}

// NewControl makes a control client for the mirror named on cluster.
func NewControl(rec *Recorder, cluster Cluster, mirror string) (*Control, error) {
	// Without MaxVersions(nil) the client refuses keys that it does not know.
	cl, err := kgo.NewClient(append(clientOpts(cluster, "control-"+mirror), kgo.MaxVersions(nil))...)
	if err != nil {
		return nil, fmt.Errorf("make control client of mirror %s: %w", mirror, err)
	}
	return &Control{cluster: cluster, mirror: mirror, rec: rec, cl: cl, last: map[Partition]history.Mirror{}}, nil
}

// Close closes the client.
func (c *Control) Close() { c.cl.Close() }

func (c *Control) rpc() mirrorrpc.Mirrors {
	if c.cluster.Mirrors != nil {
		return c.cluster.Mirrors
	}
	return mirrorrpc.Client{R: c.cl}
}

// do records one request of the control plane around call.
func (c *Control) do(api string, topics []string, call func() error) error {
	op := c.rec.Op()
	asked := history.MirrorRPC{Cluster: c.cluster.Name, API: api, Mirror: c.mirror, Topics: topics}
	c.rec.Add(history.Event{Kind: history.KindMirrorRPCBegin, Op: op, MirrorRPC: &asked})
	err := call()
	answered := asked
	answered.Result = &history.Result{Outcome: history.OK}
	if err != nil {
		answered.Result = &history.Result{Outcome: history.Unknown, Message: err.Error()}
		if ke := new(kerr.Error); errors.As(err, &ke) {
			answered.Result.Outcome, answered.Result.Code = history.Refused, ke.Code
		}
	}
	c.rec.Add(history.Event{Kind: history.KindMirrorRPC, Op: op, MirrorRPC: &answered})
	return err
}

// Create makes the mirror of the cluster with sourceID behind bootstrap.
func (c *Control) Create(ctx context.Context, bootstrap, sourceID string) error {
	return c.CreateWith(ctx, bootstrap, sourceID, nil)
}

// CreateWith is Create with more configs.
func (c *Control) CreateWith(ctx context.Context, bootstrap, sourceID string, more map[string]string) error {
	configs := map[string]string{mirrorrpc.ConfigBootstrap: bootstrap, mirrorrpc.ConfigSourceClusterID: sourceID}
	maps.Copy(configs, more)
	return c.once(ctx, mirrorrpc.ErrMirrorAlreadyExists, func() error {
		return c.do("CreateClusterMirror", nil, func() error { return c.rpc().Create(ctx, c.mirror, configs) })
	})
}

// once is onceAgain for a client that asks by itself once more what took longer than a
// request may.
func (c *Control) once(ctx context.Context, was error, ask func() error) error {
	return onceAgain(ctx, settling, was, func() error {
		began := time.Now()
		err := ask()
		if time.Since(began) >= requestTimeout && errors.Is(err, was) {
			return nil
		}
		return err
	})
}

// Start starts the mirroring of topics. The broker asks the source before it answers, and
// may be slow at it.
func (c *Control) Start(ctx context.Context, topics ...string) error {
	return again(ctx, func() error {
		return c.do("StartMirrorTopics", topics, func() error { return c.rpc().Start(ctx, c.mirror, topics...) })
	})
}

// Stop fails topics over. It may be said again (OPS-1).
func (c *Control) Stop(ctx context.Context, topics ...string) error {
	return answeredAgain(ctx, func() error {
		return c.do("StopMirrorTopics", topics, func() error { return c.rpc().Stop(ctx, c.mirror, topics...) })
	})
}

// Describe asks for the state of every partition of the mirror, once more only while
// leaders change, and records what changed since the last answer.
func (c *Control) Describe(ctx context.Context) (map[Partition]history.Mirror, error) {
	var mirrors []mirrorrpc.DescribedMirror
	if err := answeredAgain(ctx, func() (err error) {
		mirrors, err = c.rpc().Describe(ctx, c.mirror)
		return err
	}); err != nil {
		return nil, err
	}
	now := map[Partition]history.Mirror{}
	for _, m := range mirrors {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				part := Partition{t.TopicName, p.PartitionIndex}
				s := history.Mirror{
					Cluster: c.cluster.Name, Mirror: m.MirrorName, Topic: t.TopicName, Partition: p.PartitionIndex,
					State: p.StateValue, Step: p.Phase,
					SourceOffset: p.SourceOffset, DestinationOffset: p.DestinationOffset, Lag: p.Lag,
					LastMirrored: p.StopOffset, BarrierOffset: p.BarrierOffset,
					WouldCut: history.Cut(p.WouldCut), StopCut: history.Cut(p.StopCut),
					Oldest: history.Undecided{
						ProducerID: p.OldestOpen.ProducerID, Epoch: p.OldestOpen.ProducerEpoch, FirstOffset: p.OldestOpen.FirstOffset,
					},
				}
				if p.ErrorMessage != nil {
					s.Error = *p.ErrorMessage
				}
				now[part] = s
				if old, seen := c.last[part]; !seen || old != s {
					c.rec.Add(history.Event{Kind: history.KindMirrorState, Mirror: &s})
				}
				c.last[part] = s
			}
		}
	}
	return now, nil
}

// describeEvery is how often a waiting observer asks again.
const describeEvery = 10 * time.Millisecond

// Await describes the mirror until ok holds for every one of parts, and
// returns the last answer. When ctx ends first the error names what each
// partition that is not there yet was last seen doing.
func (c *Control) Await(ctx context.Context, what string, parts []Partition, ok func(Partition, history.Mirror) bool) (map[Partition]history.Mirror, error) {
	tick := time.NewTicker(cmp.Or(c.cluster.Pace, describeEvery))
	defer tick.Stop()
	var lastErr error
	for {
		now, err := c.Describe(ctx)
		if errors.Is(err, mirrorrpc.ErrNever) {
			return nil, fmt.Errorf("waiting until %s: %w", what, err)
		}
		if err != nil {
			lastErr = err
		}
		var missing []string
		for _, p := range parts {
			s, seen := now[p]
			switch {
			case seen && ok(p, s):
			case seen:
				missing = append(missing, fmt.Sprintf("%s is %s%s, lag %d%s", p, s.State, suffix(" at step ", s.Step), s.Lag, suffix(": ", s.Error)))
			default:
				missing = append(missing, fmt.Sprintf("%s is not described", p))
			}
		}
		if err == nil && len(missing) == 0 {
			return now, nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				lastErr = nil
			}
			return now, &StuckError{What: what, Missing: missing, Err: errors.Join(context.Cause(ctx), lastErr)}
		case <-tick.C:
		}
	}
}

func suffix(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// StuckError says what did not come about in time.
type StuckError struct {
	What    string
	Missing []string // one line for each partition that is not there yet
	Err     error
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("waiting until %s: %v (%v)", e.What, e.Missing, e.Err)
}

func (e *StuckError) Unwrap() error { return e.Err }
