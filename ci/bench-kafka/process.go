package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"watershed.example/fixtures"
	"watershed.example/fixtures/child"
)

// broker is a process that serves the Kafka protocol.
type broker struct {
	*child.Process
	name    string
	addr    string
	started time.Time
	log     string
	// stop ends the wait for the end of the context that kills it.
	stop func() bool
}

// launch starts a program whose output goes to a file. It is killed when ctx
// ends, and must not outlive this one.
func launch(ctx context.Context, name, log string, spec child.Spec) (*broker, error) {
	spec.Log = log
	began := time.Now()
	p, err := child.Start(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &broker{
		Process: p, name: name, started: began, log: log,
		stop: context.AfterFunc(ctx, func() { _ = p.Kill() }),
	}, nil
}

// kill ends the process without a chance to clean up.
func (b *broker) kill() {
	b.stop()
	_ = b.Kill()
}

// startRefbroker starts a node on dir with the defaults of serve.
func startRefbroker(ctx context.Context, o options, dir string, more ...string) (*broker, error) {
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = ready.Close() }()
	args := append([]string{"serve", "--data-dir", dir, "--ready-fd", "3", "--log-level", "warn"}, more...)
	if !strings.Contains(strings.Join(more, " "), "--listen ") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	b, err := launch(ctx, "refbroker", dir+".log", child.Spec{Path: o.refbroker, Args: args, ExtraFiles: []*os.File{theirs}})
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	var told struct{ Listeners map[string]string }
	lines := json.NewDecoder(ready) // the last one says where it listens
	for err == nil && told.Listeners == nil {
		err = lines.Decode(&told)
	}
	if err != nil {
		b.kill()
		return nil, fmt.Errorf("refbroker is not ready (see %s): %w", b.log, err)
	}
	b.addr = told.Listeners["client"]
	return b, nil
}

// javaFlags are those of kafka-server-start.sh.
var javaFlags = []string{
	"-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
	"-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
}

// kafkaDefaults are what one node in KRaft mode needs and nothing else: its
// addresses, its folder, and one replica for topics that would have three.
const kafkaDefaults = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
controller.listener.names=CONTROLLER
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
`

func (o options) kafka(class string, args ...string) []string {
	return slices.Concat(javaFlags, []string{"-cp", filepath.Join(o.kafkaLib, "*"), class}, args)
}

// startKafka starts one node on dir, which is formatted if it is new.
func startKafka(ctx context.Context, o options, dir string, settings ...string) (*broker, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(dir)
	isNew := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file := dir + ".properties"
	text := fmt.Sprintf(kafkaDefaults, addrs[0], addrs[1], dir) + strings.Join(settings, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if isNew {
		if out, err := exec.CommandContext(ctx, "java", o.kafka("kafka.tools.StorageTool", "format", "-t", "d2F0ZXJzaGVkLWJlbmNoIQ", "-c", file)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format Kafka's folder: %w: %s", err, out)
		}
	}
	b, err := launch(ctx, "kafka", dir+".log", child.Spec{Path: "java", Args: o.kafka("kafka.Kafka", file)})
	if err != nil {
		return nil, err
	}
	b.addr = addrs[0]
	return b, b.waitListening(ctx)
}

// waitListening waits until the process takes connections.
func (b *broker) waitListening(ctx context.Context) error {
	for {
		c, err := net.DialTimeout("tcp", b.addr, time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-b.Done():
			return fmt.Errorf("%s ended at its start, see %s", b.name, b.log)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// freeAddrs are loopback addresses that were free a moment ago.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		port, err := fixtures.FreePort()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	return addrs, nil
}

// residentMB is the resident memory of the process.
func (b *broker) residentMB() (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", b.PID())
}
