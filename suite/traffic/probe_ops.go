package traffic

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// Topics of the probes of operation, one for each state in which they stop.
const (
	opsMirroring = "ops-mirroring"
	opsPaused    = "ops-paused"
	opsAligning  = "ops-aligning"
	opsNoSource  = "ops-no-source"
)

// Ops tries to operate a mirror of its own: a stop in every state (OPS-1), a
// cause named where a step is stuck (OPS-2), and what must not make a stopped
// topic read-only again (OPS-5). Topics and mirrors are its own.
//
// When to call: NewOps and InEveryState at any time when both clusters are up
// and the mirror's link is whole (source.Bootstrap is the link's addresses).
// WithoutSource while that link is cut, or the source is dead. Then, at the end
// of the story, DeleteMirror, a restart of every node of the destination,
// DeleteSourceTopic where the source lives, and Write; Close last.
type Ops struct {
	side   *sideMirror
	source Source
	dst    Cluster
	rec    *Recorder
}

// NewOps makes the topics on the source and the mirror on destination.
func NewOps(ctx context.Context, rec *Recorder, source Source, destination Cluster) (*Ops, error) {
	side, created, err := newSideMirror(ctx, rec, source, destination, "ops", source.ID)
	if err != nil {
		return nil, err
	}
	o := &Ops{side: side, source: source, dst: destination, rec: rec}
	if created.Outcome != history.OK {
		o.Close()
		return nil, fmt.Errorf("create mirror ops: code %d %s", created.Code, created.Message)
	}
	if err := side.seed(ctx, 3, opsMirroring, opsPaused, opsAligning, opsNoSource); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// Close closes the clients.
func (o *Ops) Close() {
	o.side.Control.Close()
	o.side.raw.Close()
}

// InEveryState stops a topic that mirrors, the same one again at once and when it
// is STOPPED, one that is paused, and one that is in no mirror together with
// another one. The other states are those of OtherCluster (failed) and
// WithoutSource (aligning).
func (o *Ops) InEveryState(ctx context.Context) error {
	both := []Partition{{opsMirroring, 0}, {opsPaused, 0}}
	if err := o.side.Start(ctx, opsMirroring, opsPaused); err != nil {
		return err
	}
	if _, err := o.side.await(ctx, "the probe's topics mirror without lag", both, func(m history.Mirror) bool {
		return m.State == StateMirroring && m.DestinationOffset >= 3 && m.Lag == 0
	}); err != nil {
		return err
	}
	if _, err := o.side.Sample(ctx); err != nil {
		return err
	}
	if err := o.side.Pause(ctx, opsPaused); err != nil {
		return err
	}
	if _, err := o.side.await(ctx, "a topic is PAUSED", both[1:], func(m history.Mirror) bool { return m.State == statePaused }); err != nil {
		return err
	}
	// The first stop in MIRRORING and the next ones, which meet STOPPING or STOPPED.
	for _, topic := range []string{opsMirroring, opsPaused} {
		if err := o.side.stopIn(ctx, topic); err != nil {
			return err
		}
	}
	if err := o.side.stopIn(ctx, opsMirroring); err != nil {
		return err
	}
	return o.truth(ctx)
}

// stopIn stops one topic in whatever state it is, waits for STOPPED, and
// records both.
func (s *sideMirror) stopIn(ctx context.Context, topic string) error {
	p := Partition{topic, 0}
	before, err := s.Describe(ctx)
	if err != nil {
		return err
	}
	probe := history.Probe{What: history.ProbeStop, Topic: topic, State: before[p].State}
	probe.Result = answerOf(s.Stop(ctx, topic))
	var after map[Partition]history.Mirror
	if probe.Result.Outcome == history.Refused && probe.Result.Code != kerr.RequestTimedOut.Code { // it would be waited for in vain
		after, err = s.Describe(ctx)
	} else {
		after, err = s.await(ctx, "a topic is STOPPED", []Partition{p}, func(m history.Mirror) bool { return m.State == StateStopped })
	}
	if stuck := new(StuckError); err != nil && !errors.As(err, &stuck) {
		return err
	}
	probe.After = after[p].State
	s.probe(probe)
	return nil
}

// StateAbsent stands for the state of a topic that is in no mirror.
const StateAbsent = "absent"

// truth stops a topic of the mirror and one that is in none by one request: each
// must be told its own truth.
func (o *Ops) truth(ctx context.Context) error {
	const absent = "ops-absent"
	req := mirrorrpc.NewStopMirrorTopicsRequest()
	req.MirrorName = o.side.name
	req.Topics = []mirrorrpc.NamedTopic{{TopicName: absent}, {TopicName: opsPaused}}
	var results map[string]*history.Result
	if err := answeredAgain(ctx, func() (err error) {
		results, err = o.side.perTopic(ctx, req)
		return err
	}); results == nil {
		return err
	}
	for topic, state := range map[string]string{absent: StateAbsent, opsPaused: StateStopped} {
		res := results[topic]
		if res == nil {
			res = &history.Result{Outcome: history.Unknown, Message: "the answer does not name the topic"}
		}
		o.side.probe(history.Probe{What: history.ProbeStop, Topic: topic, State: state, After: state, Result: res})
	}
	return nil
}

// WithoutSource starts topics whose source can't be reached: one is stopped while
// it aligns, the other one once it names the cause.
func (o *Ops) WithoutSource(ctx context.Context, ids *TopicIDs) error {
	if err := o.side.start(ctx, ids, opsAligning, opsNoSource); err != nil {
		return err
	}
	aligning := Partition{opsAligning, 0}
	if _, err := o.side.await(ctx, "a topic aligns", []Partition{aligning}, func(m history.Mirror) bool {
		return m.State == stateTruncation || m.State == stateFailed
	}); err != nil {
		return err
	}
	if err := o.side.stopIn(ctx, opsAligning); err != nil {
		return err
	}
	if _, err := o.side.await(ctx, "the step without a source names its cause", []Partition{{opsNoSource, 0}},
		func(m history.Mirror) bool { return m.Error != "" }); err != nil {
		o.rec.Note("%v", err)
	}
	if _, err := o.side.Sample(ctx); err != nil {
		return err
	}
	return o.side.stopIn(ctx, opsNoSource)
}

// IDs learns the ids of the topics that WithoutSource starts. To be called while
// the source can be reached.
func (o *Ops) IDs(ctx context.Context) (*TopicIDs, error) {
	return o.side.ids(ctx, opsAligning, opsNoSource)
}

// DeleteMirror deletes the mirror, whose topics are all stopped.
func (o *Ops) DeleteMirror(ctx context.Context) error {
	p := history.Probe{What: history.ProbeDeleteMirror, Topic: opsMirroring, State: StateStopped}
	p.Result = answerOf(o.side.Delete(ctx))
	o.side.probe(p)
	return context.Cause(ctx)
}

// DeleteSourceTopic deletes the source of a stopped topic.
func (o *Ops) DeleteSourceTopic(ctx context.Context) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(requestTimeout.Milliseconds())
	name := opsMirroring
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req.TopicNames, req.Topics = []string{name}, []kmsg.DeleteTopicsRequestTopic{topic}
	err := onceAgain(ctx, changing, kerr.UnknownTopicOrPartition, func() error {
		resp, err := req.RequestWith(ctx, o.side.raw.client())
		if err == nil && len(resp.Topics) == 1 {
			err = mirrorrpc.ErrorForCode(resp.Key(), resp.Topics[0].ErrorCode)
		}
		return err
	})
	o.rec.Add(history.Event{Kind: history.KindProbe, Probe: &history.Probe{
		What: history.ProbeDeleteTopic, Cluster: o.source.Cluster.Name, Topic: name, Partition: -1, Result: answerOf(err),
	}})
	return context.Cause(ctx)
}

// Write writes to the stopped topic on the destination.
func (o *Ops) Write(ctx context.Context) error {
	p, err := NewProducer(o.rec, o.dst, ProducerOptions{Name: "ops-write", Mode: history.Plain, Attempts: Patiently})
	if err != nil {
		return err
	}
	defer p.Close()
	_ = p.Send(ctx, 1, Partition{opsMirroring, 0}) // what was answered is for the check
	return context.Cause(ctx)
}
