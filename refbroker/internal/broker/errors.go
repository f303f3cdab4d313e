package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/wire"
)

// errorOf is an error as a response carries it: its code, and what happened in
// words. Codes from 134 on are ambiguous between builds of Kafka, so handlers
// send the words wherever the API has a field for them.
func errorOf(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	message := err.Error()
	var k *kerr.Error
	switch {
	case errors.As(err, &k):
		return k.Code, &message
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, wire.ErrClosing):
		// A broker that shuts down doesn't know what became of the request any
		// more than one that ran out of time; clients try both again.
		return kerr.RequestTimedOut.Code, &message
	}
	return kerr.UnknownServerError.Code, &message
}

// codeOf is errorOf for APIs without words.
func codeOf(err error) int16 {
	code, _ := errorOf(err)
	return code
}
