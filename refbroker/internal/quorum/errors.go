package quorum

import "github.com/twmb/franz-go/pkg/kerr"

// The errors of cluster mirroring, with the codes of KIP-1279's development
// build (KIP-1279's). franz-go knows some of these codes
// under other names, so they are never looked up there by number.
var (
	ErrReadOnlyTopic           = &kerr.Error{Message: "READ_ONLY_TOPIC", Code: 134, Description: "The partition is a mirror and is not writable."}
	ErrMirrorExists            = &kerr.Error{Message: "CLUSTER_MIRROR_ALREADY_EXISTS", Code: 136, Description: "The cluster mirror already exists."}
	ErrNoMirror                = &kerr.Error{Message: "UNKNOWN_CLUSTER_MIRROR", Code: 137, Description: "The cluster mirror does not exist."}
	ErrTopicInMirror           = &kerr.Error{Message: "TOPIC_ALREADY_IN_CLUSTER_MIRROR", Code: 138, Description: "The topic is active in another cluster mirror."}
	ErrTopicNotInMirror        = &kerr.Error{Message: "TOPIC_NOT_IN_CLUSTER_MIRROR", Code: 139, Description: "The topic is not in this cluster mirror."}
	ErrMirrorTopicNotPaused    = &kerr.Error{Message: "MIRROR_TOPIC_NOT_PAUSED", Code: 141, Description: "The mirroring of the topic is not paused."}
	ErrMirrorTopicBeingStopped = &kerr.Error{Message: "MIRROR_TOPIC_BEING_STOPPED", Code: 142, Description: "The mirroring of the topic is being stopped, or was."}
	ErrMirrorTopicNotStopped   = &kerr.Error{Message: "MIRROR_TOPIC_NOT_STOPPED", Code: 146, Description: "The mirroring of the topic is being stopped and has not ended."}
	ErrMirrorNotEmpty          = &kerr.Error{Message: "CLUSTER_MIRROR_NOT_EMPTY", Code: 143, Description: "The cluster mirror has topics that are not stopped."}
)

// mirrorErrors lists them, for errors that come from another node.
func mirrorErrors() []*kerr.Error {
	return []*kerr.Error{
		ErrReadOnlyTopic, ErrMirrorExists, ErrNoMirror, ErrTopicInMirror, ErrTopicNotInMirror,
		ErrMirrorTopicNotPaused, ErrMirrorTopicBeingStopped, ErrMirrorTopicNotStopped, ErrMirrorNotEmpty,
	}
}
