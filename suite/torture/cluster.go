package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// machine is where nodes run: as processes, or in virtual time.
type machine interface {
	network
	// addresses are two that a node's next process listens at, for clients and
	// for the quorum.
	addresses(node int32) (client, raft string)
	// launch starts a process of a node. It need not serve yet.
	launch(node int32, args []string) (process, error)
	// log is the folder of a node's partition, by file name.
	log(node int32, p partition) (map[string][]byte, error)
}

// process is one run of a node.
type process interface {
	kill() error
	// terminate asks for a clean end, and waits for it.
	terminate(ctx context.Context) error
	// stop and resume hold the process up.
	stop() error
	resume() error
	// ended is closed once the process is over; what tells how it ended.
	ended() <-chan struct{}
	what() string
}

// way is from one node to another.
type way struct{ from, to int32 }

// cluster is nodes 0 to n-1, each of which reaches each other one, and is
// reached by clients, by links of their own.
type cluster struct {
	machine
	size         int32
	quorum, data map[way]*link
	clients      []*link // by node
	running      []process
	extra        []string // arguments of all nodes
	history      *history
}

const clusterID = "TTTTTTTTTTTTTTTTTTTTTT"

func newCluster(m machine, size int32, seed uint64, delay time.Duration, h *history, extra ...string) (*cluster, error) {
	c := &cluster{machine: m, size: size, quorum: map[way]*link{}, data: map[way]*link{}, extra: extra, history: h}
	c.running = make([]process, size)
	stream := uint64(1000)
	made := func() (*link, error) {
		stream++
		return newLink(m, rand.New(rand.NewPCG(seed, stream)), delay)
	}
	for from := range size {
		l, err := made()
		if err != nil {
			return c, err
		}
		c.clients = append(c.clients, l)
		for to := range size {
			if to == from {
				continue
			}
			for _, kind := range []map[way]*link{c.quorum, c.data} {
				if kind[way{from, to}], err = made(); err != nil {
					return c, err
				}
			}
		}
	}
	return c, nil
}

// bootstrap are the addresses of all nodes, for clients.
func (c *cluster) bootstrap() []string {
	var out []string
	for _, l := range c.clients {
		out = append(out, l.address())
	}
	return out
}

// start starts a node that is down.
func (c *cluster) start(id int32) error {
	client, raft := c.addresses(id)
	args := []string{
		"serve", "--cluster-id", clusterID, "--node-id", fmt.Sprint(id), "--listen", client, "--advertise", c.clients[id].address(),
		"--raft-listen", raft, "--voter", fmt.Sprintf("%d=%s", id, raft),
	}
	for to := range c.size {
		if to != id {
			w := way{id, to}
			args = append(args, "--voter", fmt.Sprintf("%d=%s", to, c.quorum[w].address()), "--peer", fmt.Sprintf("%d=%s", to, c.data[w].address()))
		}
	}
	c.clients[id].lead(client)
	for from := range c.size {
		if from != id {
			c.quorum[way{from, id}].lead(raft)
			c.data[way{from, id}].lead(client)
		}
	}
	p, err := c.launch(id, append(args, c.extra...))
	if err != nil {
		return fmt.Errorf("start node %d: %w", id, err)
	}
	c.running[id] = p
	c.history.notef("node %d started", id)
	return nil
}

// down ends a node's process, by end.
func (c *cluster) down(id int32, how string, end func(process) error) error {
	p := c.running[id]
	if p == nil {
		return nil
	}
	c.history.notef("node %d: %s", id, how)
	c.running[id] = nil
	if err := end(p); err != nil {
		return fmt.Errorf("node %d: %s: %w", id, how, err)
	}
	return nil
}

// fallen lists the nodes whose process ended though nobody wanted it.
func (c *cluster) fallen() error {
	var errs error
	for id, p := range c.running {
		if p == nil {
			continue
		}
		select {
		case <-p.ended():
			errs = errors.Join(errs, fmt.Errorf("node %d ended by itself: %s", id, p.what()))
		default:
		}
	}
	return errs
}

// links are all links that a cut between two nodes is about.
func (c *cluster) links(a, b int32, quorumToo bool) []*link {
	all := []*link{c.data[way{a, b}], c.data[way{b, a}]}
	if quorumToo {
		all = append(all, c.quorum[way{a, b}], c.quorum[way{b, a}])
	}
	return all
}

// heal lets everything flow again. Of what was held up, broken connections end.
func (c *cluster) heal(broken bool) {
	for _, all := range []map[way]*link{c.quorum, c.data} {
		for _, l := range all {
			l.set(flowing, broken)
		}
	}
	for _, l := range c.clients {
		l.set(flowing, broken)
	}
}

// whole waits until each node says of each partition that all replicas are in
// sync, and that somebody leads it.
func (c *cluster) whole(ctx context.Context, cl *client) error {
	last := "nobody was asked"
	for {
		if err := c.fallen(); err != nil {
			return err
		}
		ok := true
		for id := range c.size {
			m, err := cl.metadataOf(ctx, id)
			switch {
			case err != nil:
				last = err.Error()
			default:
				last = unfit(m, int(c.size))
			}
			if last != "" {
				last = fmt.Sprintf("node %d: %s", id, last)
				ok = false
				break
			}
		}
		if ok {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for all replicas of all partitions in sync: %w; last: %s", context.Cause(ctx), last)
		}
	}
}

// unfit says what is missing in a node's view, "" for nothing.
func unfit(m *kmsg.MetadataResponse, size int) string {
	if len(m.Brokers) != size {
		return fmt.Sprintf("it knows %d brokers", len(m.Brokers))
	}
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) || p.ErrorCode != 0 {
				return fmt.Sprintf("%s-%d: leader %d, in sync %v of %v, error %d", *t.Topic, p.Partition, p.Leader, slices.Sorted(slices.Values(p.ISR)), p.Replicas, p.ErrorCode)
			}
		}
	}
	return ""
}

// close ends everything, as fast as that goes.
func (c *cluster) close() error {
	var errs error
	for id := range c.running {
		errs = errors.Join(errs, c.down(int32(id), "killed at the end", process.kill))
	}
	for _, all := range []map[way]*link{c.quorum, c.data} {
		for _, l := range all {
			l.close()
		}
	}
	for _, l := range c.clients {
		l.close()
	}
	return errs
}
