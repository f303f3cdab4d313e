// Conformance runs unmodified clients against Apache Kafka and against refbroker,
// three nodes each, with one script of behaviours, and compares what they saw;
// and it compares what the dump tools of both say of each other's files. It is
// started by ci/conformance/run; docs/conformance.md says what is compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"watershed.example/fixtures"
	"watershed.example/fixtures/kafka"
)

// tools are the programs that the script has built or fetched.
type tools struct {
	jars, classes, refbroker, franz, sarama, python, kcat string
}

// cluster is either of the two that are compared.
type cluster interface {
	Bootstrap() []string
	DataDir(id int) string
	Kill(id int) error
	Stop(ctx context.Context, id int) error
	Restart(ctx context.Context, id int) error
	Close(ctx context.Context) error
}

const nodes = 3

// sessionTimeout is how long a node may be silent, in both clusters: so long that
// a busy machine moves no leader, whose epochs the clients see; so short that a
// killed one is not waited for too long.
const sessionTimeout = 6 * time.Second

func main() {
	var t tools
	flag.StringVar(&t.jars, "jars", "", "`folder` of Apache Kafka's jars")
	flag.StringVar(&t.classes, "classes", "", "`folder` of the Java client's classes")
	flag.StringVar(&t.refbroker, "refbroker", "", "the refbroker `command`")
	flag.StringVar(&t.franz, "franz", "", "the franz-go client, a `program`")
	flag.StringVar(&t.sarama, "sarama", "", "the sarama client, a `program`")
	flag.StringVar(&t.python, "python", "", "a Python that has confluent-kafka, a `program`")
	flag.StringVar(&t.kcat, "kcat", "kcat", "kcat, a `program`")
	work := flag.String("work", "", "`folder` for data and logs")
	only := flag.String("clients", "", "only these `clients`, separated by commas")
	limit := flag.Duration("limit", 8*time.Minute, "how long all of it may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	r := &report{}
	err := run(ctx, t, *work, strings.FieldsFunc(*only, func(c rune) bool { return c == ',' }), r)
	r.print(os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ci/conformance:", err)
		os.Exit(2)
	}
	if r.differences > 0 || r.same == 0 {
		fmt.Fprintf(os.Stderr, "ci/conformance: %d differences\n", r.differences)
		os.Exit(1)
	}
}

func run(ctx context.Context, t tools, work string, only []string, r *report) (err error) {
	clients := slices.DeleteFunc(allClients(t), func(c client) bool { return len(only) > 0 && !slices.Contains(only, c.name) })
	if len(clients) == 0 {
		return fmt.Errorf("no client of %q", only)
	}
	began := time.Now()
	var apache *kafka.Cluster
	var ours *refbroker
	var starting errgroup.Group
	starting.Go(func() (err error) {
		apache, err = kafka.Start(ctx, kafka.Config{
			Jars: t.jars, Dir: filepath.Join(work, "kafka"), Nodes: nodes, FreePort: fixtures.FreePort,
			Settings: map[string]string{
				// As refbroker is, where Kafka's default is another.
				"auto.create.topics.enable": "false", "default.replication.factor": "3",
				"broker.session.timeout.ms": fmt.Sprint(sessionTimeout.Milliseconds()),
			},
		})
		return err
	})
	starting.Go(func() (err error) {
		ours, err = startRefbroker(ctx, t.refbroker, filepath.Join(work, "refbroker"), "ref", nodes, "--session-timeout", sessionTimeout.String())
		return err
	})
	err = starting.Wait()
	defer func() {
		if apache != nil {
			err = errors.Join(err, apache.Close(context.WithoutCancel(ctx)))
		}
		if ours != nil {
			err = errors.Join(err, ours.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err != nil {
		return err
	}
	r.took("clusters started", began)

	began = time.Now()
	of := map[string]*seen{}
	var both errgroup.Group
	for name, c := range map[string]cluster{"kafka": apache, "refbroker": ours} {
		s := &seen{}
		of[name] = s
		both.Go(func() error {
			if err := warmUp(ctx, c); err != nil {
				return fmt.Errorf("first use of %s: %w", name, err)
			}
			if err := s.run(ctx, c, clients, filepath.Join(work, "clients", name)); err != nil {
				return fmt.Errorf("clients of %s: %w", name, err)
			}
			return nil
		})
	}
	if err := both.Wait(); err != nil {
		return err
	}
	r.took("clients", began)
	for _, c := range clients {
		r.compare(c, of["kafka"].facts[c.name], of["refbroker"].facts[c.name])
	}

	began = time.Now()
	mirrored, err := barriers(ctx, t, clients, filepath.Join(work, "barriers"), r)
	if err != nil {
		return fmt.Errorf("barriers: %w", err)
	}
	r.took("barriers", began)

	began = time.Now()
	if err := dumps(ctx, t, filepath.Join(work, "dumps"), apache, ours, mirrored, r); err != nil {
		return fmt.Errorf("dump tools: %w", err)
	}
	r.took("dump tools", began)
	return nil
}
