package psm

import (
	"errors"
	"fmt"
)

// Kafka's error codes that this package answers.
const (
	CodeUnknown                      int16 = -1
	CodeCorruptMessage               int16 = 2
	CodeOutOfOrderSequenceNumber     int16 = 45
	CodeInvalidProducerEpoch         int16 = 47
	CodeInvalidTxnState              int16 = 48
	CodeTransactionCoordinatorFenced int16 = 52
	CodeInvalidRecord                int16 = 87
)

// Error is a refused batch: Kafka's error code for it, and why.
type Error struct {
	// Code is Kafka's error code.
	Code int16
	// ProducerID and Offset name the batch that was refused.
	ProducerID int64
	Offset     int64
	Reason     string
}

// Error says what was refused and why.
func (e *Error) Error() string {
	return fmt.Sprintf("producer %d, batch at offset %d: %s (error code %d)", e.ProducerID, e.Offset, e.Reason, e.Code)
}

// Code gives the Kafka error code that err carries: 0 for nil,
// [CodeUnknown] for an error of another origin.
func Code(err error) int16 {
	if err == nil {
		return 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrShort), errors.Is(err, ErrMagic):
		return CodeCorruptMessage
	}
	return CodeUnknown
}

// What decoders answer, wrapped with where and what.
var (
	// ErrShort says that the bytes end before the thing does.
	ErrShort = errors.New("too few bytes")
	// ErrMagic says that a record batch is not of version 2.
	ErrMagic = errors.New("unsupported magic")
	// ErrCorrupt says that a size, checksum or field can't be right.
	ErrCorrupt = errors.New("corrupt")
	// ErrOffsetOrder says that a batch lies below the end of the state.
	ErrOffsetOrder = errors.New("offset out of order")
	// ErrNoAppend says that Add was called outside Begin and Commit.
	ErrNoAppend = errors.New("no append begun")
)
