package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What is measured of brokers that start.
var (
	readyOne   = measure{Name: "ready, 1 node", Unit: "s", Limit: 0.3, Less: true}
	readyThree = measure{Name: "ready, 3 nodes", Unit: "s", Limit: 1.5, Less: true}
	idle       = measure{Name: "resident, idle", Unit: "MB", Limit: 60, Less: true}
	recovery   = measure{Name: "recovery of 1 GiB", Unit: "s", Limit: 3, Less: true}
)

func measureStarts(ctx context.Context, o options, res *results) error {
	var kafka func(ctx context.Context, o options, dir string, more ...string) (*broker, error)
	if o.kafkaLib != "" {
		kafka = startKafka
	}
	dir := 0
	fresh := func() string {
		dir++
		return filepath.Join(o.dir, fmt.Sprintf("start-%d", dir))
	}
	note := func(round int, m measure, name string, v, noise float64) {
		fmt.Fprintf(os.Stderr, "round %d  %-28s %-10s %10.4g %-5s others %2.0f %%\n", round+1, m.Name, name, v, m.Unit, 100*noise)
		res.add(m, name, sample{Value: v, Others: noise})
	}
	for round := range o.rounds {
		for _, who := range []struct {
			name  string
			start func(ctx context.Context, o options, dir string, more ...string) (*broker, error)
		}{{ours, startRefbroker}, {theirs, kafka}} {
			if who.start == nil {
				continue
			}
			if o.only.MatchString(readyOne.Name) || o.only.MatchString(idle.Name) {
				before := readTicks()
				took, mb, err := readyAndIdle(ctx, o, fresh(), who.start)
				if err != nil {
					return fmt.Errorf("%s: %w", who.name, err)
				}
				noise := before.others(readTicks()) // which has the broker in it
				note(round, readyOne, who.name, took, noise)
				note(round, idle, who.name, mb, noise)
			}
			if o.only.MatchString(recovery.Name) {
				before := readTicks()
				took, err := recover1GiB(ctx, o, fresh(), who.start)
				if err != nil {
					return fmt.Errorf("%s: %w", who.name, err)
				}
				note(round, recovery, who.name, took, before.others(readTicks()))
			}
		}
		if o.only.MatchString(readyThree.Name) {
			before := readTicks()
			took, err := readyOfThree(ctx, o, fresh())
			if err != nil {
				return fmt.Errorf("three nodes: %w", err)
			}
			note(round, readyThree, ours, took, before.others(readTicks()))
		}
	}
	return nil
}

// firstProduce makes a topic and has one record acknowledged. Before a cluster
// is whole, it may refuse the one or the other.
func firstProduce(ctx context.Context, addr string, replicas int16, n int32) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cl, err := client(addr, kgo.DefaultProduceTopic("first"))
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		_, err = kadm.NewClient(cl).CreateTopic(ctx, n, replicas, nil, "first")
		if err == nil {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("create the first topic: %w", err)
		}
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte("first")}).FirstErr(); err != nil {
		return fmt.Errorf("first produce: %w", err)
	}
	return nil
}

// readyAndIdle is how long a node takes from its start to its first
// acknowledged record, and what memory it then has when nothing happens.
func readyAndIdle(ctx context.Context, o options, dir string, start func(context.Context, options, string, ...string) (*broker, error)) (took, mb float64, err error) {
	b, err := start(ctx, o, dir)
	if b != nil {
		defer func() {
			b.kill()
			err = errors.Join(err, os.RemoveAll(dir))
		}()
	}
	if err != nil {
		return 0, 0, err
	}
	if err := firstProduce(ctx, b.addr, 1, partitions); err != nil {
		return 0, 0, err
	}
	took = time.Since(b.started).Seconds()
	select {
	case <-time.After(2 * time.Second): // it is idle then
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
	mb, err = b.residentMB()
	return took, mb, err
}

// readyOfThree is how long three nodes take from the start of the first to the
// first record that all have.
func readyOfThree(ctx context.Context, o options, dir string) (took float64, err error) {
	addrs, err := freeAddrs(6)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	type started struct {
		b   *broker
		err error
	}
	all := make(chan started, 3)
	began := time.Now()
	for i := range 3 {
		args := []string{"--node-id", fmt.Sprint(i + 1), "--cluster-id", "bench", "--listen", addrs[i], "--raft-listen", addrs[3+i]}
		for j := range 3 {
			args = append(args, "--voter", fmt.Sprintf("%d=%s", j+1, addrs[3+j]))
		}
		go func() {
			b, err := startRefbroker(ctx, o, filepath.Join(dir, fmt.Sprint(i+1)), args...)
			all <- started{b, err}
		}()
	}
	for range 3 {
		s := <-all
		if s.b != nil {
			defer s.b.kill()
		}
		err = errors.Join(err, s.err)
	}
	if err != nil {
		return 0, err
	}
	if err := firstProduce(ctx, addrs[0], 3, partitions); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), nil
}

// recover1GiB fills one partition with a GiB that is never flushed, kills the
// node and gives how long it takes from its next start until a record is
// acknowledged there.
func recover1GiB(ctx context.Context, o options, dir string, start func(context.Context, options, string, ...string) (*broker, error)) (took float64, err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := start(ctx, o, dir)
	if b != nil {
		defer func() { b.kill() }()
	}
	if err != nil {
		return 0, err
	}
	if err := firstProduce(ctx, b.addr, 1, 1); err != nil {
		return 0, err
	}
	// A little below segment.bytes: a segment that is rolled is flushed.
	n := int(o.scale * (1<<30 - 16<<20) / (1024 + 8))
	if _, err := produce(ctx, b.addr, "first", 1024, n); err != nil {
		return 0, err
	}
	b.kill()
	if b, err = start(ctx, o, dir); err != nil {
		return 0, err
	}
	cl, err := client(b.addr, kgo.DefaultProduceTopic("first"))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte("after")}).FirstErr(); err != nil {
		return 0, err
	}
	took = time.Since(b.started).Seconds()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, "first")
	if err != nil {
		return 0, err
	}
	if end, ok := ends.Lookup("first", 0); !ok || end.Offset != int64(n)+3 {
		return 0, fmt.Errorf("log ends at %d after the recovery, want %d", end.Offset, n+3)
	}
	return took, nil
}
