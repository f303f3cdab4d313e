package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// client is one client library, as a program that runs behaviours:
//
//	PROGRAM BOOTSTRAP PREFIX BEHAVIOUR...
type client struct {
	name       string
	command    []string
	behaviours []string
}

// killLeader is the behaviour that comes last: node 2 is killed once, when the
// clients all are ready for it.
const killLeader = "leader-kill"

func allClients(t tools) []client {
	here := "ci/conformance"
	common := []string{"produce", "transactions", "group", "copy"}
	return []client{
		{"java", []string{
			"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
			"-cp", t.classes + ":" + filepath.Join(t.jars, "*"), "Client",
		}, append(common[:len(common):len(common)], "topics", "configs", "records", "groups-admin", "producers", killLeader)},
		{"franz-go", []string{t.franz}, append(common[:len(common):len(common)], "admin", killLeader)},
		{"confluent-kafka", []string{t.python, filepath.Join(here, "python", "client.py")}, append(common[:len(common):len(common)], "admin", killLeader)},
		{"kcat", []string{t.python, filepath.Join(here, "python", "kcat.py"), t.kcat}, []string{"produce", "transactions", "group"}},
		{"sarama", []string{t.sarama}, append(common[:len(common):len(common)], "admin", killLeader)},
	}
}

// facts is what a client saw, by behaviour and name of the fact.
type facts map[string]map[string]any

// line is one line of a client's output.
type line struct {
	Behaviour string `json:"behaviour"`
	Fact      string `json:"fact"`
	Value     any    `json:"value"`
	Ask       string `json:"ask"`
	Done      bool   `json:"done"`
}

// run runs one client and answers what it asks. A behaviour that does not end
// has the fact "failed".
func (c client) run(ctx context.Context, bootstrap []string, prefix, log string, behaviours []string, answer func(behaviour, ask string) string) (facts, error) {
	args := append(c.command[1:len(c.command):len(c.command)], strings.Join(bootstrap, ","), prefix)
	cmd := exec.CommandContext(ctx, c.command[0], append(args, behaviours...)...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }()
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start client %s: %w", c.name, err)
	}
	found := facts{}
	done := map[string]bool{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l line
		_, _ = fmt.Fprintf(stderr, "%s\n", lines.Bytes()) // what it saw, for people
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			continue
		}
		if found[l.Behaviour] == nil {
			found[l.Behaviour] = map[string]any{}
		}
		switch {
		case l.Ask != "":
			if _, err := io.WriteString(in, answer(l.Behaviour, l.Ask)+"\n"); err != nil {
				_, _ = fmt.Fprintf(stderr, "answer %q: %v\n", l.Ask, err)
			}
		case l.Done:
			done[l.Behaviour] = true
		default:
			found[l.Behaviour][l.Fact] = l.Value
		}
	}
	err = errors.Join(lines.Err(), cmd.Wait())
	for _, b := range behaviours {
		if !done[b] {
			if found[b] == nil {
				found[b] = map[string]any{}
			}
			found[b]["failed"] = fmt.Sprintf("the client ended within it (%v), see %s", err, log)
		}
	}
	if ctx.Err() != nil {
		return found, fmt.Errorf("client %s: %w", c.name, context.Cause(ctx))
	}
	return found, nil
}

// seen is what all clients saw of one cluster.
type seen struct {
	mu    sync.Mutex
	facts map[string]facts

	waiting int           // clients that still are to ask for the kill
	killed  chan struct{} // closed when it is done
	killErr error
}

// run runs the clients against a cluster, all at once: each makes topics and
// groups of its own.
func (s *seen) run(ctx context.Context, c cluster, clients []client, logs string) error {
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	s.facts, s.killed = map[string]facts{}, make(chan struct{})
	s.waiting = len(clients)
	var all errgroup.Group
	for _, one := range clients {
		all.Go(func() error {
			var once sync.Once
			ready := func() { once.Do(func() { s.readyForKill(c) }) }
			// Also when it ends without having asked: the others wait for it.
			defer ready()
			found, err := one.run(ctx, c.Bootstrap(), one.name, filepath.Join(logs, one.name+".log"), one.behaviours, func(_, ask string) string {
				if ask != "kill-2" {
					return "unknown"
				}
				ready()
				<-s.killed
				return "killed"
			})
			s.mu.Lock()
			s.facts[one.name] = found
			s.mu.Unlock()
			return err
		})
	}
	return errors.Join(all.Wait(), s.killErr)
}

// readyForKill kills node 2 when the last client is ready.
func (s *seen) readyForKill(c cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting == 0 {
		s.killErr = c.Kill(2)
		close(s.killed)
	}
}
