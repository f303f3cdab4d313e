package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/wire"
)

// mirrorAPIs are the APIs of KIP-1279's control plane.
func mirrorAPIs(e *env.Env, m *mirror.Manager) []wire.API {
	return []wire.API{
		createClusterMirror(e),
		startMirrorTopics(e),
		stopMirrorTopics(e),
		listClusterMirrors(e),
		describeClusterMirrors(e, m),
		bumpLeaderEpochs(e),
	}
}

// mirrorError is an error as a response carries it: the code, and always a
// message, since clients know the codes from 134 on under other names.
func mirrorError(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	message := err.Error()
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Code, &message
	}
	return kerr.UnknownServerError.Code, &message
}
