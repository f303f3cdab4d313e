package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fault is something bad that a run does to its cluster: do begins it, and
// gives back what ends it.
type fault struct {
	name string
	// alone: no other fault may happen at the same time.
	alone bool
	do    func(*nemesis) (undo func() error, err error)
}

// nemesis does faults to a cluster, drawn from a seed.
type nemesis struct {
	*cluster
	rng    *rand.Rand
	client *client
	// Between two faults, and how long one lasts, at most.
	calm, span time.Duration
	done       map[string]int
}

func (n *nemesis) one() int32 { return int32(n.rng.IntN(int(n.size))) }

func (n *nemesis) two() (int32, int32) {
	a := n.one()
	return a, (a + 1 + int32(n.rng.IntN(int(n.size)-1))) % n.size
}

// cut is how links break this time.
func (n *nemesis) cut() linkState {
	if n.rng.IntN(2) == 0 {
		return stalled
	}
	return refusing
}

func (n *nemesis) set(s linkState, links ...*link) (undo func() error) {
	broken := n.rng.IntN(2) == 0
	for _, l := range links {
		l.set(s, false)
	}
	return func() error {
		for _, l := range links {
			l.set(flowing, broken)
		}
		return nil
	}
}

func (n *nemesis) restart(ids ...int32) func() error {
	return func() error {
		for _, id := range ids {
			if n.running[id] == nil {
				if err := n.start(id); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (n *nemesis) killed(ids ...int32) (func() error, error) {
	for _, id := range ids {
		if err := n.down(id, "killed", process.kill); err != nil {
			return nil, err
		}
	}
	return n.restart(ids...), nil
}

// faults are those that any machine can do, as often as they stand here.
func faults() []fault {
	kill := fault{name: "kill -9", do: func(n *nemesis) (func() error, error) { return n.killed(n.one()) }}
	return []fault{
		kill, kill, kill,
		{name: "kill -9 of two", do: func(n *nemesis) (func() error, error) {
			a, b := n.two()
			return n.killed(a, b)
		}},
		{name: "kill -9 of all", do: func(n *nemesis) (func() error, error) {
			var all []int32
			for id := range n.size {
				all = append(all, id)
			}
			return n.killed(all...)
		}},
		{name: "clean stop", do: func(n *nemesis) (func() error, error) {
			id := n.one()
			return n.restart(id), n.down(id, "stopped cleanly", func(p process) error {
				ctx, cancel := context.WithTimeoutCause(context.Background(), 60*time.Second, fmt.Errorf("60 s are over"))
				defer cancel()
				return p.terminate(ctx)
			})
		}},
		{name: "node cut off from the others", do: func(n *nemesis) (func() error, error) {
			id, s := n.one(), n.cut()
			var links []*link
			for other := range n.size {
				if other != id {
					links = append(links, n.links(id, other, true)...)
				}
			}
			n.history.notef("node %d is cut off from the others: %v", id, s)
			return n.set(s, links...), nil
		}},
		{name: "replication cut between two", do: func(n *nemesis) (func() error, error) {
			a, b := n.two()
			s := n.cut()
			n.history.notef("replication between %d and %d is cut: %v", a, b, s)
			return n.set(s, n.links(a, b, false)...), nil
		}},
		{name: "two cut off from each other", do: func(n *nemesis) (func() error, error) {
			a, b := n.two()
			s := n.cut()
			n.history.notef("nodes %d and %d are cut off from each other: %v", a, b, s)
			return n.set(s, n.links(a, b, true)...), nil
		}},
		{name: "cut one way", do: func(n *nemesis) (func() error, error) {
			a, b := n.two()
			s := n.cut()
			n.history.notef("the ways from %d to %d are cut: %v", a, b, s)
			return n.set(s, n.quorum[way{a, b}], n.data[way{a, b}]), nil
		}},
		{name: "quorum cut between two", do: func(n *nemesis) (func() error, error) {
			a, b := n.two()
			s := n.cut()
			n.history.notef("the quorum between %d and %d is cut: %v", a, b, s)
			return n.set(s, n.quorum[way{a, b}], n.quorum[way{b, a}]), nil
		}},
		{name: "clients cut off from a node", do: func(n *nemesis) (func() error, error) {
			id, s := n.one(), n.cut()
			n.history.notef("clients can't reach node %d: %v", id, s)
			return n.set(s, n.clients[id]), nil
		}},
		{name: "preferred leaders", do: func(n *nemesis) (func() error, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			req := kmsg.NewPtrElectLeadersRequest()
			req.SetVersion(2)
			req.TimeoutMillis = 1000
			// Whether anything moves is all one.
			_ = n.client.ask(ctx, n.one(), req, kmsg.NewPtrElectLeadersResponse())
			return func() error { return nil }, nil
		}},
		replicaMoves(),
		joinerLeads(),
		{name: "answers lost", do: func(n *nemesis) (func() error, error) {
			n.history.notef("all connections of clients break")
			for _, l := range n.clients {
				l.set(flowing, true)
			}
			return func() error { return nil }, nil
		}},
	}
}

// pauses hold a process up, as SIGSTOP does.
func pauses() fault {
	return fault{name: "process held up", do: func(n *nemesis) (func() error, error) {
		p := n.running[n.one()]
		if p == nil {
			return func() error { return nil }, nil
		}
		n.history.notef("a process is held up")
		return p.resume, p.stop()
	}}
}

// run does faults until ctx ends, and undoes them.
func (n *nemesis) run(ctx context.Context, all []fault) error {
	for ctx.Err() == nil {
		pause(ctx, time.Duration(n.rng.Int64N(int64(n.calm))))
		if ctx.Err() != nil {
			break
		}
		count := 1
		if n.rng.IntN(4) == 0 {
			count = 2
		}
		var undo []func() error
		for i := range count {
			f := all[n.rng.IntN(len(all))]
			if f.alone && i > 0 {
				continue
			}
			n.history.notef("fault: %s", f.name)
			n.done[f.name]++
			u, err := f.do(n)
			if err != nil {
				return fmt.Errorf("fault %s: %w", f.name, err)
			}
			undo = append(undo, u)
			if f.alone {
				break
			}
		}
		pause(ctx, time.Duration(n.rng.Int64N(int64(n.span))))
		for _, u := range undo {
			if err := u(); err != nil {
				return err
			}
		}
		n.history.notef("healed")
		if err := n.fallen(); err != nil {
			return err
		}
	}
	n.heal(false)
	var errs error
	for id := range n.size {
		errs = errors.Join(errs, n.restart(id)())
	}
	return errs
}

// worse are faults that only a virtual machine can do.
func worse() []fault {
	crash := fault{name: "crash in the middle of a write", do: func(n *nemesis) (func() error, error) {
		id := n.one()
		r, ok := n.running[id].(*run)
		if !ok {
			return n.restart(id), nil
		}
		r.crashAfter(1+n.rng.IntN(40), n.rng.Float64())
		return func() error {
			return errors.Join(n.down(id, "crashed by a write, or killed now", process.kill), n.restart(id)())
		}, nil
	}}
	return []fault{
		crash, crash,
		// Kafka syncs little: what keeps records is that others have them. So
		// power may go only where all are in sync, and then nowhere else before
		// they are again.
		{name: "loss of power", alone: true, do: func(n *nemesis) (func() error, error) {
			nothing := func() error { return nil }
			wait := func(d time.Duration) error {
				ctx, cancel := context.WithTimeoutCause(context.Background(), d, fmt.Errorf("%s are over", d))
				defer cancel()
				return n.whole(ctx, n.client)
			}
			if wait(20*time.Second) != nil {
				return nothing, nil // whether it ever is in sync is judged at the end
			}
			id := n.one()
			err := n.down(id, "lost power", func(p process) error { return p.(*run).losePower(n.rng) })
			return func() error {
				if err := n.start(id); err != nil {
					return err
				}
				if err := wait(60 * time.Second); err != nil {
					n.history.notef("after a loss of power: %v", err)
				}
				return nil
			}, err
		}},
		{name: "node held up", do: func(n *nemesis) (func() error, error) {
			id := n.one()
			links := []*link{n.clients[id]}
			for other := range n.size {
				if other != id {
					links = append(links, n.links(id, other, true)...)
				}
			}
			return n.set(stalled, links...), nil
		}},
	}
}
