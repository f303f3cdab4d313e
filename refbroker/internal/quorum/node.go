package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/host"
)

// Config says how a node takes part in the metadata quorum.
type Config struct {
	Host host.Host
	Log  *slog.Logger
	// Dir is the folder of the quorum's files.
	Dir       string
	ClusterID string
	NodeID    int32
	// Listen is this voter's address; it may have port 0 when it is alone, or
	// when who hears of it by OnListen leads the others there.
	Listen   string
	OnListen func(address string)
	// Voters maps the ids of all voters to their addresses. Empty: this node
	// is the only one.
	Voters map[int32]string
	// SessionTimeout is how long a broker may be silent before it is fenced; 0
	// is [DefaultSessionTimeout].
	SessionTimeout time.Duration
	// Claim is called once the store, which keeps other processes out, is open, and
	// says whether it may be used: existing is whether there is anything in it. nil
	// always may.
	Claim func(existing bool) error
}

// Node is a member of the metadata quorum.
type Node struct {
	cfg       Config
	raft      *raft.Raft
	transport *raft.NetworkTransport
	stream    *stream
	stores    host.RaftStores
	fsm       *machine
	// voters are the addresses of all voters.
	voters map[int32]string
	// started is closed once raft is there, closing when Close begins,
	// followed when follow has ended.
	started, closing, followed chan struct{}
	// shown is the image that everybody sees: see Install.
	shown    atomic.Pointer[version]
	installs chan installation
	hearts   hearts
	// controller ends the controller, whose goroutine is in work.
	controller context.CancelFunc
	work       sync.WaitGroup
	asked      questions
}

// Open starts the member. It does not wait for a leader; see [Node.WaitReady].
func Open(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Host.FS.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("metadata folder %s: %w", cfg.Dir, err)
	}
	stores, err := cfg.Host.RaftStores(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if cfg.SessionTimeout <= 0 {
		cfg.SessionTimeout = DefaultSessionTimeout
	}
	n := &Node{cfg: cfg, stores: stores, fsm: newMachine(cfg.ClusterID, cfg.Log), hearts: hearts{by: map[int32]heard{}}, controller: func() {}}
	n.started, n.closing, n.followed = make(chan struct{}), make(chan struct{}), make(chan struct{})
	n.installs = make(chan installation)
	n.shown.Store(&version{img: n.fsm.current.Load().img, next: make(chan struct{})})
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.closeStores())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	logger := hclogOf(n.cfg.Log, len(n.cfg.Voters) < 2)
	listener, err := n.cfg.Host.Listen(ctx, "tcp", n.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen for the metadata quorum: %w", err)
	}
	if n.cfg.OnListen != nil {
		n.cfg.OnListen(listener.Addr().String())
	}
	n.stream = newStream(listener, n.cfg.Host.Dial, map[byte]func(context.Context, net.Conn){
		forwardMark: n.serveForwarded, heartbeatMark: n.serveHeartbeats,
	})
	snapshots, err := newSnapshotStore(n.cfg.Host.FS, filepath.Join(n.cfg.Dir, "snapshots"))
	if err != nil {
		return errors.Join(err, n.stream.Close())
	}
	voters := n.cfg.Voters
	if len(voters) == 0 {
		voters = map[int32]string{n.cfg.NodeID: listener.Addr().String()}
	}
	n.voters = voters
	conf := raftConfig(n.cfg.NodeID, len(voters), n.cfg.SessionTimeout, logger)
	n.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		ServerAddressProvider: addressBook(voters),
		Logger:                logger, Stream: n.stream, MaxPool: 3, Timeout: 10 * time.Second,
		// No pipeline: one whose answers nobody takes any more, because one of them
		// was an error, can block its sender for good (raft 1.8.0, pipelineSend on
		// inprogressCh; grafana/pyroscope#5518 met it too). That member gets no entry
		// any more as long as this node leads, though heartbeats go on, and
		// Shutdown waits for ever.
		MaxRPCsInFlight: 1,
	})
	exists, err := raft.HasExistingState(n.stores.Log, n.stores.Stable, snapshots)
	if err == nil && n.cfg.Claim != nil {
		err = n.cfg.Claim(exists)
	}
	if err == nil && !exists {
		err = raft.BootstrapCluster(conf, n.stores.Log, n.stores.Stable, snapshots, n.transport, configuration(voters))
	}
	if err == nil {
		n.raft, err = raft.NewRaft(conf, n.fsm, n.stores.Log, n.stores.Stable, snapshots, n.transport)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start the metadata quorum in %s: %w", n.cfg.Dir, err), n.closeTransport())
	}
	close(n.started)
	go n.follow()
	if len(voters) > 1 {
		var life context.Context
		life, n.controller = context.WithCancel(context.Background())
		n.work.Go(func() { n.control(life) })
	}
	return nil
}

// raftConfig has timeouts for one machine or one network: a lone voter has
// nobody to wait for, so it elects itself within 100 ms.
func raftConfig(id int32, voters int, session time.Duration, logger hclog.Logger) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = serverID(id)
	conf.Logger = logger
	conf.NoLegacyTelemetry = true
	// A third of the default session timeout, and of a longer one: whoever gives
	// silent nodes more time gives it to a silent leader too.
	patience := max(DefaultSessionTimeout, session) / 3
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = patience, patience, patience/2
	// How late the others hear that a record is committed, and so how long a
	// command that another node forwards takes to be in force there.
	conf.CommitTimeout = 20 * time.Millisecond
	if voters == 1 {
		conf.HeartbeatTimeout, conf.ElectionTimeout = 50*time.Millisecond, 50*time.Millisecond
		conf.LeaderLeaseTimeout = 50 * time.Millisecond
	}
	return conf
}

func serverID(id int32) raft.ServerID { return raft.ServerID(strconv.Itoa(int(id))) }

func configuration(voters map[int32]string) raft.Configuration {
	var c raft.Configuration
	for _, id := range sortedIDs(voters) {
		c.Servers = append(c.Servers, raft.Server{ID: serverID(id), Address: raft.ServerAddress(voters[id])})
	}
	return c
}

// WaitReady waits until the quorum has a leader, and, when that is this node,
// until it has caught up with its log.
func (n *Node) WaitReady(ctx context.Context) error {
	for {
		if _, id := n.raft.LeaderWithID(); id != "" {
			if id != serverID(n.cfg.NodeID) {
				return nil
			}
			_, err := await(ctx, &n.asked, func() raft.Future { return n.raft.Barrier(0) })
			if err == nil {
				_, err = n.WaitIndex(ctx, n.fsm.current.Load().img.Index)
				return err
			}
			if !leadershipError(err) {
				return err
			}
		}
		// Raft tells of a new leader by observers only, which cost more than
		// they bring in the few milliseconds of a start.
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Voters lists the ids of the quorum's members.
func (n *Node) Voters() []int32 { return sortedIDs(n.voters) }

// CatchUp waits until this node's image holds all that was committed before the
// call, by whichever node: what a client did over one node, it may go on with
// over another.
func (n *Node) CatchUp(ctx context.Context) error {
	if len(n.voters) < 2 {
		return nil // what is committed was applied here
	}
	_, err := n.Apply(ctx, Sync{})
	return err
}

// HandOver gives the quorum's leadership to another member, if this node has
// it and there is one.
func (n *Node) HandOver(ctx context.Context) error {
	if len(n.voters) < 2 || n.Leader() != n.cfg.NodeID {
		return nil
	}
	_, err := await(ctx, &n.asked, n.raft.LeadershipTransfer)
	return err
}

// Leader is the id of the quorum's leader as this node knows it, -1 for none.
func (n *Node) Leader() int32 {
	_, id := n.raft.LeaderWithID()
	v, err := strconv.ParseInt(string(id), 10, 32)
	if err != nil {
		return -1
	}
	return int32(v)
}

// Apply proposes a command, by way of the quorum's leader, and waits until it
// is committed and in force here, so that Image shows it. It returns the
// command's result, or the error with which the command was refused.
// NOT_CONTROLLER means that no leader was found; after any other error that is
// not a refusal, or the end of ctx, the command may or may not take effect.
func (n *Node) Apply(ctx context.Context, c Command) (any, error) {
	raw, err := Encode(c)
	if err != nil {
		return nil, err
	}
	name, _ := c.Kind()
	result, err := n.applyAnywhere(ctx, raw, c)
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return nil, refused.error
	case err != nil:
		var coded *kerr.Error
		if !errors.As(err, &coded) && ctx.Err() == nil {
			// Nobody knows whether it takes effect: clients try this again.
			err = fmt.Errorf("%w: %w", kerr.RequestTimedOut, err)
		}
		return nil, fmt.Errorf("metadata command %s: %w", name, err)
	}
	return result, nil
}

// refusedError is the refusal of a command by the state machine.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// electionWait is how long Apply looks for a leader, and the pause between
// looks.
const (
	electionWait  = 10 * time.Second
	electionPause = 20 * time.Millisecond
)

// applyAnywhere applies a command where the leader is. It tries again as long
// as it knows that nobody has taken the command.
func (n *Node) applyAnywhere(ctx context.Context, raw []byte, c Command) (any, error) {
	deadline := time.Now().Add(electionWait)
	for {
		var result any
		var err error
		if leader := n.Leader(); leader < 0 {
			err = fmt.Errorf("no leader is known: %w", kerr.NotController)
		} else if leader != n.cfg.NodeID {
			result, err = n.forward(ctx, leader, raw, resultOf(c))
		} else {
			var o outcome
			var index uint64
			if o, index, err = n.applyHere(ctx, raw); err == nil {
				result = o.result
				if o.err != nil {
					err = &refusedError{o.err}
				}
				if _, werr := n.WaitIndex(ctx, index); werr != nil && err == nil {
					err = werr
				}
			}
		}
		if !errors.Is(err, kerr.NotController) || time.Now().After(deadline) {
			return result, err
		}
		select {
		case <-time.After(electionPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// applyHere proposes an encoded command as the leader. The error is the
// quorum's; NOT_CONTROLLER when the command was not taken.
func (n *Node) applyHere(ctx context.Context, raw []byte) (outcome, uint64, error) {
	future, err := await(ctx, &n.asked, func() raft.ApplyFuture { return n.raft.Apply(raw, 0) })
	if err != nil {
		if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			err = fmt.Errorf("%w: %w", err, kerr.NotController)
		} else if errors.Is(err, raft.ErrLeadershipLost) {
			// Maybe the next leader commits it: clients know of this code that the
			// outcome is open.
			err = fmt.Errorf("%w: %w", err, kerr.RequestTimedOut)
		}
		return outcome{}, 0, err
	}
	o, ok := future.Response().(outcome)
	if !ok {
		return outcome{}, 0, fmt.Errorf("unexpected response %T", future.Response())
	}
	return o, future.Index(), nil
}

func leadershipError(err error) bool {
	return errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipLost) ||
		errors.Is(err, raft.ErrLeadershipTransferInProgress)
}

// Close leaves the quorum and waits until nothing of it runs any more.
func (n *Node) Close() error {
	n.controller()
	n.work.Wait()
	close(n.closing)
	<-n.followed
	n.asked.end()
	stopped := n.raft.Shutdown()
	// Connections first: members that stop at the same time would wait for each
	// other's answers, which nobody gives any more.
	err := n.closeTransport()
	return errors.Join(stopped.Error(), err, n.closeStores())
}

func (n *Node) closeTransport() error {
	return errors.Join(n.transport.Close(), n.stream.Close())
}

func (n *Node) closeStores() error {
	if n.stores.Close == nil {
		return nil
	}
	return n.stores.Close.Close()
}
