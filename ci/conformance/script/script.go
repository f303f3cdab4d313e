// Package script is what the Go clients of the conformance run share: the form of
// their results, and waiting.
package script

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Limit is how long anything may take.
const Limit = 150 * time.Second

// Kit is one behaviour's.
type Kit struct {
	Bootstrap, Prefix, Behaviour string
}

// Behaviour is one part of the script.
type Behaviour func(ctx context.Context, k *Kit) error

var (
	mu      sync.Mutex
	answers = bufio.NewReader(os.Stdin)
)

func put(line map[string]any) {
	raw, err := json.Marshal(line)
	if err != nil {
		raw = fmt.Appendf(nil, `{"behaviour":%q,"fact":"failed","value":%q}`, line["behaviour"], err.Error())
	}
	mu.Lock()
	defer mu.Unlock()
	_, _ = os.Stdout.Write(append(raw, '\n')) // the runner has ended
}

// Fact prints one result.
func (k *Kit) Fact(name string, value any) {
	put(map[string]any{"behaviour": k.Behaviour, "fact": name, "value": value})
}

// Name is a name of this run's own.
func (k *Kit) Name(suffix string) string {
	if suffix == "" {
		return k.Prefix + "-" + k.Behaviour
	}
	return k.Prefix + "-" + k.Behaviour + "-" + suffix
}

// Ask has the runner do what only it can do, and waits for its answer.
func (k *Kit) Ask(what string) string {
	put(map[string]any{"behaviour": k.Behaviour, "ask": what})
	line, _ := answers.ReadString('\n')
	return line[:max(0, len(line)-1)]
}

// Await waits until something holds.
func Await(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	var last error
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s (%w)", what, last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Main runs the behaviours that the arguments name: BOOTSTRAP PREFIX BEHAVIOUR...
func Main(all map[string]Behaviour) {
	for _, name := range os.Args[3:] {
		k := &Kit{os.Args[1], os.Args[2], name}
		run, ok := all[name]
		err := fmt.Errorf("no such behaviour")
		if ok {
			err = run(context.Background(), k)
		}
		if err != nil {
			k.Fact("failed", err.Error())
		}
		put(map[string]any{"behaviour": name, "done": true})
	}
}
