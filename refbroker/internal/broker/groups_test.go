package broker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/quorum"
)

func (n *testNode) adm() *kadm.Client { return kadm.NewClient(n.client()) }

func TestAdminSeesGroups(t *testing.T) {
	n := startNode(t, quickGroups)
	n.topic("t", 4)
	n.topic("u", 1)
	adm := n.adm()
	a := n.consumer("g", kgo.RangeBalancer(), kgo.ClientID("me"), kgo.InstanceID("static"))
	b := n.consumer("g", kgo.RangeBalancer(), kgo.ClientID("me"))
	n.shared(4, a, b)
	require.Eventually(t, func() bool {
		ds, err := adm.DescribeGroups(n.ctx(), "g")
		require.NoError(t, err)
		return ds["g"].State == "Stable" && len(ds["g"].Members) == 2
	}, 10*time.Second, 5*time.Millisecond)
	ds, err := adm.DescribeGroups(n.ctx(), "g", "none")
	require.NoError(t, err)
	require.Equal(t, []string{"consumer", "range"}, []string{ds["g"].ProtocolType, ds["g"].Protocol})
	require.Equal(t, "Dead", ds["none"].State)
	held := 0
	for _, m := range ds["g"].Members {
		require.Equal(t, []string{"me", "/127.0.0.1"}, []string{m.ClientID, m.ClientHost})
		if m.InstanceID != nil {
			require.Equal(t, "static", *m.InstanceID)
			require.True(t, strings.HasPrefix(m.MemberID, "static-"), m.MemberID)
		} else {
			require.True(t, strings.HasPrefix(m.MemberID, "me-"), m.MemberID)
		}
		assigned, ok := m.Assigned.AsConsumer()
		require.True(t, ok)
		held += len(assigned.Topics[0].Partitions)
	}
	require.Equal(t, 4, held)

	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 3, -1)
	offsets.AddOffset("u", 0, 4, -1)
	require.NoError(t, adm.CommitAllOffsets(n.ctx(), "simple", offsets))
	listed, err := adm.ListGroups(n.ctx())
	require.NoError(t, err)
	require.Equal(t, []string{"g", "simple"}, listed.Groups())
	listed, err = adm.ListGroups(n.ctx(), "stable")
	require.NoError(t, err)
	require.Equal(t, []string{"g"}, listed.Groups())

	resp, err := adm.DeleteGroups(n.ctx(), "g", "simple", "none")
	require.NoError(t, err)
	require.ErrorIs(t, resp["g"].Err, kerr.NonEmptyGroup)
	require.NoError(t, resp["simple"].Err)
	require.ErrorIs(t, resp["none"].Err, kerr.GroupIDNotFound)
	got, err := adm.FetchOffsets(n.ctx(), "simple")
	require.NoError(t, err)
	require.Empty(t, got.Offsets())

	// A static member that is taken out by its instance id; the client does not
	// know, and joins again.
	left, err := adm.LeaveGroup(n.ctx(), kadm.LeaveGroup("g").InstanceIDs("static"))
	require.NoError(t, err)
	require.NoError(t, left.Error())
	n.shared(4, a, b)
	b.Close()
	n.shared(4, a)
}

// A static member that restarts is back with what it had, without a rebalance
// of the others.
func TestStaticMemberRestarts(t *testing.T) {
	n := startNode(t, quickGroups)
	n.topic("t", 4)
	a := n.consumer("g", kgo.CooperativeStickyBalancer(), kgo.InstanceID("a"))
	b := n.consumer("g", kgo.CooperativeStickyBalancer(), kgo.InstanceID("b"))
	n.shared(4, a, b)
	generation := func() int32 {
		_, g := b.GroupMetadata()
		return g
	}
	before, held := generation(), a.partitions()
	a.Client.CloseAllowingRebalance() // a static member does not leave
	again := n.consumer("g", kgo.CooperativeStickyBalancer(), kgo.InstanceID("a"))
	n.shared(4, again, b)
	require.Equal(t, before, generation())
	require.Equal(t, held, again.partitions())
}

func TestDeletedTopicTakesItsOffsets(t *testing.T) {
	n := startNode(t, quickGroups)
	n.topic("t", 1)
	adm := n.adm()
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 3, -1)
	require.NoError(t, adm.CommitAllOffsets(n.ctx(), "g", offsets))
	at, err := n.fetchOffset(true)
	require.NoError(t, err)
	require.Equal(t, int64(3), at)
	_, err = adm.DeleteTopics(n.ctx(), "t")
	require.NoError(t, err)
	n.topic("t", 1)
	at, err = n.fetchOffset(true)
	require.NoError(t, err)
	require.Equal(t, int64(-1), at, "another topic of the same name")
}

// What each API answers a stranger, a latecomer and one without a group.
func TestGroupRefusals(t *testing.T) {
	n := startNode(t, quickGroups)
	n.topic("t", 1)
	a := n.consumer("g", kgo.RangeBalancer(), kgo.InstanceID("i"))
	n.shared(1, a)
	member, generation := a.GroupMetadata()
	instance, none := "i", ""
	id := n.Env().Quorum.Image().Topics["t"].ID
	type refusal struct {
		name    string
		version int16
		want    *kerr.Error
		ask     func(version int16) int16
	}
	beat := func(group, member string, generation int32, instance *string) func(int16) int16 {
		return func(v int16) int16 {
			r := &kmsg.HeartbeatRequest{Group: group, MemberID: member, Generation: generation, InstanceID: instance}
			return serveOne[*kmsg.HeartbeatResponse](n, v, r).ErrorCode
		}
	}
	join := func(change func(*kmsg.JoinGroupRequest)) func(int16) int16 {
		return func(v int16) int16 {
			r := kmsg.NewPtrJoinGroupRequest()
			r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = "g", 10_000, 10_000, "consumer"
			r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			change(r)
			return serveOne[*kmsg.JoinGroupResponse](n, v, r).ErrorCode
		}
	}
	sync := func(group, member string, generation int32, instance, protocol *string) func(int16) int16 {
		return func(v int16) int16 {
			r := &kmsg.SyncGroupRequest{Group: group, MemberID: member, Generation: generation, InstanceID: instance, Protocol: protocol}
			return serveOne[*kmsg.SyncGroupResponse](n, v, r).ErrorCode
		}
	}
	leave := func(group, member string, instance *string) func(int16) int16 {
		return func(v int16) int16 {
			r := &kmsg.LeaveGroupRequest{Group: group, MemberID: member, Members: []kmsg.LeaveGroupRequestMember{{MemberID: member, InstanceID: instance}}}
			resp := serveOne[*kmsg.LeaveGroupResponse](n, v, r)
			if v < 3 || resp.ErrorCode != 0 {
				return resp.ErrorCode
			}
			return resp.Members[0].ErrorCode
		}
	}
	commit := func(change func(*kmsg.OffsetCommitRequest)) func(int16) int16 {
		return func(v int16) int16 {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Group, r.MemberID, r.Generation, r.InstanceID = "g", member, generation, &instance
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
			change(r)
			return serveOne[*kmsg.OffsetCommitResponse](n, v, r).Topics[0].Partitions[0].ErrorCode
		}
	}
	fetch := func(topicID [16]byte) func(int16) int16 {
		return func(v int16) int16 {
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{TopicID: topicID, Partitions: []int32{0}}}}}
			return serveOne[*kmsg.OffsetFetchResponse](n, v, r).Groups[0].Topics[0].Partitions[0].ErrorCode
		}
	}
	describe := func(group string) func(int16) int16 {
		return func(v int16) int16 {
			return serveOne[*kmsg.DescribeGroupsResponse](n, v, &kmsg.DescribeGroupsRequest{Groups: []string{group}}).Groups[0].ErrorCode
		}
	}
	remove := func(group, topic string) func(int16) int16 {
		return func(v int16) int16 {
			r := &kmsg.OffsetDeleteRequest{Group: group, Topics: []kmsg.OffsetDeleteRequestTopic{
				{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}},
			}}
			resp := serveOne[*kmsg.OffsetDeleteResponse](n, v, r)
			if resp.ErrorCode != 0 {
				return resp.ErrorCode
			}
			return resp.Topics[0].Partitions[0].ErrorCode
		}
	}
	deleteGroup := func(group string) func(int16) int16 {
		return func(v int16) int16 {
			return serveOne[*kmsg.DeleteGroupsResponse](n, v, &kmsg.DeleteGroupsRequest{Groups: []string{group}}).Groups[0].ErrorCode
		}
	}
	ok := &kerr.Error{}
	long := string(make([]byte, 5000))
	for _, c := range []refusal{
		{"heartbeat", 4, ok, beat("g", member, generation, &instance)},
		{"heartbeat without group", 4, kerr.InvalidGroupID, beat("", member, generation, &instance)},
		{"heartbeat of a group that is not there", 4, kerr.UnknownMemberID, beat("h", member, generation, nil)},
		{"heartbeat of a stranger", 4, kerr.UnknownMemberID, beat("g", "x", generation, nil)},
		{"heartbeat of the same instance", 4, kerr.FencedInstanceID, beat("g", "x", generation, &instance)},
		{"heartbeat of a latecomer", 4, kerr.IllegalGeneration, beat("g", member, generation-1, &instance)},
		{"join without group", 9, kerr.InvalidGroupID, join(func(r *kmsg.JoinGroupRequest) { r.Group = "" })},
		{"join without an id", 4, kerr.MemberIDRequired, join(func(*kmsg.JoinGroupRequest) {})},
		{"join under an id of nobody's", 9, kerr.UnknownMemberID, join(func(r *kmsg.JoinGroupRequest) { r.MemberID = "x" })},
		{"join as the same instance", 9, kerr.FencedInstanceID, join(func(r *kmsg.JoinGroupRequest) { r.MemberID, r.InstanceID = "x", &instance })},
		{"join with a short session", 9, kerr.InvalidSessionTimeout, join(func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 })},
		{"join with another protocol", 9, kerr.InconsistentGroupProtocol, join(func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "x" })},
		{"join with another type", 9, kerr.InconsistentGroupProtocol, join(func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "x" })},
		{"sync", 5, ok, sync("g", member, generation, &instance, nil)},
		{"sync without group", 5, kerr.InvalidGroupID, sync("", member, generation, nil, nil)},
		{"sync of a group that is not there", 5, kerr.UnknownMemberID, sync("h", member, generation, nil, nil)},
		{"sync of a stranger", 5, kerr.UnknownMemberID, sync("g", "x", generation, nil, nil)},
		{"sync of the same instance", 5, kerr.FencedInstanceID, sync("g", "x", generation, &instance, nil)},
		{"sync of a latecomer", 5, kerr.IllegalGeneration, sync("g", member, generation-1, nil, nil)},
		{"sync of another protocol", 5, kerr.InconsistentGroupProtocol, sync("g", member, generation, nil, &none)},
		{"leave without group", 5, kerr.InvalidGroupID, leave("", member, nil)},
		{"leave of a stranger", 5, kerr.UnknownMemberID, leave("g", "x", nil)},
		{"leave of a stranger, of old", 2, kerr.UnknownMemberID, leave("g", "x", nil)},
		{"leave of the same instance", 5, kerr.FencedInstanceID, leave("g", "x", &instance)},
		{"leave of a group that is not there", 5, kerr.UnknownMemberID, leave("h", member, nil)},
		{"commit", 8, ok, commit(func(*kmsg.OffsetCommitRequest) {})},
		{"commit by id", 10, ok, commit(func(*kmsg.OffsetCommitRequest) {})},
		{"commit of a topic id of nobody's", 10, kerr.UnknownTopicID, commit(func(r *kmsg.OffsetCommitRequest) { r.Topics[0].TopicID = [16]byte{1} })},
		{"commit of a topic that is not there", 9, kerr.UnknownTopicOrPartition, commit(func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Topic = "x" })},
		{"commit of a partition that is not there", 9, kerr.UnknownTopicOrPartition, commit(func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = 1 })},
		{"commit with long metadata", 9, kerr.OffsetMetadataTooLarge, commit(func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = &long })},
		{"commit of a stranger", 9, kerr.UnknownMemberID, commit(func(r *kmsg.OffsetCommitRequest) { r.MemberID, r.InstanceID = "x", nil })},
		{"commit of the same instance", 9, kerr.FencedInstanceID, commit(func(r *kmsg.OffsetCommitRequest) { r.MemberID = "x" })},
		{"commit of a latecomer", 9, kerr.IllegalGeneration, commit(func(r *kmsg.OffsetCommitRequest) { r.Generation-- })},
		{"commit of no member", 9, kerr.UnknownMemberID, commit(func(r *kmsg.OffsetCommitRequest) { r.MemberID, r.InstanceID, r.Generation = "", nil, -1 })},
		{"commit to a group that is not there", 9, kerr.GroupIDNotFound, commit(func(r *kmsg.OffsetCommitRequest) { r.Group = "h" })},
		{"commit to a group that is not there, of old", 8, kerr.IllegalGeneration, commit(func(r *kmsg.OffsetCommitRequest) { r.Group = "h" })},
		{"fetch by id", 10, ok, fetch(id)},
		{"fetch by an id of nobody's", 10, kerr.UnknownTopicID, fetch([16]byte{1})},
		{"describe", 6, ok, describe("g")},
		{"describe a group that is not there", 6, kerr.GroupIDNotFound, describe("h")},
		{"describe a group that is not there, of old", 5, ok, describe("h")},
		{"delete", 3, kerr.NonEmptyGroup, deleteGroup("g")},
		{"delete a group that is not there", 3, kerr.GroupIDNotFound, deleteGroup("h")},
		{"delete an offset", 0, kerr.GroupSubscribedToTopic, remove("g", "t")},
		{"delete an offset of a topic that is not there", 0, kerr.UnknownTopicOrPartition, remove("g", "x")},
		{"delete an offset of a group that is not there", 0, kerr.GroupIDNotFound, remove("h", "t")},
		{"delete an offset without group", 0, kerr.InvalidGroupID, remove("", "t")},
	} {
		got := c.ask(c.version)
		require.Equal(t, c.want.Code, got, "%s: want %v, got %v", c.name, kerr.ErrorForCode(c.want.Code), kerr.ErrorForCode(got))
	}
}

// On three nodes the coordinators are spread; whoever is asked in error says
// so.
func TestGroupsOnThreeNodes(t *testing.T) {
	t.Parallel()
	nodes := startThree(t, quickGroups)
	n := nodes[0]
	n.topic("t", 6)
	for _, m := range nodes {
		_, err := m.Env().Quorum.Wait(m.ctx(), func(i *quorum.Image) bool { return i.Topics["t"] != nil })
		require.NoError(t, err)
	}
	want := n.spread(6, 0, 12)
	for _, name := range []string{"g", "h", "i"} {
		a, b := n.consumer(name, kgo.CooperativeStickyBalancer()), nodes[2].consumer(name, kgo.CooperativeStickyBalancer())
		n.shared(6, a, b)
		require.ElementsMatch(t, want, n.read(12, a, b))
		require.NoError(t, a.CommitUncommittedOffsets(n.ctx()))
		require.NoError(t, b.CommitUncommittedOffsets(n.ctx()))
		a.Close()
		b.Close()
	}
	places := map[int32]bool{}
	for _, name := range []string{"g", "h", "i", "j", "k", "l"} {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKeys = []string{name}
		at := serveOne[*kmsg.FindCoordinatorResponse](n, 4, r).Coordinators[0].NodeID
		places[at] = true
		for _, m := range nodes {
			require.Eventually(t, func() bool {
				code := serveOne[*kmsg.DescribeGroupsResponse](m, 5, &kmsg.DescribeGroupsRequest{Groups: []string{name}}).Groups[0].ErrorCode
				return (code == 0) == (m.cfg.NodeID == at) && (code == 0 || code == kerr.NotCoordinator.Code)
			}, 10*time.Second, 5*time.Millisecond)
		}
	}
	require.Greater(t, len(places), 1)
	lag, err := kadm.NewClient(nodes[1].client()).Lag(context.WithoutCancel(n.ctx()), "g", "h", "i")
	require.NoError(t, err)
	for _, name := range []string{"g", "h", "i"} {
		require.Zero(t, lag[name].Lag.Total(), name)
	}
}
