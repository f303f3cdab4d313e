package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"watershed.example/refbroker/internal/ailing"
)

// Action is what an armed point does to who arrives.
type Action string

// The actions.
const (
	// Hold keeps every arrival until [Hooks.Release].
	Hold Action = "hold"
	// Crash ends the broker at the first arrival.
	Crash Action = "crash"
)

// Arrival is one pass of a point, armed or not.
type Arrival struct {
	Point     string `json:"point"`
	Partition string `json:"partition"`
	// At is the wall clock in ns since 1970.
	At int64 `json:"at"`
}

// Armed is a point that holds or crashes. Partition "" stands for all.
type Armed struct {
	Point     string `json:"point"`
	Partition string `json:"partition"`
	Action    Action `json:"action"`
}

// Event is one line of a watch: exactly one field is set.
type Event struct {
	Arrived  *Arrival `json:"arrived,omitempty"`
	Released *Arrival `json:"released,omitempty"`
}

// Hooks is the gate of a broker with test hooks. Every pass is remembered for
// its watchers, so that none can miss an arrival by coming late.
type Hooks struct {
	crash func()
	now   func() time.Time
	// machine is what suffers; nil for one that can't.
	machine *ailing.Machine

	// mu is never held while anything waits.
	mu       sync.Mutex
	armed    []Armed
	held     []*heldPass
	events   []Event
	changed  chan struct{} // closed at the next event
	watchers map[*Watcher]struct{}
}

type heldPass struct {
	Arrival
	release chan struct{}
}

// NewHooks makes hooks with nothing armed. crash must end the broker as
// kill -9 does; in a process it does not return.
func NewHooks(crash func(), now func() time.Time) *Hooks {
	return &Hooks{crash: crash, now: now, changed: make(chan struct{}), watchers: map[*Watcher]struct{}{}}
}

// On has the hooks' clients make the broker's machine ail. It is called before
// [Hooks.Serve].
func (h *Hooks) On(m *ailing.Machine) *Hooks {
	h.machine = m
	return h
}

// flushBefore bounds how long a crash waits for the watchers to be told.
const flushBefore = time.Second

// Pass implements [Gate].
func (h *Hooks) Pass(ctx context.Context, point, partition string) error {
	pass := &heldPass{
		Arrival: Arrival{Point: point, Partition: partition, At: h.now().UnixNano()},
		release: make(chan struct{}),
	}
	h.mu.Lock()
	action := h.actionLocked(point, partition)
	if action == Hold {
		h.held = append(h.held, pass)
	}
	h.addLocked(Event{Arrived: &pass.Arrival})
	h.mu.Unlock()

	switch action {
	case Crash:
		h.flush(ctx)
		h.crash()
		<-ctx.Done() // a simulated crash ends the node by its context
		return context.Cause(ctx)
	case Hold:
		select {
		case <-pass.release:
		case <-ctx.Done():
			h.mu.Lock()
			h.held = slices.DeleteFunc(h.held, func(p *heldPass) bool { return p == pass })
			h.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	return nil
}

func (h *Hooks) actionLocked(point, partition string) Action {
	for _, a := range h.armed {
		if a.Point == point && (a.Partition == "" || a.Partition == partition) {
			return a.Action
		}
	}
	return ""
}

func (h *Hooks) addLocked(e Event) {
	h.events = append(h.events, e)
	close(h.changed)
	h.changed = make(chan struct{})
}

// flush waits, bounded, until every watcher has passed on all events.
func (h *Hooks) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushBefore)
	defer cancel()
	for {
		h.mu.Lock()
		done := true
		for w := range h.watchers {
			done = done && w.passedOn == len(h.events)
		}
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// Arm makes a point hold or crash, for one partition or (with "") for all. An
// earlier arming of the same point and partition is replaced.
func (h *Hooks) Arm(point, partition string, action Action) error {
	if point == "" {
		return fmt.Errorf("no point to arm")
	}
	if action != Hold && action != Crash {
		return fmt.Errorf("unknown action %q (known: %s, %s)", action, Hold, Crash)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disarmLocked(point, partition)
	h.armed = append(h.armed, Armed{Point: point, Partition: partition, Action: action})
	// One partition's arming goes before the one for all.
	slices.SortStableFunc(h.armed, func(a, b Armed) int { return len(b.Partition) - len(a.Partition) })
	return nil
}

func (h *Hooks) disarmLocked(point, partition string) {
	h.armed = slices.DeleteFunc(h.armed, func(a Armed) bool {
		return a.Point == point && (partition == "" || a.Partition == partition)
	})
}

// Release disarms a point and lets those go on who are held there: one
// partition or (with "") all. It returns how many that were.
func (h *Hooks) Release(point, partition string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disarmLocked(point, partition)
	n := 0
	h.held = slices.DeleteFunc(h.held, func(p *heldPass) bool {
		if p.Point != point || (partition != "" && p.Partition != partition) {
			return false
		}
		n++
		close(p.release)
		h.addLocked(Event{Released: &Arrival{Point: p.Point, Partition: p.Partition, At: h.now().UnixNano()}})
		return true
	})
	return n
}

// Status lists what is armed and who is held.
func (h *Hooks) Status() (armed []Armed, held []Arrival) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.held {
		held = append(held, p.Arrival)
	}
	return slices.Clone(h.armed), held
}

// A Watcher reads every event since the hooks were made, in order.
type Watcher struct {
	h *Hooks
	// passedOn counts the events that its reader has dealt with; guarded by
	// the hooks' mu. read counts those handed out.
	passedOn, read int
}

// Watch begins to read events, from the first one on.
func (h *Hooks) Watch() *Watcher {
	w := &Watcher{h: h}
	h.mu.Lock()
	h.watchers[w] = struct{}{}
	h.mu.Unlock()
	return w
}

// Next returns the next event, and waits for it. Calling it says that the
// reader has passed on those before, which a crash waits for.
func (w *Watcher) Next(ctx context.Context) (Event, error) {
	for {
		w.h.mu.Lock()
		w.passedOn = w.read
		if w.read < len(w.h.events) {
			e := w.h.events[w.read]
			w.read++
			w.h.mu.Unlock()
			return e, nil
		}
		changed := w.h.changed
		w.h.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.h.mu.Lock()
	delete(w.h.watchers, w)
	w.h.mu.Unlock()
}
