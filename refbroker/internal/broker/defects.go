package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/storage"
	"watershed.example/refbroker/internal/wire"
)

// What makes the handlers wrong on purpose: see package defect.

// refuseStop is why a defect has a stop refused.
func refuseStop(ctx context.Context, e *env.Env, r *mirrorrpc.StopMirrorTopicsRequest) error {
	img := e.Quorum.Image()
	m, ok := img.Mirrors[r.MirrorName]
	if !ok {
		return nil
	}
	if e.Defects.Has(defect.StopRefusedWithoutSource) {
		ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
		defer cancel()
		if _, err := mirror.AskCluster(ctx, mirror.WayTo(e.Host, m.Configs), m.Bootstrap, m.SourceClusterID); err != nil {
			return fmt.Errorf("mirror %q: ask the source: %w: %w", r.MirrorName, err, kerr.BrokerNotAvailable)
		}
	}
	if !e.Defects.Has(defect.StopNotIdempotent) {
		return nil
	}
	for _, named := range r.Topics {
		t, ok := img.Topics[named.TopicName]
		if !ok {
			continue
		}
		for i, p := range t.Partitions {
			if s := p.Mirror.State; s != quorum.Mirroring && s != quorum.Paused {
				return fmt.Errorf("partition %s-%d is %s: %w", t.Name, i, s, mirrorrpc.ErrInvalidClusterMirrorStates)
			}
		}
	}
	return nil
}

func stopRefused(req *wire.Request, r *mirrorrpc.StopMirrorTopicsRequest, err error) (wire.Response, error) {
	resp, ok := req.Response().(*mirrorrpc.TopicsResponse)
	if !ok {
		return nil, fmt.Errorf("response of StopMirrorTopics is %T", req.Response())
	}
	resp.ErrorCode, resp.ErrorMessage = mirrorError(err)
	for _, t := range r.Topics {
		res := mirrorrpc.TopicResult{Name: t.TopicName}
		res.ErrorCode, res.ErrorMessage = mirrorError(err)
		resp.Topics = append(resp.Topics, res)
	}
	return resp, nil
}

// stopsAtAll are the topics that a defect leaves of those that are to be stopped.
func stopsAtAll(e *env.Env, topics []mirrorrpc.NamedTopic) []mirrorrpc.NamedTopic {
	if !e.Defects.Has(defect.PausedStopDoesNothing) {
		return topics
	}
	img := e.Quorum.Image()
	return slices.DeleteFunc(slices.Clone(topics), func(n mirrorrpc.NamedTopic) bool {
		t, ok := img.Topics[n.TopicName]
		return ok && t.Desired == quorum.Paused
	})
}

// stopOthers is the defect of a stop that stops the topics of other mirrors too.
func stopOthers(ctx context.Context, e *env.Env, stopped string) {
	if !e.Defects.Has(defect.MirrorStopStopsOthers) {
		return
	}
	img := e.Quorum.Image()
	for name := range img.Mirrors {
		if name == stopped {
			continue
		}
		if topics := mirrorTopics(img, name); len(topics) > 0 {
			if _, err := e.Quorum.Apply(ctx, quorum.SetMirrorTopics{Mirror: name, Topics: topics, Desired: quorum.Stopped}); err != nil {
				e.Log.Error("defect: another mirror is not stopped", "mirror", name, "error", err)
			}
		}
	}
}

// shown are the batches that a fetch gets to see.
func (f *fetching) shown(raw []byte) []byte {
	if f.replica < 0 && f.request.IsolationLevel == 1 && f.env.Defects.Has(defect.ControlBatchesWithheld) && onlyControl(raw) {
		return []byte{}
	}
	if f.replica >= 0 || !f.env.Defects.Has(defect.ControlRecordDelivered) {
		return raw
	}
	shown := slices.Clone(raw)
	if err := storage.ShowBarriers(shown); err != nil {
		f.env.Log.Error("defect: barriers are not shown", "error", err)
		return raw
	}
	return shown
}

// onlyControl says whether raw holds no batch with data.
func onlyControl(raw []byte) bool {
	for len(raw) > 0 {
		b, err := psm.DecodeHeader(raw)
		if err != nil || !b.IsControl() {
			return false
		}
		raw = raw[min(b.Size, len(raw)):]
	}
	return true
}

// A mirror that has not fetched for lostAfter is gone, and its source refuses the
// others until lostUntil.
const (
	lostAfter = 700 * time.Millisecond
	lostUntil = 10 * time.Second
)

// mirrorsOf is what a source that is wrong knows of its mirrors: when each has
// fetched last, by the client id that it gives itself, which names it.
type mirrorsOf struct {
	wrong bool
	mu    sync.Mutex
	last  map[string]time.Time
}

func mirrorsOfSource(s defect.Set) *mirrorsOf {
	return &mirrorsOf{wrong: s.Has(defect.LostMirrorTakesOthersAlong), last: map[string]time.Time{}}
}

// refuses says whether a fetch is refused since another mirror is gone.
func (m *mirrorsOf) refuses(client string) (refused bool) {
	if !m.wrong || !mirror.IsFetching(client) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.last[client] = now
	for other, at := range m.last {
		refused = refused || other != client && now.Sub(at) > lostAfter && now.Sub(at) < lostUntil
	}
	return refused
}

// epochOfLeadership has a leader that mirrors answer as if its own epoch had entered its
// epoch cache with its election: there, to its mind, every earlier one ended.
func epochOfLeadership(e *env.Env, p replica.API, asked int32, op *kmsg.OffsetForLeaderEpochResponseTopicPartition) {
	if o := p.Offsets(); e.Defects.Has(defect.EpochsCachedWithLeadership) && p.ReadOnly() && asked < o.LeaderEpoch {
		op.EndOffset = min(op.EndOffset, o.LeaderSince)
	}
}

// letsLateIn says whether a transactional batch is appended although its
// coordinator knows that its transaction has ended.
func (p *producer) letsLateIn(err error) bool {
	if !p.env.Defects.Has(defect.LateProduceOpensTransaction) {
		return false
	}
	for _, ended := range []error{kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping} {
		if errors.Is(err, ended) {
			return true
		}
	}
	return false
}

// afterWait is the defect of an answer that had to wait.
func (f *fetching) afterWait(r *round) {
	if f.replica >= 0 || !f.env.Defects.Has(defect.AbortedListMissingAfterLongPoll) {
		return
	}
	for i := range r.topics {
		for k := range r.topics[i].Partitions {
			r.topics[i].Partitions[k].AbortedTransactions = nil
		}
	}
}
