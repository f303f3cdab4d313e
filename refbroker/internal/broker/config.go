package broker

import (
	"fmt"
	"log/slog"
	"time"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/gate"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/peer"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// Listener is one address that a node serves.
type Listener struct {
	// Name is "client" for the one that every node has.
	Name string
	// Listen is "host:port"; with port 0 a free one is taken.
	Listen string
	// Advertise is what clients of this listener are told; "" means where it
	// listens.
	Advertise string
	// Security is what it asks of its clients; the zero value is nothing.
	Security wire.Security
}

// Config is a node's. Host, DataDir and one listener named "client" are needed.
type Config struct {
	Host    host.Host
	Log     *slog.Logger
	DataDir string
	NodeID  int32
	// ClusterID is checked against the data folder's; "" takes the folder's,
	// or a random one at the first start.
	ClusterID string
	Listeners []Listener
	// RaftListen and Voters are those of the metadata quorum; without Voters
	// the node is alone.
	RaftListen string
	Voters     map[int32]string
	// OnQuorum is told where the quorum listens, before the node waits for the
	// others there; it may be nil.
	OnQuorum func(address string)
	// Peers maps nodes to their addresses as seen from this one, for what nodes
	// ask of each other but for the quorum; others are reached at their
	// listener "replication", or else at "client".
	Peers map[int32]string
	// SessionTimeout is how long a node may be silent before it is fenced, and
	// ReplicaLag how long a follower may lag before it leaves the ISR
	// (replica.lag.time.max.ms); 0 for the defaults.
	SessionTimeout, ReplicaLag time.Duration
	// Profile is the text of KIP-1279 that the cluster follows, the same on all of
	// its nodes; "" is the default.
	Profile quorum.Profile
	// TransactionVersion is 1 or 2 (the default).
	TransactionVersion int16
	// TopicDefaults are topic configs for topics that don't set them.
	TopicDefaults map[string]string
	// RetainEvery is how often retention is applied, and CompactEvery how often
	// logs are looked at that may be compacted; 0 is Kafka's default.
	RetainEvery, CompactEvery time.Duration
	// Limits bound what clients can make the node hold.
	Limits wire.Limits
	// Operations, if there are any, are told what the node comes to have.
	Operations *Operations
	// Groups are the settings of consumer groups.
	Groups group.Settings
	// OffsetsPartitions and TxnPartitions are how many the internal topics get
	// (offsets.topic.num.partitions, transaction.state.log.num.partitions); 0 for
	// the default.
	OffsetsPartitions, TxnPartitions int32
	Gate                             gate.Gate
	Defects                          defect.Set
}

func (c *Config) complete() error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Gate == nil {
		c.Gate = gate.Open{}
	}
	if c.RaftListen == "" {
		c.RaftListen = "127.0.0.1:0"
	}
	if c.Profile == "" {
		c.Profile = quorum.V42
	}
	if c.TransactionVersion == 0 {
		c.TransactionVersion = 2
	}
	if err := CheckTopicConfigs(c.TopicDefaults); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, l := range c.Listeners {
		if names[l.Name] {
			return fmt.Errorf("listener %q is given twice", l.Name)
		}
		names[l.Name] = true
	}
	if !names[clientListener] {
		return fmt.Errorf("no listener named %q", clientListener)
	}
	if err := c.checkBetweenNodes(); err != nil {
		return err
	}
	if _, ok := c.Voters[c.NodeID]; len(c.Voters) > 0 && !ok {
		return fmt.Errorf("node %d is not among the voters", c.NodeID)
	}
	return nil
}

// checkBetweenNodes refuses a cluster whose nodes could not reach each other: they
// speak in plain text and say not who they are.
func (c *Config) checkBetweenNodes() error {
	if len(c.Voters) < 2 {
		return nil
	}
	between := Listener{}
	for _, l := range c.Listeners {
		if l.Name == peer.Listener || l.Name == clientListener && between.Name == "" {
			between = l
		}
	}
	if between.Security != (wire.Security{}) {
		return fmt.Errorf("listener %q asks for TLS or SASL, which the other nodes don't offer: they need one named %q without", between.Name, peer.Listener)
	}
	return nil
}
