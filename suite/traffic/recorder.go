package traffic

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// Recorder writes a history. The first event that cannot be written sticks:
// Err returns it, so that callers need not look at each.
type Recorder struct {
	w       *history.Writer
	episode int32
	first   *firstError
}

// firstError is shared by the recorders of one history.
type firstError struct {
	mu  sync.Mutex
	err error
}

// NewRecorder records into w.
func NewRecorder(w *history.Writer) *Recorder { return &Recorder{w: w, first: new(firstError)} }

// In returns a recorder of the same history for what belongs to one episode.
func (r *Recorder) In(episode int32) *Recorder {
	return &Recorder{w: r.w, episode: episode, first: r.first}
}

// Episode is the number of the episode whose events r records; 0 for none.
func (r *Recorder) Episode() int32 { return r.episode }

// Add appends one event, which belongs to the recorder's episode unless it says
// otherwise.
func (r *Recorder) Add(e history.Event) {
	if e.Episode == 0 {
		e.Episode = r.episode
	}
	if _, err := r.w.Append(e); err != nil {
		r.first.mu.Lock()
		defer r.first.mu.Unlock()
		if r.first.err == nil {
			r.first.err = err
		}
	}
}

// Op returns a new operation number.
func (r *Recorder) Op() int64 { return r.w.NextOp() }

// Phase records that a phase of the run began.
func (r *Recorder) Phase(name history.PhaseName) {
	r.Add(history.Event{Kind: history.KindPhase, Phase: &history.Phase{Name: name}})
}

// Note records free text for the person who reads the history.
func (r *Recorder) Note(format string, args ...any) {
	r.Add(history.Event{Kind: history.KindNote, Note: fmt.Sprintf(format, args...)})
}

// Err returns the first error of Add.
func (r *Recorder) Err() error {
	r.first.mu.Lock()
	defer r.first.mu.Unlock()
	return r.first.err
}

// Partition is one partition of a topic.
type Partition struct {
	Topic string
	Index int32
}

// String returns the partition's name, such as "orders-3".
func (p Partition) String() string { return history.Place(p.Topic, p.Index) }

// Cluster is how traffic reaches one cluster.
type Cluster struct {
	// Name is the cluster's name in histories, such as "A".
	Name string
	// Bootstrap addresses of the client link.
	Bootstrap []string
	// Dialer makes the dialer of the client with that name, which sees to it
	// that the right cluster answers (FA-17); nil for the network's own.
	Dialer func(client string) func(ctx context.Context, network, address string) (net.Conn, error)
	// Opts are what each client of the cluster needs beside that: who it says it is.
	Opts []kgo.Opt
	// Space begins transactional ids and groups on the wire, where others use the
	// cluster too, or an earlier run did; histories go without it.
	Space string
	// Mirrors drives the cluster's mirrors; nil for the requests of KIP-1279.
	Mirrors mirrorrpc.Mirrors
	// Pace is how often it is fit to describe them; 0 for every 10 ms.
	Pace time.Duration
	// Asked is told the names of topics before they are created there, and says how long
	// the answer is waited for; nil for nobody.
	Asked func(ctx context.Context, topics ...string) (context.Context, context.CancelFunc)
}

// named is a transactional id, or a group's name, on the wire.
func (c Cluster) named(name string) string { return c.Space + name }

// Rand returns the random numbers of one writer of a run: the seed and the
// name decide them, whatever else runs at the same time.
func Rand(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// readOnlyCode is READ_ONLY_TOPIC in KIP-1279's development build.
const readOnlyCode = 134

// resultOf says what err tells a client about a request that may have been
// appended. Errors that no broker sent leave the outcome unknown.
func resultOf(err error) *history.Result {
	if err == nil {
		return &history.Result{Outcome: history.OK}
	}
	if ke := new(kerr.Error); errors.As(err, &ke) {
		if own := mirrorrpc.ErrorForCode(int16(kmsg.Produce), ke.Code); ke.Code == readOnlyCode && own != nil {
			// The library knows another error by this code, and keeps the
			// broker's message to itself.
			return &history.Result{Outcome: history.OutcomeOf(ke.Code), Code: ke.Code, Message: own.Error()}
		}
		return &history.Result{Outcome: history.OutcomeOf(ke.Code), Code: ke.Code, Message: err.Error()}
	}
	return &history.Result{Outcome: history.Unknown, Message: err.Error()}
}

// resultOfCode is resultOf for a code and the message that came with it.
func resultOfCode(code int16, message *string) *history.Result {
	r := &history.Result{Outcome: history.OutcomeOf(code), Code: code}
	if message != nil {
		r.Message = *message
	}
	return r
}

// ended says whether err only tells that ctx ended.
func ended(ctx context.Context) bool { return ctx.Err() != nil }
