package history

// When says at which time producers were described.
type When string

// The times at which producers are described.
const (
	WhenMirroring    When = "mirroring"     // asked before the stop was requested
	WhenAfterStop    When = "after-stop"    // asked after STOPPED was seen
	WhenAfterRestart When = "after-restart" // asked after that, when a broker had come back
	WhenAlone        When = "alone"         // on a cluster without any mirror
)

// Producers is the answer of DescribeProducers for one partition.
type Producers struct {
	Cluster   string `json:"cluster"`
	Node      int32  `json:"node"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	When      When   `json:"when"`
	// Code is the partition's error code; the list means nothing when it is not 0.
	Code   int16           `json:"code"`
	Active []ProducerState `json:"active"`
}

// ProducerState is one producer as DescribeProducers shows it.
type ProducerState struct {
	ProducerID       int64 `json:"producerId,string"`
	Epoch            int32 `json:"epoch"`
	LastSequence     int32 `json:"lastSequence"`
	LastTimestamp    int64 `json:"lastTimestamp,string"`
	CoordinatorEpoch int32 `json:"coordinatorEpoch"`
	// CurrentTxnStart is the first offset of the open transaction, or -1.
	CurrentTxnStart int64 `json:"currentTxnStart,string"`
}

// MirrorRPC is a request of the mirrors' control plane.
type MirrorRPC struct {
	Cluster string   `json:"cluster"` // the cluster asked, which is the destination
	API     string   `json:"api"`     // such as "StopMirrorTopics"
	Mirror  string   `json:"mirror"`
	Topics  []string `json:"topics,omitempty"`
	Result  *Result  `json:"result,omitempty"`
}

// Mirror is what the destination says about one partition of a mirror.
type Mirror struct {
	Cluster   string `json:"cluster"`
	Mirror    string `json:"mirror"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// State is the name of the state, such as MIRRORING, STOPPING, STOPPED.
	State string `json:"state"`
	// Step is the last finished step of STOPPING, where the broker tells.
	Step              string `json:"step,omitempty"`
	SourceOffset      int64  `json:"sourceOffset,string"`      // -1 unknown
	DestinationOffset int64  `json:"destinationOffset,string"` // log end on the destination; -1 unknown
	Lag               int64  `json:"lag,string"`               // -1 unknown
	// LastMirrored is L of the last stop: the first offset that the
	// destination itself writes; -1 before that is known.
	LastMirrored  int64  `json:"lastMirrored,string"`
	BarrierOffset int64  `json:"barrierOffset,string"` // of the last stop; -1 unknown
	Error         string `json:"error,omitempty"`
	// WouldCut is what a stop now would cut, as the broker says, StopCut what the
	// last stop has, and Oldest the open transaction that began first. The zero
	// value of each means that nobody was asked; -1 in it that there is none.
	WouldCut Cut       `json:"wouldCut,omitzero"`
	StopCut  Cut       `json:"stopCut,omitzero"`
	Oldest   Undecided `json:"oldest,omitzero"`
}

// Cut is what is, or would be, cut off a log: the offsets from From on and below
// To, -1 for nothing, and how many records that is, control records left out.
type Cut struct {
	From    int64 `json:"from,string"`
	To      int64 `json:"to,string"`
	Records int64 `json:"records,string"`
}

// Undecided is an open transaction; -1 for none.
type Undecided struct {
	ProducerID  int64 `json:"producerId,string"`
	Epoch       int16 `json:"epoch"`
	FirstOffset int64 `json:"firstOffset,string"`
}

// GateEvent says what happened at a gate.
type GateEvent string

// What happens at gates.
const (
	GateArrived  GateEvent = "arrived"  // a node passed or reached the point
	GateHeld     GateEvent = "held"     // it waits there
	GateReleased GateEvent = "released" // it was let go
	GateCrashed  GateEvent = "crashed"  // it was killed there
)

// Gate is an event at a step of STOPPING.
type Gate struct {
	Cluster   string    `json:"cluster"`
	Node      int32     `json:"node"`
	Point     string    `json:"point"`               // such as "before:truncated"
	Partition string    `json:"partition,omitempty"` // such as "t-0"; empty for all
	What      GateEvent `json:"what"`
}

// Fault is a fault that starts, is at work or stops. The counters say what it
// did inside the strike window, that is since it started: they are its proof.
type Fault struct {
	ID   string `json:"id"`   // one for each fault of a run
	Name string `json:"name"` // such as "partition-both", "hold-and-release"
	// Link is the named link or node that it strikes, such as "mirror:A->B" or
	// "node:B/2".
	Link string `json:"link"`
	// Role is what the node was to its cluster when it was struck, such as "leader
	// of orders-0 on B".
	Role  string `json:"role,omitempty"`
	Phase string `json:"phase"` // when it was to strike, such as "before:truncated"
	// HeldBefore is the number of bytes that were already held when the
	// fetchers were removed: a response in flight (LINK-1).
	HeldBefore         int64 `json:"heldBefore,string"`
	BytesHeld          int64 `json:"bytesHeld,string"`
	BytesDropped       int64 `json:"bytesDropped,string"`
	BytesReleased      int64 `json:"bytesReleased,string"`
	BytesDelayed       int64 `json:"bytesDelayed,string"`
	ConnectionsRefused int64 `json:"connectionsRefused,string"`
	ConnectionsReset   int64 `json:"connectionsReset,string"`
	// ProcessEvents counts kills, pauses and the like.
	ProcessEvents int64 `json:"processEvents,string"`
	// Withheld counts records that the source acknowledged while it was cut off, and that
	// the destination did not get, where the link itself counts nothing.
	Withheld int64 `json:"withheld,omitempty,string"`
	// Effects counts what else the fault did: messages held or cut, ends of connections
	// that came late, roles that moved, replicas that fell behind, writes that the disk
	// refused, syncs that took longer, wrong times that were read.
	Effects int64 `json:"effects,omitempty,string"`
}

// Bit says whether the fault did anything at all inside its window.
func (f *Fault) Bit() bool {
	return f.HeldBefore > 0 || f.BytesHeld > 0 || f.BytesDropped > 0 || f.BytesDelayed > 0 ||
		f.ConnectionsRefused > 0 || f.ConnectionsReset > 0 || f.ProcessEvents > 0 || f.Withheld > 0 || f.Effects > 0
}

// Connection says which cluster a client found behind an address (FA-17).
type Connection struct {
	Client    string `json:"client"`
	Address   string `json:"address"`
	Cluster   string `json:"cluster"`   // the cluster that the client means to talk to
	ClusterID string `json:"clusterId"` // the id that Metadata answered
}

// NodeEvent says what happened to a broker.
type NodeEvent string

// What happens to brokers.
const (
	NodeStarted NodeEvent = "started"
	NodeStopped NodeEvent = "stopped"
	NodeKilled  NodeEvent = "killed"
	NodePaused  NodeEvent = "paused"
	NodeResumed NodeEvent = "resumed"
	// NodeLostSnapshots is a broker that is down, and whose producer snapshots
	// were taken away: its recovery has to read its logs from their start.
	NodeLostSnapshots NodeEvent = "lost-snapshots"
)

// Node is an event in a broker's life.
type Node struct {
	Cluster string    `json:"cluster"`
	Node    int32     `json:"node"`
	What    NodeEvent `json:"what"`
}
