package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// sourceTimeout bounds how long a request waits for a source to answer. With
// loopTimeout it is less than clients wait at the least for ours (10 s).
const sourceTimeout = 5 * time.Second

// CreateClusterMirror (key 94), version 0: names a link to a source cluster.
// Without mirror.source.cluster.id the source is asked for its id; with it the
// source need not be there.
func createClusterMirror(e *env.Env) wire.API {
	return wire.Of("CreateClusterMirror", 0, 0, func(ctx context.Context, _ *wire.Request, r *mirrorrpc.CreateClusterMirrorRequest) (wire.Response, error) {
		resp := &mirrorrpc.CreateClusterMirrorResponse{}
		resp.ErrorCode, resp.ErrorMessage = mirrorError(doCreateMirror(ctx, e, r))
		return resp, nil
	})
}

func doCreateMirror(ctx context.Context, e *env.Env, r *mirrorrpc.CreateClusterMirrorRequest) error {
	if err := quorum.ValidTopicName(r.MirrorName); err != nil { // the same rule
		return fmt.Errorf("mirror name %q (want 1 to 249 letters, digits, '.', '_', '-'): %w", r.MirrorName, kerr.InvalidRequest)
	}
	if _, ok := e.Quorum.Image().Mirrors[r.MirrorName]; ok {
		return fmt.Errorf("mirror %q: %w", r.MirrorName, quorum.ErrMirrorExists)
	}
	configs := map[string]string{}
	for _, c := range r.Config {
		if c.Value != nil {
			configs[c.Name] = *c.Value
		}
	}
	bootstrap, err := mirror.SplitBootstrap(configs[mirrorrpc.ConfigBootstrap])
	if err != nil {
		return fmt.Errorf("mirror %q: config %s: %w: %w", r.MirrorName, mirrorrpc.ConfigBootstrap, err, kerr.InvalidConfig)
	}
	if _, err := mirror.ReadSettings(configs); err != nil {
		return fmt.Errorf("mirror %q: %w", r.MirrorName, err)
	}
	if err := mirror.CheckWay(configs); err != nil {
		return fmt.Errorf("mirror %q: %w", r.MirrorName, err)
	}
	id := configs[mirrorrpc.ConfigSourceClusterID]
	if id == "" {
		ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
		defer cancel()
		meta, err := mirror.AskCluster(ctx, mirror.WayTo(e.Host, configs), bootstrap, "")
		if err != nil {
			return fmt.Errorf("mirror %q: ask the source for its cluster id: %w: %w", r.MirrorName, err, kerr.BrokerNotAvailable)
		}
		id = *meta.ClusterID
		configs[mirrorrpc.ConfigSourceClusterID] = id
	}
	if id == e.ClusterID {
		return fmt.Errorf("mirror %q: cluster %s can't mirror itself: %w", r.MirrorName, id, kerr.InvalidRequest)
	}
	_, err = e.Quorum.Apply(ctx, quorum.CreateMirror{Name: r.MirrorName, SourceClusterID: id, Bootstrap: bootstrap, Configs: configs})
	return err
}
