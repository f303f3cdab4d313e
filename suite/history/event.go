package history

import (
	"fmt"
)

// Kind says what an [Event] tells, and so which of its payloads is set.
type Kind string

// The kinds of event. A kind that ends in "-begin" is written before the
// request is sent; the event with the answer carries the same operation number.
const (
	KindPhase             Kind = "phase"              // Phase
	KindProduceBegin      Kind = "produce-begin"      // Produce, with what is sent
	KindProduceAck        Kind = "produce-ack"        // Produce, with Result; an error answer too
	KindTxnBegin          Kind = "txn-begin"          // Txn: the client opened a transaction (no request)
	KindTxnEndBegin       Kind = "txn-end-begin"      // Txn: EndTxn is about to be sent
	KindTxnEnd            Kind = "txn-end"            // Txn, with Result
	KindInitProducerID    Kind = "init-producer-id"   // InitPID, with Result
	KindAddPartitions     Kind = "add-partitions"     // AddPartitions, with Result
	KindRead              Kind = "read"               // Observed: records that reached an application
	KindReaderPosition    Kind = "reader-position"    // Reader: where a reader stands
	KindFetch             Kind = "fetch"              // Fetch: one raw Fetch answer
	KindListOffsets       Kind = "list-offsets"       // Offsets: a sample of HW and LSO
	KindDescribeProducers Kind = "describe-producers" // Producers: a sample of producer state
	KindMirrorRPCBegin    Kind = "mirror-rpc-begin"   // MirrorRPC
	KindMirrorRPC         Kind = "mirror-rpc"         // MirrorRPC, with Result
	KindMirrorState       Kind = "mirror-state"       // Mirror: what the destination says of a partition
	KindGate              Kind = "gate"               // Gate: a step of STOPPING was reached or let go
	KindFaultStart        Kind = "fault-start"        // Fault
	KindFaultProof        Kind = "fault-proof"        // Fault, with what it did so far
	KindFaultStop         Kind = "fault-stop"         // Fault, with what it did in all
	KindConnection        Kind = "connection"         // Connection: which cluster answered a client
	KindNode              Kind = "node"               // Node: a broker started, stopped, was killed
	KindLeaderEpochs      Kind = "leader-epochs"      // Epochs: which leader epochs a log's batches carry
	KindProbe             Kind = "probe"              // Probe: a request whose answer alone is of interest
	KindMarker            Kind = "marker"             // Marker: a transaction marker that a client wrote by hand
	KindGroupCommit       Kind = "group-commit"       // Group: a consumer group's commit, with Result
	KindGroupOffsets      Kind = "group-offsets"      // Group: a sample of what a group has committed
	KindGroupResumes      Kind = "group-resumes"      // Group: a reader goes on from there
	KindDisturbance       Kind = "disturbance"        // Disturbance: producer state has to outlive it (SC-7)
	KindNote              Kind = "note"               // Note: free text for the person who reads this
)

// Event is one line of a history. Exactly the payload that belongs to Kind is set.
type Event struct {
	// Seq counts the lines of this history from 1, in the order in which they
	// were written. [Writer.Append] sets it.
	Seq int64 `json:"seq,string"`
	// At is the time in nanoseconds since 1970 at the runner (not at a broker).
	// [Writer.Append] sets it when it is 0.
	At   int64 `json:"at,string"`
	Kind Kind  `json:"kind"`
	// Op joins a begin event to its result; 0 for events that are not
	// operations. [Writer.NextOp] makes one.
	Op int64 `json:"op,string,omitempty"`
	// Episode is the number of the episode that the event belongs to, from 1;
	// 0 for what belongs to the whole run, and where a run has one episode only.
	Episode int32 `json:"episode,omitempty"`

	Phase         *Phase         `json:"phase,omitempty"`
	Produce       *Produce       `json:"produce,omitempty"`
	Txn           *Txn           `json:"txn,omitempty"`
	InitPID       *InitPID       `json:"initPid,omitempty"`
	AddPartitions *AddPartitions `json:"addPartitions,omitempty"`
	Read          *Observed      `json:"read,omitempty"`
	Reader        *Reader        `json:"reader,omitempty"`
	Fetch         *Fetch         `json:"fetch,omitempty"`
	Offsets       *Offsets       `json:"offsets,omitempty"`
	Producers     *Producers     `json:"producers,omitempty"`
	MirrorRPC     *MirrorRPC     `json:"mirrorRpc,omitempty"`
	Mirror        *Mirror        `json:"mirror,omitempty"`
	Gate          *Gate          `json:"gate,omitempty"`
	Fault         *Fault         `json:"fault,omitempty"`
	Connection    *Connection    `json:"connection,omitempty"`
	Node          *Node          `json:"node,omitempty"`
	Epochs        *Epochs        `json:"epochs,omitempty"`
	Probe         *Probe         `json:"probe,omitempty"`
	Marker        *Marker        `json:"marker,omitempty"`
	Disturbance   *Disturbance   `json:"disturbance,omitempty"`
	Group         *Group         `json:"group,omitempty"`
	Note          string         `json:"note,omitempty"`
}

// Validate says whether the event is complete: its kind is known, the payload
// of that kind is set and no other, and the payload's closed vocabularies
// (outcome, isolation, phase and so on) hold known words.
func (e *Event) Validate() error {
	want, known := payloadOf[e.Kind]
	if !known {
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	set := 0
	for i, present := range e.payloads() {
		if !present {
			continue
		}
		set++
		if payload(i) != want {
			return fmt.Errorf("kind %q carries payload %q, want %q", e.Kind, payloadNames[i], payloadNames[want])
		}
	}
	if set == 0 {
		return fmt.Errorf("kind %q lacks its payload %q", e.Kind, payloadNames[want])
	}
	if err := e.validatePayload(); err != nil {
		return fmt.Errorf("kind %q: %w", e.Kind, err)
	}
	return nil
}

// payload counts the payloads of an event.
type payload int

const (
	inPhase payload = iota
	inProduce
	inTxn
	inInitPID
	inAddPartitions
	inRead
	inReader
	inFetch
	inOffsets
	inProducers
	inMirrorRPC
	inMirror
	inGate
	inFault
	inConnection
	inNode
	inEpochs
	inProbe
	inMarker
	inDisturbance
	inGroup
	inNote
	allPayloads
)

// payloadNames are their names in a line.
var payloadNames = [allPayloads]string{
	inPhase:         "phase",
	inProduce:       "produce",
	inTxn:           "txn",
	inInitPID:       "initPid",
	inAddPartitions: "addPartitions",
	inRead:          "read",
	inReader:        "reader",
	inFetch:         "fetch",
	inOffsets:       "offsets",
	inProducers:     "producers",
	inMirrorRPC:     "mirrorRpc",
	inMirror:        "mirror",
	inGate:          "gate",
	inFault:         "fault",
	inConnection:    "connection",
	inNode:          "node",
	inEpochs:        "epochs",
	inProbe:         "probe",
	inMarker:        "marker",
	inDisturbance:   "disturbance",
	inGroup:         "group",
	inNote:          "note",
}

// payloadOf says which payload each kind carries.
var payloadOf = map[Kind]payload{
	KindPhase:        inPhase,
	KindProduceBegin: inProduce, KindProduceAck: inProduce,
	KindTxnBegin: inTxn, KindTxnEndBegin: inTxn, KindTxnEnd: inTxn,
	KindInitProducerID: inInitPID, KindAddPartitions: inAddPartitions,
	KindRead: inRead, KindReaderPosition: inReader, KindFetch: inFetch,
	KindListOffsets: inOffsets, KindDescribeProducers: inProducers,
	KindMirrorRPCBegin: inMirrorRPC, KindMirrorRPC: inMirrorRPC, KindMirrorState: inMirror,
	KindGate: inGate, KindFaultStart: inFault, KindFaultProof: inFault, KindFaultStop: inFault,
	KindConnection: inConnection, KindNode: inNode, KindLeaderEpochs: inEpochs, KindProbe: inProbe,
	KindMarker: inMarker, KindDisturbance: inDisturbance,
	KindGroupCommit: inGroup, KindGroupOffsets: inGroup, KindGroupResumes: inGroup, KindNote: inNote,
}

// payloads says which are set.
func (e *Event) payloads() [allPayloads]bool {
	return [allPayloads]bool{
		inPhase:         e.Phase != nil,
		inProduce:       e.Produce != nil,
		inTxn:           e.Txn != nil,
		inInitPID:       e.InitPID != nil,
		inAddPartitions: e.AddPartitions != nil,
		inRead:          e.Read != nil,
		inReader:        e.Reader != nil,
		inFetch:         e.Fetch != nil,
		inOffsets:       e.Offsets != nil,
		inProducers:     e.Producers != nil,
		inMirrorRPC:     e.MirrorRPC != nil,
		inMirror:        e.Mirror != nil,
		inGate:          e.Gate != nil,
		inFault:         e.Fault != nil,
		inConnection:    e.Connection != nil,
		inNode:          e.Node != nil,
		inEpochs:        e.Epochs != nil,
		inProbe:         e.Probe != nil,
		inMarker:        e.Marker != nil,
		inDisturbance:   e.Disturbance != nil,
		inGroup:         e.Group != nil,
		inNote:          e.Note != "",
	}
}

func (e *Event) validatePayload() error {
	switch {
	case e.Phase != nil:
		return oneOf("phase", e.Phase.Name, TrafficBefore, Mirroring, StopRequested, Stopped, TrafficAfter, Settled)
	case e.Produce != nil:
		return e.Produce.validate(e.Kind == KindProduceAck)
	case e.Txn != nil:
		if err := oneOf("intent", e.Txn.Intent, IntentCommit, IntentAbort, IntentOpen); err != nil {
			return err
		}
		return validResult(e.Txn.Result, e.Kind == KindTxnEnd)
	case e.InitPID != nil:
		return validResult(e.InitPID.Result, true)
	case e.AddPartitions != nil:
		return validResult(e.AddPartitions.Result, true)
	case e.Read != nil:
		return e.Read.validate()
	case e.Reader != nil:
		return oneOf("isolation", e.Reader.Isolation, ReadCommitted, ReadUncommitted)
	case e.Fetch != nil:
		if err := oneOf("isolation", e.Fetch.Isolation, ReadCommitted, ReadUncommitted); err != nil {
			return err
		}
		return oneOf("served", e.Fetch.Served, AtOnce, LongPoll)
	case e.Producers != nil:
		return oneOf("when", e.Producers.When, WhenMirroring, WhenAfterStop, WhenAfterRestart, WhenAlone)
	case e.MirrorRPC != nil:
		return validResult(e.MirrorRPC.Result, e.Kind == KindMirrorRPC)
	case e.Gate != nil:
		return oneOf("what", e.Gate.What, GateArrived, GateHeld, GateReleased, GateCrashed)
	case e.Fault != nil && e.Fault.ID == "":
		return fmt.Errorf("fault without id")
	case e.Epochs != nil:
		return e.Epochs.validate()
	case e.Probe != nil:
		return e.Probe.validate()
	case e.Marker != nil:
		return e.Marker.validate()
	case e.Disturbance != nil:
		return e.Disturbance.validate()
	case e.Group != nil:
		return e.Group.validate(e.Kind)
	case e.Node != nil:
		return oneOf("what", e.Node.What, NodeStarted, NodeStopped, NodeKilled, NodePaused, NodeResumed, NodeLostSnapshots)
	}
	return nil
}

func oneOf[T ~string](field string, got T, words ...T) error {
	for _, w := range words {
		if got == w {
			return nil
		}
	}
	return fmt.Errorf("unknown %s %q", field, string(got))
}

func validResult(r *Result, needed bool) error {
	if r == nil {
		if needed {
			return fmt.Errorf("result is missing")
		}
		return nil
	}
	return oneOf("outcome", r.Outcome, OK, Refused, Unknown)
}
