package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// ReadMirrorStates (key 100), version 0. States are metadata here, so any broker
// answers; a previous state is not kept.
func readMirrorStates(e *env.Env) wire.API {
	return wire.Of("ReadMirrorStates", 0, 0, func(_ context.Context, _ *wire.Request, r *mirrorrpc.ReadMirrorStatesRequest) (wire.Response, error) {
		resp := &mirrorrpc.ReadMirrorStatesResponse{}
		img := e.Quorum.Image()
		if _, ok := img.Mirrors[r.MirrorName]; !ok {
			resp.ErrorCode, resp.ErrorMessage = mirrorError(fmt.Errorf("mirror %q: %w", r.MirrorName, quorum.ErrNoMirror))
			return resp, nil
		}
		for _, want := range r.Topics {
			t, err := mirrorTopic(img, r.MirrorName, want.Name)
			out := mirrorrpc.ReadStates{Name: want.Name}
			for _, index := range want.Partitions {
				out.Partitions = append(out.Partitions, readMirrorState(t, index, err))
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

func readMirrorState(t *quorum.Topic, index int32, err error) mirrorrpc.ReadState {
	s := mirrorrpc.ReadState{
		PartitionIndex: index, LastMirrorEpoch: -1, State: int8(quorum.Unknown), PreviousState: mirrorrpc.NoPreviousState,
	}
	if err == nil && (index < 0 || int(index) >= len(t.Partitions)) {
		err = fmt.Errorf("partition %s-%d: %w", t.Name, index, kerr.UnknownTopicOrPartition)
	}
	if err != nil {
		s.ErrorCode, s.ErrorMessage = mirrorError(err)
		return s
	}
	m := t.Partitions[index].Mirror
	s.State, s.LastMirrorEpoch, s.RetryAttempt = int8(m.State), m.LastMirroredEpoch, m.Attempts
	if m.Error != "" {
		s.ErrorMessage = &m.Error
	}
	return s
}
