// Package quorum keeps the metadata of a cluster: brokers, topics, partitions
// with their replicas and leader epochs, mirrors and their stops, producer-id
// blocks. It is a state machine replicated with hashicorp/raft; every node
// reads it as an immutable Image.
package quorum

import (
	"cmp"
	"fmt"

	"watershed.example/psm"
)

// Image is one version of the cluster's metadata. It is never changed once it
// has been handed out: a command makes a new one that shares what it did not
// touch.
type Image struct {
	// Index is the raft index that made this version.
	Index uint64
	// ClusterID is Kafka's: 22 characters of URL-safe base64 of a UUID.
	ClusterID string
	Brokers   map[int32]*Broker
	Topics    map[string]*Topic
	Mirrors   map[string]*Mirror
	// NextProducerID is the first producer id of the next block.
	NextProducerID int64
	// Profile is the one that all brokers follow; "" is [V42].
	Profile Profile `json:",omitempty"`
	// Lowered is, by shard of the group coordinator, up to which number of
	// [Lowering] it has done them.
	Lowered map[int32]uint64
}

// Broker is a registered node.
type Broker struct {
	ID int32
	// Incarnation is new at each start of the node's process.
	Incarnation string
	// Listeners maps a listener's name to its advertised "host:port". The name
	// "client" is always there; mirror links have listeners of their own.
	Listeners map[string]string
	// Epoch is new at each registration and rises in the cluster: what a
	// broker was known to have counts for that run of it only (KIP-903).
	Epoch int64
	// Fenced brokers lead nothing and are in no ISR that has another member:
	// the controller doesn't hear from them, or they are about to stop.
	Fenced bool
}

// Topic is a topic and its partitions, which are numbered by their place.
type Topic struct {
	Name       string
	ID         [16]byte
	Internal   bool
	Partitions []*Partition
	Configs    map[string]string
	// Mirror is the mirror that owns the topic, or "". It stays after a stop
	// until the mirror is deleted.
	Mirror string
	// Desired is what the operator asked for: Mirroring, Paused or Stopped.
	Desired MirrorState
}

// Partition is the quorum's word on one partition.
type Partition struct {
	// Replicas are all that hold the log or are to: during a reassignment those
	// that are wanted, in the order of preference, and those that still leave.
	Replicas []int32
	// AddingReplicas and RemovingReplicas are those of Replicas that a reassignment
	// in progress brings, and takes away at its end (KIP-455).
	AddingReplicas, RemovingReplicas []int32

	ISR            []int32
	Leader         int32 // -1: none
	LeaderEpoch    int32
	PartitionEpoch int32
	// Cuts are the truncations that mirroring made, by rising offset and leader
	// epoch. A replica that has not followed one gives up what it holds from
	// there on: source and destination elect the same leader epochs, so epochs
	// alone would not tell it that its batches are not the leader's.
	Cuts   []AlignRecord
	Mirror MirrorPartition
}

// MirrorState is a state of a mirror partition, numbered as on the wire.
type MirrorState int8

// The states (as KIP-1279's development build numbers them).
const (
	Unknown       MirrorState = -1
	LogTruncation MirrorState = 0
	EpochFencing  MirrorState = 1
	Mirroring     MirrorState = 2
	Pausing       MirrorState = 3
	Paused        MirrorState = 4
	Stopping      MirrorState = 5
	Stopped       MirrorState = 6
	Failed        MirrorState = 7
)

// MirrorPartition is the mirroring of one partition.
type MirrorPartition struct {
	State MirrorState
	// Aligned is set once the log was aligned with the source's since the last
	// mirror start: a stop before that cuts nothing and writes no barrier.
	Aligned bool
	// AlignedAt is the offset from which on only the source's bytes follow.
	AlignedAt int64
	// Cutting is an alignment that the log has yet to follow, nil once it has.
	Cutting *AlignRecord
	// Discard is the operator's word that the next alignment may cut all.
	Discard bool
	// Begun is when the log was made, or begun anew: see [Image.LogName].
	Begun uint64
	// History are the names of the logs that this one was mirrored from, at first
	// or second hand, since it was last empty. It outlives the mirror: by it, and
	// by shared barriers, two logs are known to have a common history.
	History []string
	// Upstream are the clusters that the log is mirrored from now, nearest
	// first, as the source told; none once it is stopped (CH-4).
	Upstream []string
	// AlignCut is what alignments since the mirror start have cut, StopCut what
	// the last stop did: the recovery point. nil for nothing.
	AlignCut, StopCut *CutReport
	// Current is the stop in progress, from its cut to STOPPED.
	Current *StopRecord
	// Stops are all stops of this partition that still concern its log, oldest
	// first: by them replicas tell own barriers from inherited ones.
	Stops []psm.Stop
	// LastMirroredOffset and LastMirroredEpoch are those of the last stop; -1
	// when there was none.
	LastMirroredOffset int64
	LastMirroredEpoch  int32
	// Lowerings are the cuts that some shard of the group coordinator may not have
	// lowered commits for yet.
	Lowerings []Lowering
	Error     string
	Attempts  int16
}

// AlignRecord is what the quorum wrote when an alignment cut the log: to At, in
// the leader epoch that it began. Until the leader says that it has cut,
// nothing else happens to the log.
type AlignRecord struct {
	At    int64
	Epoch int32
	// Anew cuts everything; the log begins at At from then on, and the barriers
	// that the source's log has had Below that are taken over into its list.
	Anew  bool
	Below []Barrier
}

// Barrier is one MIRROR_PID_RESET batch, and who wrote it.
type Barrier struct {
	Offset          int64  `json:"offset"`
	LeaderEpoch     int32  `json:"leaderEpoch"`
	CRC             uint32 `json:"crc"`
	SourceClusterID string `json:"sourceClusterId"`
	// Writer is the id of the cluster whose stop it ended, "" when not known.
	Writer string `json:"writer,omitempty"`
	// Markers is how many ABORT markers that stop wrote right before it (profile
	// kip1279-latest): logs part where they begin.
	Markers int64 `json:"markers,omitempty"`
}

// LogName is the name of a partition's log among those of all clusters: it is
// another one once the log was begun anew, or the topic made again with the same
// id.
func (img *Image) LogName(p *Partition) string {
	return fmt.Sprintf("%s/%d", img.ClusterID, p.Mirror.Begun)
}

// CutReport counts what was cut off a log.
type CutReport struct {
	// From and To are the range of offsets, To not included.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Records in it, control records not counted.
	Records int64 `json:"records"`
}

// with is both together.
func (c *CutReport) with(d *CutReport) *CutReport {
	if c == nil || d == nil {
		return cmp.Or(c, d)
	}
	return &CutReport{From: min(c.From, d.From), To: max(c.To, d.To), Records: c.Records + d.Records}
}

// StopRecord is what the quorum wrote when a stop cut the log: the truncation
// to L, conditional on the leader epoch, and the last mirrored offset.
type StopRecord struct {
	// L is the first offset that this cluster writes itself: the last stable
	// offset, to which the log was cut, or its end in profile kip1279-latest.
	L int64
	// Markers is how many ABORT markers lie between L and the barrier.
	Markers int64 `json:",omitempty"`
	// Epoch is the leader epoch that the cut made: the barrier's, or a later.
	Epoch           int32
	SourceClusterID string
}

// Mirror is a named link to a source cluster.
type Mirror struct {
	Name            string
	SourceClusterID string
	Bootstrap       []string
	Configs         map[string]string
}
