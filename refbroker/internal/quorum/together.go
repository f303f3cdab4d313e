package quorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A PartitionCommand changes one partition and nothing else, so that many of
// them can be one record: see [Together].
type PartitionCommand interface {
	Command
	// edits says which partition it changes, and how; img is the image that it
	// meets, of which edit gets the partition.
	edits(img *Image) (topic string, index int32, edit func(*Partition) error)
}

// applyEdit is the apply of a command that is alone.
func applyEdit(c PartitionCommand, img *Image) (*Image, any, error) {
	topic, index, edit := c.edits(img)
	next, p, err := img.editPartition(topic, index, edit)
	return next, p, err
}

// Together is many partition commands in one record. Each is refused or takes
// effect by itself, in their order; the result has a [Verdict] for each. A
// thousand partitions that stop at once so cost the quorum two records, and
// each node two images, not two thousand (OPS-3).
type Together struct {
	Commands []json.RawMessage `json:"commands"`
}

// Verdict is what became of one command of [Together].
type Verdict struct {
	// Error is "" for a success; Code and Name are those of the *kerr.Error in
	// it, if any.
	Error string `json:"error,omitempty"`
	Code  int16  `json:"code,omitempty"`
	Name  string `json:"name,omitempty"`
}

// Err is the refusal, nil for none.
func (v Verdict) Err() error { return forwarded{Error: v.Error, Code: v.Code, Name: v.Name}.err() }

// NewTogether encodes commands into one.
func NewTogether(commands []PartitionCommand) (Together, error) {
	var t Together
	for _, c := range commands {
		raw, err := Encode(c)
		if err != nil {
			return t, err
		}
		t.Commands = append(t.Commands, raw)
	}
	return t, nil
}

// Kind names the command.
func (Together) Kind() (string, int) { return "Together", 1 }

func (c Together) apply(img *Image) (*Image, any, error) {
	next := img.clone()
	next.Topics = maps.Clone(img.Topics)
	// Topics are copied once, however many of their partitions change.
	own := map[string]*Topic{}
	verdicts := make([]Verdict, len(c.Commands))
	for i, raw := range c.Commands {
		command, err := Decode(raw)
		if errors.Is(err, ErrUnknownCommand) {
			return nil, nil, err
		}
		if err == nil {
			err = next.editOwn(command, own)
		}
		if err != nil {
			f := refusal(err)
			verdicts[i] = Verdict{Error: f.Error, Code: f.Code, Name: f.Name}
		}
	}
	return next, verdicts, nil
}

// editOwn edits a partition of an image that nobody else has seen yet.
func (img *Image) editOwn(command Command, own map[string]*Topic) error {
	c, ok := command.(PartitionCommand)
	if !ok {
		name, _ := command.Kind()
		return fmt.Errorf("%s changes more than a partition: %w", name, kerr.InvalidRequest)
	}
	topic, index, edit := c.edits(img)
	t, old, err := img.Partition(topic, index)
	if err != nil {
		return err
	}
	p := *old
	if err := edit(&p); err != nil {
		return fmt.Errorf("partition %s-%d: %w", topic, index, err)
	}
	p.PartitionEpoch++
	if own[topic] == nil {
		nt := *t
		nt.Partitions = slices.Clone(t.Partitions)
		own[topic], img.Topics[topic] = &nt, &nt
	}
	own[topic].Partitions[index] = &p
	return nil
}

// maxTogether bounds the commands of one record, and so its size.
const maxTogether = 4096

// Batcher gathers partition commands that are proposed at the same time into
// one record: while one is on its way to the quorum, those that come meanwhile
// wait for the next. A command that is alone is proposed as it is.
type Batcher struct {
	apply func(context.Context, Command) (any, error)

	mu      sync.Mutex // never held while waiting
	waiting []proposal
	running bool
	work    sync.WaitGroup
}

type proposal struct {
	command PartitionCommand
	done    chan error // holds one
}

// NewBatcher makes a batcher over a quorum's Apply.
func NewBatcher(apply func(context.Context, Command) (any, error)) *Batcher {
	return &Batcher{apply: apply}
}

// Apply proposes a command, as [Node.Apply] does. A caller whose ctx ends does
// not take the command back. life bounds the proposal itself, which others may
// share; who ends it waits with [Batcher.Wait].
func (b *Batcher) Apply(ctx, life context.Context, c PartitionCommand) error {
	p := proposal{c, make(chan error, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	if !b.running {
		b.running = true
		b.work.Go(func() { b.run(life) })
	}
	b.mu.Unlock()
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait waits for proposals that are under way.
func (b *Batcher) Wait() { b.work.Wait() }

func (b *Batcher) run(ctx context.Context) {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), maxTogether)
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.running = n > 0
		b.mu.Unlock()
		switch n {
		case 0:
			return
		case 1:
			_, err := b.apply(ctx, batch[0].command)
			batch[0].done <- err
		default:
			b.propose(ctx, batch)
		}
	}
}

func (b *Batcher) propose(ctx context.Context, batch []proposal) {
	commands := make([]PartitionCommand, len(batch))
	for i, p := range batch {
		commands[i] = p.command
	}
	var verdicts []Verdict
	t, err := NewTogether(commands)
	if err == nil {
		var result any
		result, err = b.apply(ctx, t)
		verdicts, _ = result.([]Verdict)
	}
	if err == nil && len(verdicts) != len(batch) {
		err = fmt.Errorf("%d commands together: %d verdicts", len(batch), len(verdicts))
	}
	for i, p := range batch {
		if err != nil {
			p.done <- err
			continue
		}
		p.done <- verdicts[i].Err()
	}
}
