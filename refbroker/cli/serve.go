package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"watershed.example/refbroker/internal/ailing"
	"watershed.example/refbroker/internal/broker"
	"watershed.example/refbroker/internal/gate"
)

func serveCommand(h Host) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker until Ctrl-C",
		Long: `Run a broker. Without flags it is a cluster of one node that listens on
127.0.0.1:9092 and keeps its data in ./refbroker-data, where the next start
finds it again.

Clients reach a node at the address of the listener that they came in on, so a
proxy before the node gets a listener of its own, which advertises the proxy:

  refbroker serve --listener link-to-b=127.0.0.1:9093/127.0.0.1:19093

Several nodes are one cluster when all are given the same cluster id and voters:

  refbroker serve --node-id 1 --cluster-id $ID --raft-listen 127.0.0.1:9191 \
    --voter 1=127.0.0.1:9191 --voter 2=127.0.0.1:9192 --voter 3=127.0.0.1:9193

Flags may come from a file, in YAML, under their names:

  node-id: 1
  data-dir: /var/lib/refbroker
  voter:
    1: 10.0.0.1:9191
    2: 10.0.0.2:9191
  topic-defaults:
    min.insync.replicas: 2

Each flag has a variable of the same meaning, such as REFBROKER_NODE_ID for --node-id; flags that may be
repeated take several values there, with space between. The command line goes before variables, and these
before the file.

SIGINT and SIGTERM stop it cleanly; a second one at once.`,
		Example: `  refbroker serve
  refbroker serve --data-dir /tmp/east --listen 127.0.0.1:19092
  refbroker serve --config /etc/refbroker.yaml --http 127.0.0.1:9404 --log-format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := fromEnvironment(h.Getenv, c.Flags()); err != nil {
				return usageError{err}
			}
			if f.configFile != "" {
				if err := fromFile(h.FS, f.configFile, c.Flags()); err != nil {
					return usageError{err}
				}
			}
			return serve(c.Context(), h, f)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// serve runs a node until ctx ends, the lifeline breaks or the node fails.
func serve(ctx context.Context, h Host, f serveFlags) (err error) {
	cfg, err := f.config()
	if err != nil {
		return usageError{err}
	}
	cfg.Host, cfg.Log = h.Host, f.logger(h.Stderr)
	ready, err := inherited("ready-fd", f.readyFD)
	if err != nil {
		return usageError{err}
	}
	lifeline, err := inherited("lifeline-fd", f.lifelineFD)
	if err != nil {
		return usageError{err}
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	if lifeline != nil {
		work.Go(func() { watchLifeline(lifeline, cancel) })
		defer func() { _ = lifeline.Close() }()
	}
	if f.testHooks != "" {
		machine := ailing.New()
		cfg.Host = machine.Host(h.Host)
		hooks := gate.NewHooks(h.Crash, h.Now).On(machine)
		l, err := gate.Listen(ctx, h.Host, f.testHooks)
		if err != nil {
			return err
		}
		cfg.Gate = hooks
		work.Go(func() {
			if err := hooks.Serve(ctx, l); err != nil {
				cfg.Log.Error("test hooks ended", "error", err)
			}
		})
	}
	httpAt := ""
	if f.http != "" {
		var end func()
		if cfg.Operations, httpAt, end, err = serveOperations(ctx, h.Host, f.http); err != nil {
			return err
		}
		defer end()
	}
	var told error
	if ready != nil && len(cfg.Voters) > 1 {
		cfg.OnQuorum = func(address string) { _, told = fmt.Fprintf(ready, "{\"quorum\":%q}\n", address) }
	}
	n, err := broker.Start(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // stopped while it started
		}
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := errors.Join(told, announce(h, f, ready, n, httpAt)); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		cfg.Log.Info("shutting down")
	case <-n.Failed():
		return n.Err()
	}
	return nil
}

// readiness is the line that --ready-fd gets.
type readiness struct {
	ClusterID string            `json:"clusterId"`
	NodeID    int32             `json:"nodeId"`
	Listeners map[string]string `json:"listeners"`
	// HTTP is where health and metrics are served, "" for nowhere.
	HTTP string `json:"http,omitempty"`
}

// announce tells that the node serves: people on Stdout, a launcher on its
// descriptor.
func announce(h Host, f serveFlags, ready *os.File, n *broker.Node, httpAt string) error {
	_, _ = fmt.Fprintf(h.Stdout, "refbroker: node %d of cluster %s serves %s, data in %s\n", f.nodeID, n.ClusterID(), n.Addrs()["client"], f.dataDir)
	if ready == nil {
		return nil
	}
	line, err := json.Marshal(readiness{n.ClusterID(), f.nodeID, n.Addrs(), httpAt})
	if err == nil {
		_, err = ready.Write(append(line, '\n'))
	}
	if err = errors.Join(err, ready.Close()); err != nil {
		return fmt.Errorf("--ready-fd %d: %w", f.readyFD, err)
	}
	return nil
}

// watchLifeline calls lost once the other end of the pipe is gone. It returns
// then, or when the file is closed.
func watchLifeline(lifeline *os.File, lost func()) {
	buf := make([]byte, 64)
	for {
		if _, err := lifeline.Read(buf); err != nil {
			lost()
			return
		}
	}
}

// inherited is the file of a descriptor that this process was started with;
// nil for -1.
func inherited(flag string, fd int) (*os.File, error) {
	if fd < 0 {
		return nil, nil
	}
	if fd <= 2 {
		// A standard stream stays open when its copy is closed: what is opened
		// next must never get its number, and be written to by mistake.
		var err error
		if fd, err = duplicate(fd); err != nil {
			return nil, fmt.Errorf("--%s %d: not an open descriptor: %w", flag, fd, err)
		}
	}
	// Nonblocking, so that Close ends a Read.
	if err := setNonblock(fd); err != nil {
		return nil, fmt.Errorf("--%s %d: not an open descriptor: %w", flag, fd, err)
	}
	file := os.NewFile(uintptr(fd), flag)
	if file == nil {
		return nil, fmt.Errorf("--%s %d: not a descriptor", flag, fd)
	}
	return file, nil
}

// logger writes to a file of the process's.
func (f serveFlags) logger(w interface{ Write([]byte) (int, error) }) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if f.logFormat == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(handler).With("node", f.nodeID)
}

// checkAddress refuses what is not HOST:PORT with a port from lowest on.
func checkAddress(flag, addr string, lowest int) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--%s %q: want HOST:PORT", flag, addr)
	}
	n, err := parsePort(port)
	if err != nil || n < lowest {
		return fmt.Errorf("--%s %q: port %q is not a number from %d to 65535", flag, addr, port, lowest)
	}
	return nil
}
