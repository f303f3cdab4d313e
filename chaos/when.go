package chaos

import (
	"errors"
	"fmt"
	"strconv"
)

// When is what plans of all kinds say of their time beside their point.
type When struct {
	// Stop is the number of the stop that the fault strikes in a story of several,
	// from 1; 0 for the first that its target has a part in.
	Stop int
	// UntilStopped leaves the fault in place until STOPPED was seen. Else it is healed
	// at its point, before the stop goes on.
	UntilStopped bool
}

// maxStop is more than any story has.
const maxStop = 1000

// String is the end of a plan's line.
func (w When) String() (s string) {
	if w.Stop != 0 {
		s += fmt.Sprintf(" stop=%d", w.Stop)
	}
	if w.UntilStopped {
		s += " until=stopped"
	}
	return s
}

func (w *When) setStop(value string) (err error) {
	w.Stop, err = strconv.Atoi(value)
	return err
}

func (w *When) setUntil(value string) error {
	if value != "stopped" {
		return errors.New(`want "stopped": without it a fault is healed at its point`)
	}
	w.UntilStopped = true
	return nil
}

func (w When) validate() error {
	if w.Stop < 0 || w.Stop > maxStop {
		return fmt.Errorf("stop %d must lie between 0 and %d", w.Stop, maxStop)
	}
	return nil
}
