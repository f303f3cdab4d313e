package txn

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// describe tells an outcome in a word or two.
func describe(o outcome) string {
	var code *kerr.Error
	switch {
	case o.rotate:
		return "rotate"
	case o.write != nil:
		return fmt.Sprintf("%s %d", o.write.State, o.write.Epoch)
	case errors.As(o.err, &code):
		return code.Message
	default:
		return fmt.Sprintf("NONE %d", o.answer.epoch)
	}
}

func describeLast(o outcome) string {
	s := describe(o)
	if o.write == nil {
		return s
	}
	s = fmt.Sprintf("%s last %d", s, o.write.LastEpoch)
	var code *kerr.Error
	if errors.As(o.err, &code) {
		s += " then " + code.Message
	}
	return s
}
