package mirrorrpc

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// NoOperations is AuthorizedOperations' default: not asked for.
const NoOperations int32 = -2147483648

// The errors that KIP-1279 adds (its development build); none is retriable.
var (
	ErrReadOnlyTopic              = mirrorError(134, "READ_ONLY_TOPIC", "The topic is mirrored from another cluster and cannot be written until its mirror is stopped.")
	ErrMirrorAlreadyExists        = mirrorError(136, "CLUSTER_MIRROR_ALREADY_EXISTS", "A cluster mirror of this name already exists.")
	ErrUnknownMirror              = mirrorError(137, "UNKNOWN_CLUSTER_MIRROR", "There is no cluster mirror of this name.")
	ErrTopicAlreadyInMirror       = mirrorError(138, "TOPIC_ALREADY_IN_CLUSTER_MIRROR", "The topic is active in another cluster mirror.")
	ErrTopicNotInMirror           = mirrorError(139, "TOPIC_NOT_IN_CLUSTER_MIRROR", "The topic does not belong to this cluster mirror.")
	ErrMirrorTopicAlreadyPaused   = mirrorError(140, "MIRROR_TOPIC_ALREADY_PAUSED", "The mirroring of the topic is paused.")
	ErrMirrorTopicNotPaused       = mirrorError(141, "MIRROR_TOPIC_NOT_PAUSED", "The mirroring of the topic is not paused.")
	ErrMirrorTopicBeingStopped    = mirrorError(142, "MIRROR_TOPIC_BEING_STOPPED", "The mirroring of the topic is being stopped.")
	ErrMirrorNotEmpty             = mirrorError(143, "CLUSTER_MIRROR_NOT_EMPTY", "The cluster mirror still has active topics.")
	ErrMirrorAuthorizationFailed  = mirrorError(144, "CLUSTER_MIRROR_AUTHORIZATION_FAILED", "Not authorized to access the cluster mirror.")
	ErrInvalidClusterMirrorStates = mirrorError(145, "INVALID_CLUSTER_MIRROR_STATES", "A mirror partition is in a state that does not allow this.")
	ErrMirrorTopicNotStopped      = mirrorError(146, "MIRROR_TOPIC_NOT_STOPPED", "The mirroring of the topic has not been stopped.")
)

func mirrorError(code int16, name, description string) *kerr.Error {
	return &kerr.Error{Message: name, Code: code, Description: description}
}

// Errors lists the errors that KIP-1279 adds, in the order of their codes.
func Errors() []*kerr.Error {
	return []*kerr.Error{
		ErrReadOnlyTopic, ErrMirrorAlreadyExists, ErrUnknownMirror, ErrTopicAlreadyInMirror,
		ErrTopicNotInMirror, ErrMirrorTopicAlreadyPaused, ErrMirrorTopicNotPaused,
		ErrMirrorTopicBeingStopped, ErrMirrorNotEmpty, ErrMirrorAuthorizationFailed,
		ErrInvalidClusterMirrorStates, ErrMirrorTopicNotStopped,
	}
}

// ErrNever is wrapped by an error of a driver of mirrors that comes however often it is
// asked: who waits for something else needn't go on.
var ErrNever = errors.New("it never works")

// Never is err, and wraps ErrNever too.
func Never(err error) error { return neverError{err} }

type neverError struct{ error }

func (e neverError) Unwrap() []error { return []error{e.error, ErrNever} }

// ErrorForCode returns the error that code means in a response of the API
// with this key, nil for 0. Codes from 134 on are KIP-1279's in its own APIs
// and in those that a read-only topic refuses; elsewhere they are what Apache
// Kafka 4.4.0 gives them (134 is GROUP_DELETION_FAILED in DeleteGroups).
func ErrorForCode(key, code int16) error {
	if code >= 134 && (RequestForKey(key) != nil || refusesReadOnly(key)) {
		for _, e := range Errors() {
			if e.Code == code {
				return e
			}
		}
	}
	return kerr.ErrorForCode(code)
}

// refusesReadOnly says whether the API may answer READ_ONLY_TOPIC: Produce,
// DeleteRecords, AddPartitionsToTxn, WriteTxnMarkers, and changes of topics.
func refusesReadOnly(key int16) bool {
	switch key {
	case 0, 19, 20, 21, 24, 27, 33, 37, 44:
		return true
	}
	return false
}
