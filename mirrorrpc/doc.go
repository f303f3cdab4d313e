// Package mirrorrpc holds the messages of KIP-1279's control plane, API keys
// 94 to 105, in the shape that kmsg's own have: each request implements
// kmsg.Request and each response kmsg.Response, so that franz-go's client and
// a server over kmsg carry them. All are version 0 only and flexible.
//
// kmsg itself knows key 94 as UnregisterController, so a kgo client needs
// kgo.MaxVersions(nil): by default it refuses the keys that it does not know.
// Apache Kafka 4.4.0 uses key 94 and the error codes 134 to 136 otherwise: a
// cluster offers mirroring iff ApiVersions names the feature mirror.version
// (see [Feature]), and codes are decoded per API (see [ErrorForCode]).
//
// What Watershed adds to the messages lies in tagged fields with numbers from
// [FirstOwnTag] on, which other clients skip.
package mirrorrpc

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Feature is the feature whose level 1 in ApiVersions says that the cluster
// offers mirroring.
const Feature = "mirror.version"

// FirstOwnTag is the lowest number of the tagged fields that KIP-1279 does
// not have.
const FirstOwnTag = 10000

// The API keys.
const (
	KeyCreateClusterMirror    int16 = 94
	KeyStartMirrorTopics      int16 = 95
	KeyStopMirrorTopics       int16 = 96
	KeyListClusterMirrors     int16 = 98
	KeyDescribeClusterMirrors int16 = 99
	KeyReadMirrorStates       int16 = 100
	KeyWriteMirrorStates      int16 = 101
	KeyPauseMirrorTopics      int16 = 102
	KeyResumeMirrorTopics     int16 = 103
	KeyDeleteClusterMirror    int16 = 104
	KeyBumpLeaderEpochs       int16 = 105
)

// RequestForKey returns a new request of the API, or nil when key is not one
// of this package's.
func RequestForKey(key int16) kmsg.Request {
	switch key {
	case KeyCreateClusterMirror:
		return NewCreateClusterMirrorRequest()
	case KeyStartMirrorTopics:
		return NewStartMirrorTopicsRequest()
	case KeyStopMirrorTopics:
		return NewStopMirrorTopicsRequest()
	case KeyListClusterMirrors:
		return NewListClusterMirrorsRequest()
	case KeyDescribeClusterMirrors:
		return NewDescribeClusterMirrorsRequest()
	case KeyReadMirrorStates:
		return NewReadMirrorStatesRequest()
	case KeyWriteMirrorStates:
		return NewWriteMirrorStatesRequest()
	case KeyPauseMirrorTopics:
		return NewPauseMirrorTopicsRequest()
	case KeyResumeMirrorTopics:
		return NewResumeMirrorTopicsRequest()
	case KeyDeleteClusterMirror:
		return NewDeleteClusterMirrorRequest()
	case KeyBumpLeaderEpochs:
		return NewBumpLeaderEpochsRequest()
	}
	return nil
}

// ResponseForKey returns a new response of the API, or nil when key is not
// one of this package's.
func ResponseForKey(key int16) kmsg.Response {
	if r := RequestForKey(key); r != nil {
		return r.ResponseKind()
	}
	return nil
}

// nameOf is the name of a request's API: franz-go has none for the keys of this package,
// or another one's.
func nameOf(req kmsg.Request) string {
	name := fmt.Sprintf("%T", req)
	return strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "Request")
}
