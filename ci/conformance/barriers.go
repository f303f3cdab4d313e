package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// barrierBehaviour reads a topic whose log has a barrier within and one as its
// last batch. Kafka has no mirroring: what is to be seen is worked out here.
const barrierBehaviour = "barrier"

var isolations = []string{"read_committed", "read_uncommitted"}

// mirroredTopic is a topic of its own for each reader: it is written to behind
// the barrier while that reader stands there.
func mirroredTopic(client, isolation string) string { return client + "-barrier-" + isolation }

// barriers makes the logs by real mirrors, from a to b to c, and has every
// client read c. The cluster that it returns is stopped, for the dump tools.
func barriers(ctx context.Context, t tools, clients []client, work string, r *report) (*refbroker, error) {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	var chain []*refbroker
	defer func() {
		for _, c := range chain {
			_ = c.Close(context.WithoutCancel(ctx)) // a second Close does nothing
		}
	}()
	var starting errgroup.Group
	chain = make([]*refbroker, 3)
	for i, name := range []string{"a", "b", "c"} {
		starting.Go(func() (err error) {
			c, err := startRefbroker(ctx, t.refbroker, filepath.Join(work, name), name, 1)
			chain[i] = c
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		chain = slices.DeleteFunc(chain, func(c *refbroker) bool { return c == nil })
		return nil, err
	}
	var topics []string
	for _, c := range clients {
		for _, isolation := range isolations {
			topics = append(topics, mirroredTopic(c.name, isolation))
		}
	}
	if err := fillMirrors(ctx, t, chain, topics); err != nil {
		return nil, err
	}
	a, b, c := chain[0], chain[1], chain[2]
	want := map[string]any{
		"read_committed":   []any{"0:a0", "1:a1", "6:b0", "7:b1"},
		"read_uncommitted": []any{"0:a0", "1:a1", "3:gone", "6:b0", "7:b1"},
	}
	p, err := startFetchCounter(c.Bootstrap()[0])
	if err != nil {
		return nil, err
	}
	defer p.Close()
	// c tells its clients the counter's address from here on.
	if err := c.Stop(ctx, 1); err != nil {
		return nil, err
	}
	c.nodes[0].advertise = p.Addr()
	if err := c.Restart(ctx, 1); err != nil {
		return nil, err
	}
	var all errgroup.Group
	var mu sync.Mutex
	found := map[string]facts{}
	for _, one := range clients {
		all.Go(func() error {
			f, err := one.run(ctx, []string{p.Addr()}, one.name, filepath.Join(work, one.name+".log"), []string{barrierBehaviour}, func(_, ask string) string {
				isolation, what, _ := strings.Cut(ask, " ")
				switch what {
				case "produce":
					if err := produceTo(ctx, c, mirroredTopic(one.name, isolation), "after"); err != nil {
						return err.Error()
					}
					return "produced"
				case "count":
					p.Reset(one.name)
					return "counting"
				case "fetches":
					return p.Calm(one.name)
				}
				return "unknown"
			})
			mu.Lock()
			found[one.name] = f
			mu.Unlock()
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for _, one := range clients {
		var differences []string
		same := 0
		got := found[one.name][barrierBehaviour]
		for _, isolation := range isolations {
			for name, value := range map[string]any{
				isolation: want[isolation], isolation + "-fetches": "calm", isolation + "-goes-on": "after",
			} {
				if text(got[name]) == text(value) {
					same++
				} else {
					differences = append(differences, fmt.Sprintf("%s\n    to be      %s\n    refbroker  %s", name, text(value), text(got[name])))
				}
			}
		}
		if f := got["failed"]; f != nil {
			differences = append(differences, fmt.Sprint("failed: ", f))
		}
		slices.Sort(differences)
		r.row(one.name, barrierBehaviour+" (refbroker alone)", same, 0, differences)
	}
	_ = a
	_ = b
	return c, c.Close(ctx)
}

// fillMirrors leaves in each topic of c: 0 a0, 1 a1, 2 commit, 3 gone, 4 abort,
// 5 barrier of b, 6 b0, 7 b1, 8 barrier of c. A transaction that is open when b
// stops is cut away.
func fillMirrors(ctx context.Context, t tools, chain []*refbroker, topics []string) error {
	a, b, c := chain[0], chain[1], chain[2]
	adm, err := kgo.NewClient(kgo.SeedBrokers(a.Bootstrap()...))
	if err != nil {
		return err
	}
	defer adm.Close()
	if _, err := kadm.NewClient(adm).CreateTopics(ctx, 1, 1, nil, topics...); err != nil {
		return fmt.Errorf("create the topics to be mirrored: %w", err)
	}
	tx, err := kgo.NewClient(kgo.SeedBrokers(a.Bootstrap()...), kgo.TransactionalID("writer"))
	if err != nil {
		return err
	}
	defer tx.Close()
	for _, step := range []struct {
		values []string
		end    kgo.TransactionEndTry
		ends   bool
	}{{[]string{"a0", "a1"}, kgo.TryCommit, true}, {[]string{"gone"}, kgo.TryAbort, true}, {[]string{"open"}, kgo.TryAbort, false}} {
		if err := tx.BeginTransaction(); err != nil {
			return err
		}
		for _, topic := range topics {
			for _, v := range step.values {
				if err := tx.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
					return fmt.Errorf("write %s to %s: %w", v, topic, err)
				}
			}
		}
		if step.ends {
			if err := tx.EndTransaction(ctx, step.end); err != nil {
				return fmt.Errorf("end the transaction of %v: %w", step.values, err)
			}
		}
	}
	if err := mirror(ctx, t, a, b, topics); err != nil {
		return err
	}
	for _, topic := range topics {
		if err := produceTo(ctx, b, topic, "b0", "b1"); err != nil {
			return err
		}
	}
	return mirror(ctx, t, b, c, topics)
}

// mirror starts a mirror, waits until it has all, and stops it.
func mirror(ctx context.Context, t tools, from, to *refbroker, topics []string) error {
	command := func(args ...string) error {
		args = append([]string{"mirrors", args[0], "--bootstrap-server", to.Bootstrap()[0]}, args[1:]...)
		out, err := exec.CommandContext(ctx, t.refbroker, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("refbroker %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	if err := command("create", "m", "--source", from.Bootstrap()[0]); err != nil {
		return err
	}
	if err := command(append([]string{"start", "m", "--wait"}, topics...)...); err != nil {
		return err
	}
	if err := caughtUp(ctx, from, to, topics); err != nil {
		return err
	}
	return command(append([]string{"stop", "m", "--wait"}, topics...)...)
}

// caughtUp waits until both clusters' topics end at the same offsets.
func caughtUp(ctx context.Context, from, to *refbroker, topics []string) error {
	ends := func(c *refbroker) (kadm.ListedOffsets, error) {
		client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	}
	for {
		a, errA := ends(from)
		b, errB := ends(to)
		level := errors.Join(errA, errB) == nil
		a.Each(func(o kadm.ListedOffset) {
			got, ok := b.Lookup(o.Topic, o.Partition)
			level = level && ok && o.Err == nil && got.Err == nil && got.Offset == o.Offset
		})
		if level {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the mirror does not catch up: %w", errors.Join(context.Cause(ctx), errA, errB))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func produceTo(ctx context.Context, c *refbroker, topic string, values ...string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			return fmt.Errorf("write %s to %s: %w", v, topic, err)
		}
	}
	return nil
}
