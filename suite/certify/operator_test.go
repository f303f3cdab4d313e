package certify_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures"
	"watershed.example/fixtures/child"
)

// operatorVariable tells this binary that it is the operator's tool, and where the
// operator is.
const operatorVariable = "WATERSHED_OPERATOR"

// operator has brokers, each behind an address of its own that stays. Its tool is
// this binary: VERB CLUSTER NODE.
type operator struct {
	t      testing.TB
	fabric *fixtures.Fabric
	ln     net.Listener
	wg     sync.WaitGroup

	mu      sync.Mutex
	brokers map[string]*broker
	before  map[string]proxied // by cluster
}

// broker is one of them.
type broker struct {
	name, log string
	node      int
	args      []string
	links     map[string]*fixtures.Link // by listener
	process   *child.Process
	lifeline  *os.File
	ready     *os.File
	reading   sync.WaitGroup // what the process says

	mu sync.Mutex
	at string // where it listens for clients
}

// asTool does what the tool was called for, in a process of its own.
func asTool(socket string, args []string) int {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintln(conn, strings.Join(args, " "))
	}
	answer := ""
	if err == nil {
		answer, err = bufio.NewReader(conn).ReadString('\n')
	}
	if err != nil || answer != "ok\n" {
		fmt.Fprintln(os.Stderr, strings.TrimSpace(answer), err)
		return 1
	}
	return 0
}

func newOperator(t testing.TB) *operator {
	t.Helper()
	dir, err := os.MkdirTemp("", "ws") // a socket's path has to be short
	require.NoError(t, err)
	o := &operator{t: t, fabric: fixtures.NewFabric(), brokers: map[string]*broker{}, before: map[string]proxied{}}
	o.ln, err = net.Listen("unix", filepath.Join(dir, "o"))
	require.NoError(t, err)
	o.wg.Go(o.serve)
	t.Cleanup(func() {
		_ = o.ln.Close()
		o.wg.Wait()
		for _, b := range o.brokers {
			b.end()
		}
		o.fabric.Close()
		_ = os.RemoveAll(dir)
	})
	return o
}

func (o *operator) serve() {
	for {
		conn, err := o.ln.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(conn).ReadString('\n')
		answer := "ok"
		if err := o.do(strings.Fields(line)); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		_, _ = fmt.Fprintln(conn, answer)
		_ = conn.Close()
	}
}

func (o *operator) do(words []string) error {
	if len(words) != 3 {
		return fmt.Errorf("what is %q?", words)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if words[0] == "cut" || words[0] == "heal" {
		return o.before[words[1]].wall(words[0] == "cut")
	}
	b := o.brokers[words[1]+"/"+words[2]]
	if b == nil {
		return fmt.Errorf("there is no node %s of %s", words[2], words[1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch words[0] {
	case "kill":
		b.end()
		return nil
	case "stop":
		err := b.process.Stop(ctx)
		b.end()
		return err
	case "start":
		return b.start()
	case "pause":
		return b.process.Signal(syscall.SIGSTOP)
	case "resume":
		return b.process.Signal(syscall.SIGCONT)
	}
	return fmt.Errorf("what is %q?", words[0])
}

// setup is how an operator has set up a cluster.
type setup struct {
	nodes   int
	profile string
	defects []string
	// flags of every broker beside these.
	flags []string
}

// clusterID is made of a name of at most six characters.
func clusterID(name string) string { return "AAAAAAAAQACAAAAA" + (name + "AAAAAA")[:6] }

// firstNode is the id of a cluster's first node: an operator counts as he likes.
const firstNode = 101

func id(node int) string { return strconv.Itoa(firstNode - 1 + node) }

// cluster starts a cluster and returns its addresses for clients, and the proxies before
// those for mirrors.
func (o *operator) cluster(name string, s setup) ([]string, proxied) {
	o.t.Helper()
	dir := o.t.TempDir()
	link := func(kind string) *fixtures.Link {
		l, err := o.fabric.Add(kind+"->"+name, name, s.nodes)
		require.NoError(o.t, err)
		return l
	}
	links := map[string]*fixtures.Link{"client": link("client"), "mirror": link("mirror")}
	before := proxy(o.t, name, links["mirror"].Addresses())
	o.mu.Lock()
	o.before[name] = before
	o.mu.Unlock()
	if s.nodes > 1 {
		links["replication"], links["quorum"] = link("replication"), link("quorum")
	}
	for n := 1; n <= s.nodes; n++ {
		b := &broker{name: name, node: n, links: links, log: filepath.Join(dir, fmt.Sprintf("%d.log", n))}
		b.args = []string{
			"serve", "--data-dir", filepath.Join(dir, strconv.Itoa(n)), "--node-id", id(n), "--cluster-id", clusterID(name),
			"--listen", "127.0.0.1:0", "--advertise", links["client"].Address(n), "--profile", s.profile,
			"--listener", "mirror=127.0.0.1:0/" + before.addresses[n-1],
		}
		if s.nodes > 1 {
			b.args = append(b.args, "--listener", "replication=127.0.0.1:0/"+links["replication"].Address(n), "--raft-listen", "127.0.0.1:0",
				"--topic-defaults", "min.insync.replicas=2")
			for v := 1; v <= s.nodes; v++ {
				b.args = append(b.args, "--voter", id(v)+"="+links["quorum"].Address(v))
			}
		}
		if len(s.defects) > 0 {
			b.args = append(b.args, "--test-hooks", filepath.Join(o.ln.Addr().String()+name+strconv.Itoa(n)))
		}
		for _, d := range s.defects {
			b.args = append(b.args, "--defect", d)
		}
		b.args = append(b.args, s.flags...)
		o.brokers[name+"/"+id(n)] = b
		require.NoError(o.t, b.start())
	}
	return links["client"].Addresses()[:min(s.nodes, 2)], before
}

// start begins a life of the broker, and puts it behind its addresses as soon as it
// says where it listens.
func (b *broker) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return err
	}
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, readyR.Close(), readyW.Close())
	}
	b.process, err = child.Start(child.Spec{
		Path: exe, Args: append(b.args, "--ready-fd", "3", "--lifeline-fd", "4"), Env: []string{"WATERSHED_BROKER_CHILD=1"},
		Dir: filepath.Dir(b.log), Log: b.log, ExtraFiles: []*os.File{readyW, lifeR},
	})
	_, _ = readyW.Close(), lifeR.Close()
	if err != nil {
		return errors.Join(err, readyR.Close(), lifeW.Close())
	}
	b.lifeline, b.ready = lifeW, readyR
	b.reading.Go(func() { b.connect(readyR) })
	return nil
}

func (b *broker) connect(ready *os.File) {
	lines := bufio.NewScanner(ready)
	for lines.Scan() {
		var says struct {
			Listeners map[string]string `json:"listeners"`
			Quorum    string            `json:"quorum"`
		}
		if json.Unmarshal(lines.Bytes(), &says) != nil {
			continue
		}
		if says.Quorum != "" && b.links["quorum"] != nil {
			b.links["quorum"].Connect(b.node, says.Quorum)
		}
		for name, at := range says.Listeners {
			if l := b.links[name]; l != nil {
				l.Connect(b.node, at)
			}
			if name == "client" {
				b.mu.Lock()
				b.at = at
				b.mu.Unlock()
			}
		}
	}
}

// denyAt puts a denier before the one broker of a cluster, until that is started anew.
func (o *operator) denyAt(cluster string) *denier {
	o.t.Helper()
	b := o.brokers[cluster+"/"+id(1)]
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(o.t, b.at)
	d := newDenier(o.t, b.at)
	b.links["client"].Connect(b.node, d.ln.Addr().String())
	return d
}

// end kills the broker, if it lives.
func (b *broker) end() {
	if b.process == nil {
		return
	}
	_ = b.process.Kill()
	_, _ = b.lifeline.Close(), b.ready.Close()
	b.reading.Wait() // or else it might put a process that is gone behind the addresses
	for _, l := range b.links {
		l.Connect(b.node, "")
	}
	b.process = nil
}

// tool is a command of the operator's, as target files have them.
func (o *operator) tool(verb, node string) string {
	exe, err := os.Executable()
	require.NoError(o.t, err)
	return fmt.Sprintf("[env, %s=%s, %s, %s, '{{.Cluster}}', '%s']", operatorVariable, o.ln.Addr(), exe, verb, node)
}
