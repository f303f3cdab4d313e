package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// The states that probes wait for, beside those of a failover.
const (
	statePaused     = "PAUSED"
	stateFailed     = "FAILED"
	stateTruncation = "LOG_TRUNCATION"
)

// Source is where a probe's mirror copies from: traffic reaches the cluster as
// Cluster says, the mirror by Bootstrap.
type Source struct {
	Cluster   Cluster
	Bootstrap string // what the mirror is created with
	ID        string // the cluster's id
	// Config is how a mirror makes itself known to it; nil for not at all.
	Config map[string]string
}

// probeLimit bounds how long a probe waits for a state, on a machine that is very busy
// too.
const probeLimit = 20 * time.Second

// sideMirror is a mirror that a probe makes for itself, with topics of its own,
// so that it leaves the story's mirrors alone.
type sideMirror struct {
	*Control
	rec  *Recorder
	name string
	dst  Cluster
	raw  *Raw // of the source
}

// newSideMirror creates the mirror named on destination. It expects the cluster
// with id expected.
func newSideMirror(ctx context.Context, rec *Recorder, source Source, destination Cluster, name, expected string) (*sideMirror, *history.Result, error) {
	raw, err := NewRaw(ctx, rec, source.Cluster, "probe-"+name)
	if err != nil {
		return nil, nil, err
	}
	name = destination.named(name)
	c, err := NewControl(rec, destination, name)
	if err != nil {
		raw.Close()
		return nil, nil, err
	}
	s := &sideMirror{Control: c, rec: rec, name: name, dst: destination, raw: raw}
	return s, answerOf(c.CreateWith(ctx, source.Bootstrap, expected, source.Config)), nil
}

// close ends the probe's mirror: its topics are stopped and it is deleted. What
// it can't clean up is noted; it is no part of the story.
func (s *sideMirror) close(ctx context.Context, topics ...string) {
	defer s.Control.Close()
	defer s.raw.Close()
	err := s.stopAll(ctx, topics...)
	if err = errors.Join(err, s.Delete(ctx)); err != nil {
		s.rec.Note("mirror %s of cluster %s is left behind: %v", s.name, s.dst.Name, err)
	}
}

// stopAll stops those of topics that are in the mirror and waits until they are
// STOPPED.
func (s *sideMirror) stopAll(ctx context.Context, topics ...string) error {
	now, err := s.Describe(ctx)
	if err != nil {
		return err
	}
	var here []string
	var parts []Partition
	for _, t := range topics {
		if _, ok := now[Partition{t, 0}]; ok {
			here = append(here, t)
			parts = append(parts, Partition{t, 0})
		}
	}
	if len(here) == 0 {
		return nil
	}
	if err := s.Stop(ctx, here...); err != nil {
		return err
	}
	_, err = s.await(ctx, "the probe's topics are STOPPED", parts, func(m history.Mirror) bool { return m.State == StateStopped })
	return err
}

// await waits, for at most probeLimit, until all of parts are as ok says.
func (s *sideMirror) await(ctx context.Context, what string, parts []Partition, ok func(history.Mirror) bool) (map[Partition]history.Mirror, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("it took longer than %s", probeLimit))
	defer cancel()
	return s.Await(ctx, what, parts, func(_ Partition, m history.Mirror) bool { return ok(m) })
}

// seed makes topics of one partition on the source and writes n plain records
// to each.
func (s *sideMirror) seed(ctx context.Context, n int32, topics ...string) error {
	return seedTopics(ctx, s.raw, n, topics...)
}

func seedTopics(ctx context.Context, raw *Raw, n int32, topics ...string) error {
	counts := map[string]int32{}
	for _, t := range topics {
		counts[t] = 1
	}
	if err := raw.CreateTopics(ctx, counts); err != nil {
		return err
	}
	for _, t := range topics {
		if res := plainWrite(ctx, raw, Partition{t, 0}, n); res.Outcome != history.OK {
			return fmt.Errorf("write to %s on cluster %s: code %d %s", t, raw.cluster.Name, res.Code, res.Message)
		}
	}
	return nil
}

func plainWrite(ctx context.Context, raw *Raw, p Partition, n int32) *history.Result {
	return raw.plainAgain(ctx, func() Write {
		return Write{Partition: p, Mode: history.Plain, Batch: Batch{
			ID: PlainID, Timestamp: time.Now().UnixMilli(), Count: n, First: raw.Tag(p, history.NoTxn, history.IntentNone, n),
		}}
	})
}

// TopicIDs are topics with the ids and partitions that they have on a source.
type TopicIDs struct{ topics []mirrorrpc.StartTopic }

// ids asks the source for topics, until whoever is asked has heard of all.
func (s *sideMirror) ids(ctx context.Context, topics ...string) (*TopicIDs, error) {
	for {
		meta, err := s.raw.metadata(ctx)
		if err != nil {
			return nil, err
		}
		ids := &TopicIDs{}
		for _, t := range meta.Topics {
			if t.Topic != nil && slices.Contains(topics, *t.Topic) {
				ids.topics = append(ids.topics, mirrorrpc.StartTopic{TopicID: t.TopicID, TopicName: *t.Topic, NumPartitions: int32(len(t.Partitions))})
			}
		}
		if len(ids.topics) == len(topics) {
			return ids, nil
		}
		if !pause(ctx, describeEvery) {
			return nil, fmt.Errorf("cluster %s tells of %d topics of %v: %w", s.raw.cluster.Name, len(ids.topics), topics, context.Cause(ctx))
		}
	}
}

// start starts topics with the ids that they have on the source, so that the
// destination asks the source nothing before it answers: what is wrong with the
// source shows in the states.
func (s *sideMirror) start(ctx context.Context, ids *TopicIDs, topics ...string) error {
	req := mirrorrpc.NewStartMirrorTopicsRequest()
	req.MirrorName, req.Topics = s.name, ids.topics
	return answeredAgain(ctx, func() error {
		return s.do("StartMirrorTopics", topics, func() error {
			_, err := s.perTopic(ctx, req)
			return err
		})
	})
}

// perTopic sends a request about topics and returns each topic's result.
func (s *sideMirror) perTopic(ctx context.Context, req kmsg.Request) (map[string]*history.Result, error) {
	resp, err := s.cl.Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("mirror %s: %s: %w", s.name, kmsg.NameForKey(req.Key()), err)
	}
	answer, ok := resp.(*mirrorrpc.TopicsResponse)
	if !ok {
		return nil, fmt.Errorf("mirror %s: the answer is a %T", s.name, resp)
	}
	results := map[string]*history.Result{}
	first := mirrorrpc.ErrorForCode(req.Key(), answer.ErrorCode)
	for _, t := range answer.Topics {
		err := mirrorrpc.ErrorForCode(req.Key(), t.ErrorCode)
		results[t.Name] = answerOf(err)
		if t.ErrorMessage != nil {
			results[t.Name].Message = *t.ErrorMessage
		}
		if first == nil {
			first = err
		}
	}
	return results, first
}

// answerOf is the result of a request of the control plane.
func answerOf(err error) *history.Result {
	if err == nil {
		return &history.Result{Outcome: history.OK}
	}
	r := &history.Result{Outcome: history.Unknown, Message: err.Error()}
	if ke := new(kerr.Error); errors.As(err, &ke) {
		r.Outcome, r.Code = history.Refused, ke.Code
	}
	return r
}

// notCreated is the result of a probe whose mirror could not be created: what it
// was to ask for was not asked, so that nothing was refused.
func notCreated(created *history.Result) *history.Result {
	return &history.Result{Outcome: history.Unknown, Message: fmt.Sprintf("the probe's mirror was not created: code %d %s", created.Code, created.Message)}
}

// probe records one probe about a topic of the mirror.
func (s *sideMirror) probe(p history.Probe) {
	p.Cluster, p.Mirror, p.Partition = s.dst.Name, s.name, -1
	s.rec.Add(history.Event{Kind: history.KindProbe, Probe: &p})
}

// OtherCluster makes a mirror that expects another cluster id than the one that
// answers at its bootstrap address (LINK-4), once as operators do and once with
// the topic's id, which leaves it to the fetchers to notice. Then it stops the
// mirror, which has failed (OPS-1), and deletes it.
//
// When to call: once per run, at any time when both clusters are up and the
// mirror's link is whole. Topics and mirrors are its own.
func OtherCluster(ctx context.Context, rec *Recorder, source Source, destination Cluster) error {
	const topic, byID = "strangers", "strangers-by-id"
	const expected = "AnotherClusterIdOfNone"
	s, created, err := newSideMirror(ctx, rec, source, destination, "wrong-id", expected)
	if err != nil {
		return err
	}
	defer s.close(ctx, topic, byID)
	if created.Outcome != history.OK {
		if created.Code != kerr.InconsistentClusterID.Code {
			created = notCreated(created)
		}
		s.probe(history.Probe{What: history.ProbeOtherCluster, Topic: topic, Result: created})
		return context.Cause(ctx)
	}
	if err := s.seed(ctx, 3, topic, byID); err != nil {
		return err
	}
	ids, err := s.ids(ctx, byID)
	if err != nil {
		return err
	}
	for _, t := range []string{topic, byID} {
		start := func() error { return s.Start(ctx, t) }
		if t == byID {
			start = func() error { return s.start(ctx, ids, t) }
		}
		p := history.Probe{What: history.ProbeOtherCluster, Topic: t, Result: answerOf(start())}
		if p.Result.Outcome == history.OK {
			p.After = s.settledState(ctx, t)
		}
		s.probe(p)
	}
	if err := s.ends(ctx, topic, byID); err != nil {
		return err
	}
	if now, err := s.Describe(ctx); err == nil && now[Partition{byID, 0}].State == stateFailed {
		return s.stopIn(ctx, byID)
	}
	return context.Cause(ctx)
}

// settledState waits until a topic has failed, or mirrors, and returns its state.
func (s *sideMirror) settledState(ctx context.Context, topic string) string {
	now, err := s.await(ctx, "the mirror has failed", []Partition{{topic, 0}}, func(m history.Mirror) bool {
		return m.State == stateFailed && m.Error != "" || m.State == StateMirroring
	})
	if err != nil {
		s.rec.Note("%v", err)
	}
	return now[Partition{topic, 0}].State
}

// ends samples the ends of topics on the destination, where they are there.
func (s *sideMirror) ends(ctx context.Context, topics ...string) error {
	raw, err := NewRaw(ctx, s.rec, s.dst, "probe-ends-"+s.name)
	if err != nil {
		return err
	}
	defer raw.Close()
	for _, t := range topics {
		there, err := raw.knows(ctx, Partition{t, 0})
		if err != nil {
			return err
		}
		if !there {
			s.rec.Note("probe %s: topic %s is not on cluster %s", s.name, t, s.dst.Name)
			continue
		}
		if _, err := raw.Offsets(ctx, Partition{t, 0}); err != nil {
			return err
		}
	}
	return nil
}

// SameTopic asks destination to mirror from second a topic that it mirrors from
// another source already (FI-2).
//
// When to call: in fan-in, while the mirror that carries topic runs and topic
// is MIRRORING; second is the other source.
func SameTopic(ctx context.Context, rec *Recorder, second Source, destination Cluster, topic string) error {
	s, created, err := newSideMirror(ctx, rec, second, destination, "second-source", second.ID)
	if err != nil {
		return err
	}
	p := history.Probe{What: history.ProbeSameTopic, Topic: topic, State: StateMirroring, Result: notCreated(created)}
	if created.Outcome == history.OK {
		p.Result = answerOf(s.Start(ctx, topic))
	}
	s.probe(p)
	if p.Result.Outcome == history.OK {
		s.close(ctx, topic)
	} else {
		s.close(ctx)
	}
	return context.Cause(ctx)
}
