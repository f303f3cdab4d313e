package quorum

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"watershed.example/psm"
)

// built is the image after commands, none of which may be refused.
func built(t require.TestingT, commands ...Command) *Image {
	img := NewImage("c")
	for _, c := range commands {
		next, _, err := c.apply(img)
		require.NoError(t, err)
		img = next
	}
	return img
}

// threeBrokers have topic t, whose partition 0 is led by 1, partition 1 by 2.
func threeBrokers(t require.TestingT) *Image {
	return built(t, registered(1), registered(2), registered(3),
		CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: [][]int32{{1, 2, 3}, {2, 3}}})
}

func TestEveryCommandComesBackFromTheLogAsItWas(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			zero, err := k.decode([]byte("{}"))
			require.NoError(t, err)
			filled := reflect.New(reflect.TypeOf(zero)).Elem()
			fill(filled)
			c, ok := filled.Interface().(Command)
			require.True(t, ok)
			raw, err := Encode(c)
			require.NoError(t, err)
			back, err := Decode(raw)
			require.NoError(t, err)
			require.Equal(t, c, back)
		})
	}
}

// fill sets every field to something that is not its zero value.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"x":1}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(3)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(4)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	default:
		panic("a command has a field of kind " + v.Kind().String())
	}
}

func TestWhatIsNoCommandIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		raw     string
		unknown bool
	}{
		"empty":           {"", false},
		"other type":      {`{"type":"Other","version":1,"data":{}}`, true},
		"other version":   {`{"type":"CreateTopic","version":2,"data":{}}`, true},
		"data of another": {`{"type":"CreateTopic","version":1,"data":{"name":7}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.raw))
			require.Error(t, err)
			require.Equal(t, c.unknown, strings.Contains(err.Error(), ErrUnknownCommand.Error()))
		})
	}
}

func TestRefusedCommands(t *testing.T) {
	img := threeBrokers(t)
	id := [16]byte{9}
	for name, c := range map[string]struct {
		command Command
		want    *kerr.Error
	}{
		"register: id below zero":        {registered(-1), kerr.InvalidRequest},
		"topic: name":                    {CreateTopic{Name: "a b", ID: id, Assignment: [][]int32{{1}}}, kerr.InvalidTopicException},
		"topic: empty name":              {CreateTopic{Name: "", ID: id, Assignment: [][]int32{{1}}}, kerr.InvalidTopicException},
		"topic: dots":                    {CreateTopic{Name: "..", ID: id, Assignment: [][]int32{{1}}}, kerr.InvalidTopicException},
		"topic: there already":           {CreateTopic{Name: "t", ID: id, Assignment: [][]int32{{1}}}, kerr.TopicAlreadyExists},
		"topic: id of another":           {CreateTopic{Name: "u", ID: [16]byte{1}, Assignment: [][]int32{{1}}}, kerr.TopicAlreadyExists},
		"topic: no id":                   {CreateTopic{Name: "u", Assignment: [][]int32{{1}}}, kerr.InvalidRequest},
		"topic: no partition":            {CreateTopic{Name: "u", ID: id}, kerr.InvalidPartitions},
		"topic: no replica":              {CreateTopic{Name: "u", ID: id, Assignment: [][]int32{{}}}, kerr.InvalidReplicaAssignment},
		"topic: unknown replica":         {CreateTopic{Name: "u", ID: id, Assignment: [][]int32{{7}}}, kerr.InvalidReplicaAssignment},
		"topic: replica twice":           {CreateTopic{Name: "u", ID: id, Assignment: [][]int32{{1, 1}}}, kerr.InvalidReplicaAssignment},
		"delete: unknown":                {DeleteTopic{Name: "u"}, kerr.UnknownTopicOrPartition},
		"delete: another of the name":    {DeleteTopic{Name: "t", ID: id}, kerr.UnknownTopicID},
		"alter: unknown partition":       {AlterPartition{Topic: "t", Partition: 2, Leader: 1, ISR: []int32{1}}, kerr.UnknownTopicOrPartition},
		"alter: leader epoch to come":    {AlterPartition{Topic: "t", LeaderEpoch: 1, Leader: 1, ISR: []int32{1}}, kerr.UnknownLeaderEpoch},
		"alter: partition epoch to come": {AlterPartition{Topic: "t", PartitionEpoch: 1, Leader: 1, ISR: []int32{1}}, kerr.InvalidUpdateVersion},
		"alter: isr beyond the replicas": {AlterPartition{Topic: "t", Partition: 1, Leader: 2, ISR: []int32{1, 2}}, kerr.InvalidRequest},
		"alter: leader not in sync":      {AlterPartition{Topic: "t", Leader: 1, ISR: []int32{2}}, kerr.InvalidRequest},
		"alter: empty isr":               {AlterPartition{Topic: "t", Leader: -1}, kerr.InvalidRequest},
		"raise: one of them unknown":     {RaiseLeaderEpoch{[]MinLeaderEpoch{{"t", 0, 5}, {"u", 0, 5}}}, kerr.UnknownTopicOrPartition},
		"producer ids: unknown broker":   {AllocateProducerIDs{Broker: 7}, kerr.BrokerIDNotRegistered},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := c.command.apply(img)
			require.ErrorIs(t, err, c.want)
		})
	}
	fenced := *img.Brokers[3]
	fenced.Fenced = true
	_, _, err := AlterPartition{Topic: "t", Leader: 1, ISR: []int32{1, 3}}.apply(img.withBroker(&fenced))
	require.ErrorIs(t, err, kerr.IneligibleReplica)
	require.Equal(t, threeBrokers(t), img, "a command never changes the image that it meets")
}

func TestANewIncarnationBeginsANewLeadership(t *testing.T) {
	again := func(id int32, clean bool) RegisterBroker {
		r := registered(id)
		r.Incarnation, r.Clean = "another run", clean
		return r
	}
	for name, c := range map[string]struct {
		command RegisterBroker
		// leader, leader epoch and ISR of partitions 0 and 1
		want [2][]any
	}{
		"the same run":              {registered(1), [2][]any{{int32(1), int32(0), []int32{1, 2, 3}}, {int32(2), int32(0), []int32{2, 3}}}},
		"leader, clean":             {again(1, true), [2][]any{{int32(1), int32(1), []int32{1, 2, 3}}, {int32(2), int32(0), []int32{2, 3}}}},
		"leader, unclean":           {again(1, false), [2][]any{{int32(2), int32(1), []int32{2, 3}}, {int32(2), int32(0), []int32{2, 3}}}},
		"leader of one, in another": {again(2, false), [2][]any{{int32(1), int32(0), []int32{1, 3}}, {int32(3), int32(1), []int32{3}}}},
	} {
		t.Run(name, func(t *testing.T) {
			img, _, err := c.command.apply(threeBrokers(t))
			require.NoError(t, err)
			for i, p := range img.Topics["t"].Partitions {
				require.Equal(t, c.want[i], []any{p.Leader, p.LeaderEpoch, p.ISR}, "partition %d", i)
			}
		})
	}
	t.Run("the last member of an isr stays and leads", func(t *testing.T) {
		img := built(t, registered(1), CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: [][]int32{{1}}}, again(1, false))
		p := img.Topics["t"].Partitions[0]
		require.Equal(t, []any{int32(1), int32(1), []int32{1}}, []any{p.Leader, p.LeaderEpoch, p.ISR})
	})
}

func TestLeaderEpochsOnlyRise(t *testing.T) {
	img := threeBrokers(t)
	at := func() *Partition { return img.Topics["t"].Partitions[0] }
	do := func(c Command) {
		next, _, err := c.apply(img)
		require.NoError(t, err)
		img = next
	}
	do(AlterPartition{Topic: "t", Leader: 1, ISR: []int32{1, 2}})
	require.Equal(t, int32(0), at().LeaderEpoch, "the isr alone begins no leader epoch")
	do(AlterPartition{Topic: "t", PartitionEpoch: 1, Leader: 2, ISR: []int32{1, 2}})
	require.Equal(t, int32(1), at().LeaderEpoch)
	do(RaiseLeaderEpoch{[]MinLeaderEpoch{{"t", 0, 7}}})
	require.Equal(t, int32(7), at().LeaderEpoch)
	do(RaiseLeaderEpoch{[]MinLeaderEpoch{{"t", 0, 3}}})
	require.Equal(t, int32(7), at().LeaderEpoch)
}

// RO-3, OPS-1: a topic that mirrors is not deleted, and what was stopped is
// never resumed.
func TestWhatMirrorsStaysAndWhatIsStoppedStaysStopped(t *testing.T) {
	img := built(t, registered(1), CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: [][]int32{{1}}}, CreateMirror{Name: "m"})
	do := func(c Command) {
		t.Helper()
		next, _, err := c.apply(img)
		require.NoError(t, err)
		img = next
	}
	refuse := func(c Command, want *kerr.Error) {
		t.Helper()
		_, _, err := c.apply(img)
		require.ErrorIs(t, err, want)
	}
	gone := DeleteTopic{Name: "t", ID: [16]byte{1}}
	want := func(s MirrorState) SetMirrorTopics {
		return SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: s}
	}
	resume := want(Mirroring)
	resume.Resume = true
	refuse(resume, ErrMirrorTopicNotPaused) // never started
	do(want(Mirroring))
	refuse(gone, ErrReadOnlyTopic)
	before := img
	do(resume)
	require.Equal(t, before, img, "it mirrors already")
	do(want(Paused))
	refuse(gone, ErrReadOnlyTopic)
	do(resume)
	require.Equal(t, Mirroring, img.Topics["t"].Desired)
	do(want(Paused))
	do(want(Stopped))
	require.Equal(t, Stopping, img.Topics["t"].Partitions[0].Mirror.State)
	refuse(resume, ErrMirrorTopicNotPaused)
	refuse(gone, ErrReadOnlyTopic)
	do(FinishStop{Topic: "t"})
	refuse(resume, ErrMirrorTopicNotPaused)
	refuse(want(Paused), ErrMirrorTopicBeingStopped)
	do(gone)
}

// Any commands, in any order: what they meet stays as it was, refusals too, and
// the next image is again one that a snapshot keeps.
func TestAnyCommandsLeaveEarlierImagesAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		img := threeBrokers(rt)
		id, small := rapid.Int32Range(0, 4), rapid.Int32Range(-1, 3)
		topic := rapid.SampledFrom([]string{"t", "u", "v"})
		for range rapid.IntRange(1, 20).Draw(rt, "commands") {
			var c Command
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0:
				c = RegisterBroker{ID: id.Draw(rt, "id"), Incarnation: topic.Draw(rt, "run"), Clean: rapid.Bool().Draw(rt, "clean")}
			case 1:
				name := topic.Draw(rt, "topic")
				c = CreateTopic{Name: name, ID: [16]byte{name[0]}, Assignment: [][]int32{{id.Draw(rt, "replica")}}}
			case 2:
				c = DeleteTopic{Name: topic.Draw(rt, "topic"), ID: [16]byte{'u'}}
			case 3:
				c = AlterPartition{
					Topic: topic.Draw(rt, "topic"), LeaderEpoch: small.Draw(rt, "leader epoch"), PartitionEpoch: small.Draw(rt, "partition epoch"),
					Leader: id.Draw(rt, "leader"), ISR: rapid.SliceOfN(id, 0, 3).Draw(rt, "isr"),
				}
			case 4:
				c = RaiseLeaderEpoch{[]MinLeaderEpoch{{topic.Draw(rt, "topic"), 0, small.Draw(rt, "min")}}}
			case 5:
				c = AllocateProducerIDs{Broker: id.Draw(rt, "broker")}
			}
			before, err := json.Marshal(img)
			require.NoError(rt, err)
			next, _, refused := c.apply(img)
			after, err := json.Marshal(img)
			require.NoError(rt, err)
			require.Equal(rt, string(before), string(after))
			if refused == nil {
				requireRisen(rt, img, next)
				img = next
			}
		}
		raw, err := json.Marshal(img)
		require.NoError(rt, err)
		back := NewImage("")
		require.NoError(rt, json.Unmarshal(raw, back))
		require.Equal(rt, img, back)
	})
}

// requireRisen holds what is true of every partition from one image to the
// next.
func requireRisen(t require.TestingT, before, after *Image) {
	require.GreaterOrEqual(t, after.NextProducerID, before.NextProducerID)
	for name, topic := range after.Topics {
		old := before.Topics[name]
		for i, p := range topic.Partitions {
			require.NotEmpty(t, p.ISR)
			require.Subset(t, p.Replicas, p.ISR)
			if p.Leader >= 0 {
				require.Contains(t, p.ISR, p.Leader)
			}
			if old == nil || old.ID != topic.ID {
				continue
			}
			was := old.Partitions[i]
			require.GreaterOrEqual(t, p.LeaderEpoch, was.LeaderEpoch)
			if p.Leader != was.Leader {
				require.Greater(t, p.LeaderEpoch, was.LeaderEpoch)
			}
			if !reflect.DeepEqual(p, was) {
				require.Greater(t, p.PartitionEpoch, was.PartitionEpoch)
			}
		}
	}
}

// A node that joins a cluster with another profile is refused by whoever leads
// the quorum, whatever it has heard itself.
func TestAClusterHasOneProfile(t *testing.T) {
	join := func(img *Image, id int32, p Profile) (*Image, error) {
		next, _, err := RegisterBroker{ID: id, Incarnation: "run", Profile: p}.apply(img)
		return next, err
	}
	for _, c := range []struct {
		first, second Profile
		refused       string
	}{
		{V42, V42, ""},
		{"", V42, ""}, // from before there was a choice
		{V42, "", ""},
		{Latest, Latest, ""},
		{Latest, V42, "the cluster follows profile kip1279-latest, and node 2 was started with kip1279-v42"},
		{V42, Latest, "the cluster follows profile kip1279-v42, and node 2 was started with kip1279-latest"},
		{"", Latest, "the cluster follows profile kip1279-v42, and node 2 was started with kip1279-latest"},
	} {
		img, err := join(NewImage("c"), 1, c.first)
		require.NoError(t, err)
		_, err = join(img, 2, c.second)
		if c.refused == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, kerr.InvalidRequest)
		require.ErrorContains(t, err, c.refused)
	}
}

// What replicas know of a stop follows the place of its barrier.
func TestABarrierMovesWhileItsStopIsUnderWay(t *testing.T) {
	p := &Partition{LeaderEpoch: 4, Mirror: MirrorPartition{State: Stopping, Aligned: true}}
	_, _, cut := CutForStop{LeaderEpoch: 4, L: 10, Markers: 2, LogEpoch: 3, SourceClusterID: "a"}.edits(NewImage("c"))
	require.NoError(t, cut(p))
	require.Equal(t, []psm.Stop{{L: 10, BarrierOffset: 12, Epoch: 5, SourceClusterID: "a"}}, p.Mirror.Stops)
	_, _, move := MoveBarrier{LeaderEpoch: 5, Markers: 1}.edits(NewImage("c"))
	require.NoError(t, move(p))
	require.Equal(t, []psm.Stop{{L: 10, BarrierOffset: 11, Epoch: 5, SourceClusterID: "a"}}, p.Mirror.Stops)
	require.EqualValues(t, 6, p.LeaderEpoch, "no replica takes the barrier before it knows")
	require.ErrorIs(t, move(p), kerr.FencedLeaderEpoch)
	p.Mirror.Current = nil
	_, _, late := MoveBarrier{LeaderEpoch: 6, Markers: 1}.edits(NewImage("c"))
	require.ErrorIs(t, late(p), kerr.InvalidUpdateVersion)
}
