package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/quorum"
)

// The calls of the control plane, as columns of the table.
const (
	callCreate = iota
	callStart
	callStop
	callPause
	callResume
	callDescribe
	callList
	callDeleteMirror
	callDeleteTopic
	calls
)

func callName(call int) string {
	return [calls]string{"create", "start", "stop", "pause", "resume", "describe", "list", "delete mirror", "delete topic"}[call]
}

// Rows that are no state of a partition.
const (
	ofNobody     = "in no mirror"
	ofAnother    = "in another mirror"
	topicDeleted = "stopped, and deleted"
	notThere     = "not here"
	noSuchMirror = "of no such mirror"
)

// outcome is the error that a call is answered with, "" for none, and the state
// afterwards, "" for no topic of that name.
type callOutcome struct{ code, state string }

// controlTable is what each call does to a topic in each state, while the source
// lives. deadSource has what is different without it.
func controlTable() (table, deadSource map[string][calls]callOutcome) {
	const (
		un, tr, fe, mi, pg, pd, sg, sd, fa = "UNKNOWN", "LOG_TRUNCATION", "EPOCH_FENCING", "MIRRORING", "PAUSING", "PAUSED", "STOPPING", "STOPPED", "FAILED"

		exists, noMirror, inMirror, notIn  = "CLUSTER_MIRROR_ALREADY_EXISTS", "UNKNOWN_CLUSTER_MIRROR", "TOPIC_ALREADY_IN_CLUSTER_MIRROR", "TOPIC_NOT_IN_CLUSTER_MIRROR"
		notPaused, stopping, notStopped    = "MIRROR_TOPIC_NOT_PAUSED", "MIRROR_TOPIC_BEING_STOPPED", "MIRROR_TOPIC_NOT_STOPPED"
		notEmpty, readOnly, noTopic, there = "CLUSTER_MIRROR_NOT_EMPTY", "READ_ONLY_TOPIC", "UNKNOWN_TOPIC_OR_PARTITION", "BROKER_NOT_AVAILABLE"
	)
	table = map[string][calls]callOutcome{
		//             create        start             stop          pause           resume            describe  list      delete mirror  delete topic
		tr:           {{exists, tr}, {"", tr}, {"", sg}, {"", pg}, {"", tr}, {"", tr}, {"", tr}, {notEmpty, tr}, {readOnly, tr}},
		fe:           {{exists, fe}, {"", fe}, {"", sg}, {"", pg}, {"", fe}, {"", fe}, {"", fe}, {notEmpty, fe}, {readOnly, fe}},
		mi:           {{exists, mi}, {"", mi}, {"", sg}, {"", pg}, {"", mi}, {"", mi}, {"", mi}, {notEmpty, mi}, {readOnly, mi}},
		pg:           {{exists, pg}, {"", mi}, {"", sg}, {"", pg}, {"", mi}, {"", pg}, {"", pg}, {notEmpty, pg}, {readOnly, pg}},
		pd:           {{exists, pd}, {"", mi}, {"", sg}, {"", pd}, {"", mi}, {"", pd}, {"", pd}, {notEmpty, pd}, {readOnly, pd}},
		sg:           {{exists, sg}, {notStopped, sg}, {"", sg}, {stopping, sg}, {notPaused, sg}, {"", sg}, {"", sg}, {notEmpty, sg}, {readOnly, sg}},
		sd:           {{exists, sd}, {"", tr}, {"", sd}, {stopping, sd}, {notPaused, sd}, {"", sd}, {"", sd}, {"", sd}, {"", ""}},
		fa:           {{exists, fa}, {"", mi}, {"", sg}, {"", pg}, {"", mi}, {"", fa}, {"", fa}, {notEmpty, fa}, {readOnly, fa}},
		ofNobody:     {{exists, un}, {"", tr}, {notIn, un}, {notIn, un}, {notIn, un}, {"", un}, {"", un}, {"", un}, {"", ""}},
		ofAnother:    {{exists, mi}, {inMirror, mi}, {notIn, mi}, {notIn, mi}, {notIn, mi}, {"", mi}, {"", mi}, {"", mi}, {readOnly, mi}},
		topicDeleted: {{exists, ""}, {"", mi}, {noTopic, ""}, {noTopic, ""}, {noTopic, ""}, {"", ""}, {"", ""}, {"", ""}, {noTopic, ""}},
		notThere:     {{exists, ""}, {"", mi}, {noTopic, ""}, {noTopic, ""}, {noTopic, ""}, {"", ""}, {"", ""}, {"", ""}, {noTopic, ""}},
		noSuchMirror: {{"", un}, {noMirror, un}, {noMirror, un}, {noMirror, un}, {noMirror, un}, {noMirror, un}, {"", un}, {noMirror, un}, {"", ""}},
	}
	deadSource = maps.Clone(table)
	for row, state := range map[string]string{ofNobody: un, topicDeleted: "", notThere: ""} {
		cells := deadSource[row]
		cells[callStart] = callOutcome{there, state} // who has never been asked is to be
		deadSource[row] = cells
	}
	return table, deadSource
}

func controlRows() []string {
	table, _ := controlTable()
	return slices.Sorted(maps.Keys(table))
}

// absentNode is a node that is registered and not there: what only it holds is
// led by nobody, and so stays in the state that it was given.
const absentNode = 9

// controlCluster is three nodes, and a source of one.
type controlCluster struct {
	*bubbleCluster
	source *Node
	conf   Config // the source's
	ids    map[string][16]byte
}

// cellTopic is the topic, and the mirror, that one cell of the table is tried on.
// Cells of a row whose calls leave everything as it is share one.
func cellTopic(pass, row string, call int) string {
	table, _ := controlTable()
	cell := table[row][call]
	if cell.state == table[row][callDescribe].state && (cell.code != "" || gone(call) == "") {
		call = callDescribe
	}
	return fmt.Sprintf("%s-%d-%d", pass, slices.Index(controlRows(), row), call)
}

// cellTopics are the topics of a row.
func cellTopics(pass, row string) []string {
	var all []string
	for call := range calls {
		all = append(all, cellTopic(pass, row, call))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func newControlCluster(t *testing.T, passes ...string) *controlCluster {
	s := newSea()
	c := &controlCluster{conf: s.config(t, crashSourceHost, crashSource, 1), ids: map[string][16]byte{}}
	var err error
	c.source, err = Start(t.Context(), c.conf)
	require.NoError(t, err)
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 30_000
	for _, pass := range passes {
		for _, row := range controlRows() {
			for _, name := range cellTopics(pass, row) {
				topic := kmsg.NewCreateTopicsRequestTopic()
				topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
				create.Topics = append(create.Topics, topic)
			}
		}
	}
	made, err := ask[*kmsg.CreateTopicsResponse](t.Context(), s, c.conf.Listeners[0].Listen, 7, create)
	require.NoError(t, err)
	for _, topic := range made.Topics {
		require.Zero(t, topic.ErrorCode)
		c.ids[topic.Topic] = topic.TopicID
	}
	c.bubbleCluster = newBubbleCluster(t, s, func(*Config) {})
	return c
}

func (c *controlCluster) close() {
	c.closeAll()
	if c.source != nil {
		_ = c.source.Kill()
	}
}

func (c *controlCluster) apply(command quorum.Command) {
	c.t.Helper()
	_, err := c.node(0).Env().Quorum.Apply(c.t.Context(), command)
	require.NoError(c.t, err)
}

// fill brings the topics of a pass into the states of their rows.
func (c *controlCluster) fill(pass string) {
	c.t.Helper()
	for _, row := range controlRows() {
		// Again and again: it is silent, and so soon fenced.
		c.apply(quorum.RegisterBroker{ID: absentNode, Incarnation: pass + row, Listeners: map[string]string{"client": hostOf(absentNode) + ":9092"}, Clean: true})
		for _, name := range cellTopics(pass, row) {
			if row != notThere {
				c.apply(quorum.CreateTopic{Name: name, ID: c.ids[name], Assignment: [][]int32{{absentNode}}})
			}
			for _, mirror := range []string{name, name + "-other"} {
				if mirror == name && row != noSuchMirror || mirror != name && row == ofAnother {
					c.apply(quorum.CreateMirror{Name: mirror, SourceClusterID: crashSource, Bootstrap: []string{c.conf.Listeners[0].Listen}})
				}
			}
		}
	}
	c.apply(quorum.FenceBroker{ID: absentNode, Epoch: c.node(0).Env().Quorum.Image().Brokers[absentNode].Epoch})
	for _, row := range controlRows() {
		for _, name := range cellTopics(pass, row) {
			c.bring(name, row)
		}
	}
}

// bring takes a topic into the state of a row, as an operator and its leader
// would.
func (c *controlCluster) bring(topic, row string) {
	c.t.Helper()
	epoch := func() int32 { return c.node(0).Env().Quorum.Image().Topics[topic].Partitions[0].LeaderEpoch }
	desire := func(mirror string, s quorum.MirrorState) {
		c.apply(quorum.SetMirrorTopics{Mirror: mirror, Topics: []string{topic}, Desired: s})
	}
	step := func(from, to quorum.MirrorState) {
		c.apply(quorum.SetMirrorState{Topic: topic, LeaderEpoch: epoch(), From: from, To: to, Cut: from == quorum.LogTruncation, Error: map[bool]string{true: "the reason"}[to == quorum.Failed]})
	}
	mirror := topic
	switch row {
	case ofNobody, noSuchMirror, notThere:
		return
	case ofAnother:
		mirror += "-other"
	}
	desire(mirror, quorum.Mirroring)
	if row == quorum.LogTruncation.String() {
		return
	}
	c.apply(quorum.AlignMirror{Topic: topic, LeaderEpoch: epoch(), LogEpoch: -1})
	step(quorum.LogTruncation, quorum.Mirroring)
	switch row {
	case quorum.EpochFencing.String():
		step(quorum.Mirroring, quorum.EpochFencing)
	case quorum.Failed.String():
		step(quorum.Mirroring, quorum.Failed)
	case quorum.Pausing.String(), quorum.Paused.String():
		desire(mirror, quorum.Paused)
		if row == quorum.Paused.String() {
			step(quorum.Pausing, quorum.Paused)
		}
	case quorum.Stopping.String(), quorum.Stopped.String(), topicDeleted:
		desire(mirror, quorum.Stopped)
		if row == quorum.Stopping.String() {
			return
		}
		c.apply(quorum.CutForStop{Topic: topic, LeaderEpoch: epoch(), LogEpoch: -1, LastMirroredOffset: -1, LastMirroredEpoch: -1, SourceClusterID: crashSource})
		c.apply(quorum.FinishStop{Topic: topic, LeaderEpoch: epoch()})
		if row == topicDeleted {
			c.apply(quorum.DeleteTopic{Name: topic, ID: c.ids[topic]})
		}
	}
}

// call makes a call of a node about a topic and the mirror of that name.
func (c *controlCluster) call(node int32, call int, name string) error {
	ctx := c.t.Context()
	address := c.address(node)
	m := mirrorrpc.Client{R: asker{c.sea, address}}
	switch call {
	case callCreate:
		return m.Create(ctx, name, map[string]string{mirrorrpc.ConfigBootstrap: c.conf.Listeners[0].Listen, mirrorrpc.ConfigSourceClusterID: crashSource})
	case callStart:
		return m.Start(ctx, name, name)
	case callStop:
		return m.Stop(ctx, name, name)
	case callPause:
		return m.Pause(ctx, name, name)
	case callResume:
		return m.Resume(ctx, name, name)
	case callDescribe:
		_, err := m.Describe(ctx, name)
		return err
	case callList:
		_, err := m.List(ctx)
		return err
	case callDeleteMirror:
		return m.Delete(ctx, name)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.Topics = 5000, []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
	resp, err := ask[*kmsg.DeleteTopicsResponse](ctx, c.sea, address, 6, req)
	if err != nil {
		return err
	}
	r := resp.Topics[0]
	if r.ErrorCode == 0 {
		return nil
	}
	e := &mirrorrpc.Error{Err: mirrorrpc.ErrorForCode(req.Key(), r.ErrorCode)}
	if r.ErrorMessage != nil {
		e.Message = *r.ErrorMessage
	}
	return e
}

// after is the outcome of a call that was answered.
func (c *controlCluster) after(node int32, name string, err error) callOutcome {
	c.t.Helper()
	var o callOutcome
	if err != nil {
		var e *mirrorrpc.Error
		require.ErrorAs(c.t, err, &e)
		var code *kerr.Error
		require.ErrorAs(c.t, e.Err, &code)
		o.code = code.Message
	}
	if t := c.node(node).Env().Quorum.Image().Topics[name]; t != nil {
		if t.Partitions[0].Leader >= 0 { // the call made it, on nodes that are there
			c.until(name+" is mirrored", func() bool {
				t = c.node(node).Env().Quorum.Image().Topics[name]
				return t.Partitions[0].Mirror.State == quorum.Mirroring
			})
		}
		o.state = t.Partitions[0].Mirror.State.String()
	}
	return o
}

// gone is what a call that deletes is answered with when it is repeated.
func gone(call int) string {
	return map[int]string{callDeleteMirror: "UNKNOWN_CLUSTER_MIRROR", callDeleteTopic: "UNKNOWN_TOPIC_OR_PARTITION", callCreate: "CLUSTER_MIRROR_ALREADY_EXISTS"}[call]
}

// try makes one cell's call twice, and holds its outcome and the rules that are
// above all cells.
func (c *controlCluster) try(node int32, pass, row string, call int, want callOutcome) {
	t, name := c.t, cellTopic(pass, row, call)
	what := fmt.Sprintf("%s of a topic that is %s", callName(call), row)
	before := c.node(node).Env().Quorum.Image()
	err := c.call(node, call, name)
	got := c.after(node, name, err)
	require.Equal(t, want, got, "%s: %v", what, err)
	now := c.node(node).Env().Quorum.Image()
	var e *mirrorrpc.Error
	if errors.As(err, &e) {
		if call != callDescribe { // whose answers about a mirror have no room for one
			require.NotEmpty(t, e.Message, "%s is refused without a word of why", what)
		}
		require.Same(t, before.Topics[name], now.Topics[name], "%s is refused, and has changed the topic", what)
		require.Equal(t, before.Mirrors[name], now.Mirrors[name], "%s is refused, and has changed the mirror", what)
	}
	if call == callStop {
		require.NotContains(t, []string{"MIRROR_TOPIC_ALREADY_PAUSED", "INVALID_CLUSTER_MIRROR_STATES"}, got.code, what)
		if state := before.Topics[name]; state != nil && state.Mirror == name {
			require.Empty(t, got.code, "a stop is accepted in every state: %s", what)
		}
	}
	repeated := c.call(node, call, name)
	again := c.after(node, name, repeated)
	if err == nil && gone(call) != "" {
		want.code = gone(call)
	}
	require.Equal(t, want, again, "%s, repeated: %v", what, repeated)
	if n := now.Topics[name]; n != nil && n.Partitions[0].Leader < 0 {
		require.Equal(t, n, c.node(node).Env().Quorum.Image().Topics[name], "%s, repeated, changed the topic", what)
	}
}

// Every call of the control plane meets a topic in every state of mirroring: the
// error by its name, with a word of why, and the state afterwards. A refused call
// changes nothing, one that is repeated has the same outcome, a stop is accepted
// in every state and never answered with what only an impatient client would
// understand (OPS-1). The source lives, and any node is asked; then it is dead,
// and the controller is asked. Time is virtual.
func TestEveryCallInEveryState(t *testing.T) {
	t.Parallel() // virtual time is no processor's
	table, deadSource := controlTable()
	require.Len(t, table, len(quorum.MirrorStates())+4, "every state, and what is no state; nothing mirrors in UNKNOWN")
	synctest.Test(t, func(t *testing.T) {
		c := newControlCluster(t, "lives", "dead")
		defer c.close()
		c.fill("lives")
		c.fill("dead")
		controller := c.controller()
		require.GreaterOrEqual(t, controller, int32(0))
		for _, row := range controlRows() {
			for call := range calls {
				c.try((controller+1)%3, "lives", row, call, table[row][call])
			}
		}
		require.NoError(t, c.source.Kill())
		c.source = nil
		for _, row := range controlRows() {
			for call := range calls {
				c.try(controller, "dead", row, call, deadSource[row][call])
			}
		}
	})
}

// Each call is made while the quorum's leader dies and another one takes over, and
// repeated as clients do: the outcome is the table's.
func TestEveryCallWhileTheControllerMoves(t *testing.T) {
	t.Parallel()
	table, _ := controlTable()
	synctest.Test(t, func(t *testing.T) {
		c := newControlCluster(t, "moves")
		defer c.close()
		c.fill("moves")
		for call := range calls {
			var controller int32
			c.until("a controller", func() bool { controller = c.controller(); return controller >= 0 })
			node := (controller + 1) % 3
			c.kill(controller)
			var asking sync.WaitGroup
			errs := map[string]error{}
			var mu sync.Mutex // never held while waiting
			for _, row := range controlRows() {
				asking.Go(func() {
					err := c.insist(node, call, cellTopic("moves", row, call))
					mu.Lock()
					errs[row] = err
					mu.Unlock()
				})
			}
			asking.Wait()
			for _, row := range controlRows() {
				want, got := table[row][call], c.after(node, cellTopic("moves", row, call), errs[row])
				if got.code != "" && got.code == gone(call) {
					want.code = got.code // an answer was lost, and the call had its effect
				}
				require.Equal(t, want, got, "%s of a topic that is %s: %v", callName(call), row, errs[row])
			}
			c.startAll()
		}
	})
}

// insist repeats a call until it is answered for good.
func (c *controlCluster) insist(node int32, call int, name string) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		err := c.call(node, call, name)
		var e *mirrorrpc.Error
		if err == nil || errors.As(err, &e) && !errors.Is(err, kerr.NotController) && !errors.Is(err, kerr.RequestTimedOut) {
			return err
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}
