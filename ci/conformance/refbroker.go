package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"watershed.example/fixtures"
	"watershed.example/fixtures/child"
)

// refbroker is a cluster of processes of the command itself, as people start it.
type refbroker struct {
	binary, dir, name string
	nodes             []*refNode
	extra             []string // flags for every node
}

type refNode struct {
	id           int
	client, raft string
	advertise    string
	process      *child.Process
}

// startRefbroker starts a cluster with nodes 1 to n. As a port may be taken
// between being found and being used, it tries again with others.
func startRefbroker(ctx context.Context, binary, dir, name string, n int, extra ...string) (*refbroker, error) {
	for attempt := 1; ; attempt++ {
		r := &refbroker{binary: binary, dir: dir, name: name, extra: extra}
		err := r.start(ctx, n)
		if err == nil {
			return r, nil
		}
		taken := r.portTaken()
		err = errors.Join(err, r.Close(ctx))
		if !taken || attempt == 3 || ctx.Err() != nil {
			return nil, fmt.Errorf("start refbroker %s: %w", name, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
}

func (r *refbroker) start(ctx context.Context, n int) error {
	for id := 1; id <= n; id++ {
		node := &refNode{id: id}
		for _, at := range []*string{&node.client, &node.raft} {
			port, err := fixtures.FreePort()
			if err != nil {
				return err
			}
			*at = fmt.Sprintf("127.0.0.1:%d", port)
		}
		if err := os.MkdirAll(r.nodeDir(id), 0o755); err != nil {
			return err
		}
		r.nodes = append(r.nodes, node)
	}
	var all errgroup.Group
	for _, node := range r.nodes {
		all.Go(func() error { return r.run(ctx, node) })
	}
	return all.Wait()
}

func (r *refbroker) nodeDir(id int) string { return filepath.Join(r.dir, fmt.Sprintf("node-%d", id)) }
func (r *refbroker) log(id int) string     { return filepath.Join(r.nodeDir(id), "server.log") }

func (r *refbroker) portTaken() bool {
	for _, n := range r.nodes {
		if raw, err := os.ReadFile(r.log(n.id)); err == nil && strings.Contains(string(raw), "address already in use") {
			return true
		}
	}
	return false
}

// clusterID is what all nodes of a cluster are started with.
func (r *refbroker) clusterID() string { return (r.name + strings.Repeat("A", 22))[:22] }

func (r *refbroker) run(ctx context.Context, n *refNode) error {
	args := []string{
		"serve", "--data-dir", filepath.Join(r.nodeDir(n.id), "data"), "--node-id", fmt.Sprint(n.id), "--cluster-id", r.clusterID(),
		"--listen", n.client, "--raft-listen", n.raft,
	}
	if len(r.nodes) > 1 {
		for _, v := range r.nodes {
			args = append(args, "--voter", fmt.Sprintf("%d=%s", v.id, v.raft))
		}
	}
	if n.advertise != "" {
		args = append(args, "--advertise", n.advertise)
	}
	// What its log has from an earlier life is not about this one.
	served := countServes(r.log(n.id))
	var err error
	if n.process, err = child.Start(child.Spec{Path: r.binary, Args: append(args, r.extra...), Log: r.log(n.id)}); err != nil {
		return err
	}
	for countServes(r.log(n.id)) == served {
		select {
		case <-n.process.Done():
			return fmt.Errorf("node %d ended before it served: %w", n.id, n.process.Ending())
		case <-ctx.Done():
			return fmt.Errorf("node %d does not serve: %w; %s", n.id, context.Cause(ctx), child.LastWords(r.log(n.id)))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// countServes counts the lines by which a node says that it serves.
func countServes(log string) int {
	raw, _ := os.ReadFile(log) // it may not be there yet
	return strings.Count(string(raw), "refbroker: node ")
}

func (r *refbroker) Name() string { return "refbroker" }

func (r *refbroker) Bootstrap() []string {
	var all []string
	for _, n := range r.nodes {
		all = append(all, n.client)
	}
	return all
}

func (r *refbroker) DataDir(id int) string { return filepath.Join(r.nodeDir(id), "data", "logs") }

func (r *refbroker) Kill(id int) error {
	err := r.nodes[id-1].process.Kill()
	r.nodes[id-1].process = nil
	return err
}

func (r *refbroker) Restart(ctx context.Context, id int) error { return r.run(ctx, r.nodes[id-1]) }

func (r *refbroker) Stop(ctx context.Context, id int) error {
	if r.nodes[id-1].process == nil {
		return nil
	}
	err := r.nodes[id-1].process.Stop(ctx)
	r.nodes[id-1].process = nil
	return err
}

func (r *refbroker) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var all errgroup.Group
	for _, n := range r.nodes {
		if n.process != nil {
			all.Go(func() error { return n.process.Stop(ctx) })
		}
	}
	err := all.Wait()
	for _, n := range r.nodes {
		n.process = nil
	}
	return err
}
