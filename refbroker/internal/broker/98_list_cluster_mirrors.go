package broker

import (
	"context"
	"maps"
	"slices"
	"strings"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// ListClusterMirrors (key 98), version 0.
func listClusterMirrors(e *env.Env) wire.API {
	return wire.Of("ListClusterMirrors", 0, 0, func(_ context.Context, _ *wire.Request, r *mirrorrpc.ListClusterMirrorsRequest) (wire.Response, error) {
		resp := &mirrorrpc.ListClusterMirrorsResponse{}
		img := e.Quorum.Image()
		for _, name := range slices.Sorted(maps.Keys(img.Mirrors)) {
			m := img.Mirrors[name]
			topics := mirrorTopics(img, name)
			l := mirrorrpc.ListedMirror{
				MirrorName: name, SourceBootstrap: strings.Join(m.Bootstrap, ","),
				SourceClusterID: m.SourceClusterID, TopicCount: int32(len(topics)),
			}
			if r.IncludeTopicNames {
				l.TopicNames = topics
			}
			resp.Mirrors = append(resp.Mirrors, l)
		}
		return resp, nil
	})
}

// mirrorTopics lists the topics of a mirror, stopped ones too, by name.
func mirrorTopics(img *quorum.Image, mirror string) []string {
	var names []string
	for _, t := range img.Topics {
		if t.Mirror == mirror {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names
}
