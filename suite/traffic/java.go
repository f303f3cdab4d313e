package traffic

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/suite/history"
)

// javaProgram drives Kafka's own producers in a process of its own. Java runs it
// from its source.
//
//go:embed java/Producers.java
var javaProgram []byte

// Java is a process with producers of Apache Kafka's own client.
type Java struct {
	cmd  *exec.Cmd
	read chan struct{} // closed when nothing more is answered

	writing sync.Mutex
	in      io.WriteCloser

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan javaAnswer
	end     error // once nothing more is answered
}

type javaAsk struct {
	ID       int64             `json:"id"`
	Do       string            `json:"do"`
	Producer string            `json:"producer"`
	Config   map[string]string `json:"config,omitempty"`
	Topic    string            `json:"topic,omitempty"`
	Index    int32             `json:"partition"`
	Key      []byte            `json:"key"`
	Value    []byte            `json:"value"`
	Headers  []javaHeader      `json:"headers,omitempty"`
}

type javaHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type javaAnswer struct {
	ID     int64  `json:"id"`
	Offset int64  `json:"offset,string"`
	Error  string `json:"error"`
	Code   int16  `json:"code"`
}

// err is the answer's error, as the other client tells it.
func (a javaAnswer) err() error {
	switch {
	case a.Error == "":
		return nil
	case a.Code > 0:
		return fmt.Errorf("%w: %s", kerr.ErrorForCode(a.Code), a.Error)
	}
	return errors.New(a.Error)
}

// StartJava starts the process. jars is the folder that ci/kafka-fetch filled;
// the program and what the process says go to folder.
func StartJava(jars, folder string) (*Java, error) {
	source := filepath.Join(folder, "Producers.java")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	if err := os.WriteFile(source, javaProgram, 0o644); err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	log, err := os.Create(filepath.Join(folder, "producers.log"))
	if err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	defer func() { _ = log.Close() }()
	j := &Java{read: make(chan struct{}), waiting: map[int64]chan javaAnswer{}}
	j.cmd = exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", filepath.Join(jars, "*"), source)
	j.cmd.Stderr = log
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	go j.answers(out)
	return j, nil
}

// answers hands out what the process says, until its end.
func (j *Java) answers(out io.Reader) {
	defer close(j.read)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a javaAnswer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			continue // a library's own words
		}
		j.mu.Lock()
		to := j.waiting[a.ID]
		delete(j.waiting, a.ID)
		j.mu.Unlock()
		if to != nil {
			to <- a
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end = errors.New("the Java process has ended")
	for _, to := range j.waiting {
		to <- javaAnswer{Error: j.end.Error()}
	}
	clear(j.waiting)
}

// ask sends a line; its answer comes on the channel.
func (j *Java) ask(a javaAsk) <-chan javaAnswer {
	to := make(chan javaAnswer, 1)
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	if j.end != nil {
		to <- javaAnswer{Error: j.end.Error()}
		j.mu.Unlock()
		return to
	}
	j.next++
	a.ID = j.next
	j.waiting[a.ID] = to
	j.mu.Unlock()
	line, err := json.Marshal(a)
	if err == nil {
		_, err = j.in.Write(append(line, '\n'))
	}
	if err != nil {
		j.mu.Lock()
		if _, still := j.waiting[a.ID]; still {
			delete(j.waiting, a.ID)
			to <- javaAnswer{Error: err.Error()}
		}
		j.mu.Unlock()
	}
	return to
}

// Close ends the process.
func (j *Java) Close() error {
	_ = j.in.Close() // it ends with its input
	<-j.read
	if err := j.cmd.Wait(); err != nil {
		return fmt.Errorf("the Java process: %w", err)
	}
	return nil
}

// javaProducer is one producer of the process, with the methods that a [Producer]
// needs of its client.
type javaProducer struct {
	java *Java
	name string
	wg   sync.WaitGroup // of the records' promises
}

// newJavaProducer makes a producer in the process. Where it fails, the first
// request of it says so.
func newJavaProducer(cluster Cluster, o ProducerOptions, txnID string) *javaProducer {
	p := &javaProducer{java: o.Java, name: o.Name}
	config := map[string]string{
		"bootstrap.servers": strings.Join(cluster.Bootstrap, ","), "client.id": o.Name,
		"compression.type": o.Compression.String(), "enable.idempotence": strconv.FormatBool(o.Mode != history.Plain),
		// What is flushed together goes out together.
		"linger.ms":           "50",
		"request.timeout.ms":  strconv.FormatInt(requestTimeout.Milliseconds(), 10),
		"delivery.timeout.ms": strconv.FormatInt(2*deliveryTimeout.Milliseconds(), 10),
		"max.block.ms":        strconv.FormatInt(2*deliveryTimeout.Milliseconds(), 10),
		"retry.backoff.ms":    "20", "retry.backoff.max.ms": "200", "reconnect.backoff.max.ms": "200",
	}
	if txnID != "" {
		config["transactional.id"] = txnID
		config["transaction.timeout.ms"] = strconv.FormatInt(txnTimeout.Milliseconds(), 10)
	}
	o.Java.ask(javaAsk{Do: "new", Producer: p.name, Config: config})
	return p
}

func (p *javaProducer) do(ctx context.Context, what string) error {
	select {
	case a := <-p.java.ask(javaAsk{Do: what, Producer: p.name}):
		return a.err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ProducerID is not told by Kafka's client.
func (p *javaProducer) ProducerID(context.Context) (int64, int16, error) {
	return -1, -1, errors.New("the Java client does not tell its producer id")
}

func (p *javaProducer) Produce(_ context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	ask := javaAsk{Do: "send", Producer: p.name, Topic: r.Topic, Index: r.Partition, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		ask.Headers = append(ask.Headers, javaHeader{h.Key, h.Value})
	}
	answer := p.java.ask(ask)
	p.wg.Go(func() {
		a := <-answer
		r.Offset = a.Offset
		promise(r, a.err())
	})
}

func (p *javaProducer) Flush(ctx context.Context) error {
	if err := p.do(ctx, "flush"); err != nil {
		return err
	}
	p.wg.Wait()
	return nil
}

func (p *javaProducer) BeginTransaction() error { return p.do(context.Background(), "begin") }

func (p *javaProducer) EndTransaction(ctx context.Context, commit kgo.TransactionEndTry) error {
	if commit {
		return p.do(ctx, "commit")
	}
	return p.do(ctx, "abort")
}

// Close has nothing to do: the producer ends with its process.
func (p *javaProducer) Close() {}
