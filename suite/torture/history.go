package torture

import (
	"fmt"
	"sync"
	"time"
)

// Outcomes of an operation.
const (
	acknowledged = "acknowledged"
	refused      = "refused" // known to have had no effect
	unknown      = "unknown" // it may have had one, or have it later
)

// entry is what lies at one offset.
type entry struct {
	Offset int64 `json:"offset"`
	// Text is a record's name, or of a marker its kind and producer.
	Text string `json:"text"`

	producer int64
	epoch    int16
	marker   bool
	// transactional: a record of a transaction.
	transactional bool
	commit        bool // of a marker
}

// operation is one thing that a client did. Call and Return number what happens
// in the order in which it does: no operation was invoked or returned at the
// same moment as another.
type operation struct {
	ID        int       `json:"id"`
	Client    int       `json:"client"`
	Name      string    `json:"name"`
	Kind      string    `json:"kind"` // append, read, init, end
	Partition partition `json:"partition,omitzero"`
	Call      int64     `json:"call"`
	Return    int64     `json:"return,omitempty"` // 0: never
	Called    time.Time `json:"called"`
	Returned  time.Time `json:"returned,omitzero"`
	Outcome   string    `json:"outcome,omitempty"`
	Error     string    `json:"error,omitempty"`
	Tries     int       `json:"tries,omitempty"`

	// Of append: its records; once acknowledged where the first lies, -1 where
	// the broker only says that they are there.
	Records []string `json:"records,omitempty"`
	Offset  int64    `json:"offset"`
	// Transaction and the producer, of append, init and end.
	Transaction string `json:"transaction,omitempty"`
	Producer    int64  `json:"producer"`
	Epoch       int16  `json:"epoch"`
	Commit      bool   `json:"commit,omitempty"`
	// Of read: what lay from Offset on.
	Entries []entry `json:"entries,omitempty"`
}

// note is something that happened and is no operation: a fault, its end.
type note struct {
	At   int64     `json:"at"`
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// history is what happened in one run.
type history struct {
	mu         sync.Mutex // never held while waiting
	clock      int64
	Operations []*operation `json:"operations"`
	Notes      []note       `json:"notes"`
}

// call records an invocation.
func (h *history) call(o operation) *operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	o.ID, o.Call, o.Called = len(h.Operations), h.clock, time.Now()
	h.Operations = append(h.Operations, &o)
	return &o
}

// returned records an end; f fills in what came of it.
func (h *history) returned(o *operation, outcome string, f func(*operation)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	o.Return, o.Returned, o.Outcome = h.clock, time.Now(), outcome
	if f != nil {
		f(o)
	}
}

// notef records something else.
func (h *history) notef(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	h.Notes = append(h.Notes, note{h.clock, time.Now(), fmt.Sprintf(format, args...)})
}
