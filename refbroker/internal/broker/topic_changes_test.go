package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// configsOf is a topic's configs that are not at their defaults.
func (n *testNode) configsOf(topic string) map[string]string {
	n.t.Helper()
	all, err := kadm.NewClient(n.client()).DescribeTopicConfigs(n.ctx(), topic)
	require.NoError(n.t, err)
	require.NoError(n.t, all[0].Err)
	got := map[string]string{}
	for _, c := range all[0].Configs {
		if c.Source != kmsg.ConfigSourceDefaultConfig {
			got[c.Key] = c.Source.String() + " " + *c.Value
		}
	}
	return got
}

func TestTopicConfigsAreToldAndChanged(t *testing.T) {
	n := startNode(t, func(c *Config) { c.TopicDefaults = map[string]string{"segment.bytes": "4096"} })
	n.topic("t", 1)
	adm := kadm.NewClient(n.client())
	alter := func(changes ...kadm.AlterConfig) error {
		got, err := adm.AlterTopicConfigs(n.ctx(), changes, "t")
		require.NoError(t, err)
		return got[0].Err
	}
	static := map[string]string{"segment.bytes": "STATIC_BROKER_CONFIG 4096"}
	require.Equal(t, static, n.configsOf("t"))

	value := func(s string) *string { return &s }
	require.NoError(t, alter(
		kadm.AlterConfig{Op: kadm.SetConfig, Name: "segment.bytes", Value: value("8192")},
		kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: value("compact")},
	))
	require.Equal(t, map[string]string{
		"segment.bytes": "DYNAMIC_TOPIC_CONFIG 8192", "cleanup.policy": "DYNAMIC_TOPIC_CONFIG delete,compact",
	}, n.configsOf("t"))
	require.NoError(t, alter(kadm.AlterConfig{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: value("delete")}))
	require.Equal(t, "DYNAMIC_TOPIC_CONFIG compact", n.configsOf("t")["cleanup.policy"])

	// Nothing of a request with one bad change is made.
	for _, c := range []struct {
		want   *kerr.Error
		change kadm.AlterConfig
	}{
		{kerr.InvalidConfig, kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: value("soon")}},
		{kerr.InvalidConfig, kadm.AlterConfig{Op: kadm.SetConfig, Name: "colour", Value: value("blue")}},
		{kerr.InvalidConfig, kadm.AlterConfig{Op: kadm.AppendConfig, Name: "retention.ms", Value: value("1")}},
		{kerr.InvalidRequest, kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms"}},
		{kerr.InvalidRequest, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "segment.bytes"}},
	} {
		err := alter(kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "segment.bytes"}, c.change)
		require.ErrorIs(t, err, c.want, "%s", c.change.Name)
		require.Equal(t, "DYNAMIC_TOPIC_CONFIG 8192", n.configsOf("t")["segment.bytes"])
	}

	// The old call sets all of them; what is not named goes back to its default.
	got, err := adm.AlterTopicConfigsState(n.ctx(), []kadm.AlterConfig{{Name: "retention.ms", Value: value("1000")}}, "t")
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	require.Equal(t, map[string]string{
		"segment.bytes": "STATIC_BROKER_CONFIG 4096", "retention.ms": "DYNAMIC_TOPIC_CONFIG 1000",
	}, n.configsOf("t"))

	// They outlive a restart.
	require.NoError(t, n.Close())
	n.start()
	require.Equal(t, "DYNAMIC_TOPIC_CONFIG 1000", n.configsOf("t")["retention.ms"])
}

// What a topic's configs come from has the broker's names there.
func TestConfigSynonyms(t *testing.T) {
	n := startNode(t, func(c *Config) { c.TopicDefaults = map[string]string{"max.message.bytes": "4096", "retention.ms": "5"} })
	n.topic("t", 1)
	all, err := kadm.NewClient(n.client()).DescribeTopicConfigs(n.ctx(), "t")
	require.NoError(t, err)
	require.NoError(t, all[0].Err)
	got := map[string][]string{}
	for _, c := range all[0].Configs {
		for _, s := range c.Synonyms {
			got[c.Key] = append(got[c.Key], fmt.Sprint(s.Key, "=", *s.Value, " ", s.Source))
		}
	}
	require.Equal(t, []string{"message.max.bytes=4096 STATIC_BROKER_CONFIG", "message.max.bytes=1048588 DEFAULT_CONFIG"}, got["max.message.bytes"])
	require.Equal(t, []string{"log.retention.ms=5 STATIC_BROKER_CONFIG"}, got["retention.ms"])
	require.Equal(t, []string{"log.cleanup.policy=delete DEFAULT_CONFIG"}, got["cleanup.policy"])
	require.Empty(t, got["remote.storage.enable"])
}

// The Java client can't read lists that are null there.
func TestDescribedPartitionsHaveAllLists(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
	p := serveOne[*kmsg.DescribeTopicPartitionsResponse](n, 0, r).Topics[0].Partitions[0]
	require.NotNil(t, p.EligibleLeaderReplicas)
	require.NotNil(t, p.LastKnownELR)
}

func TestConfigsOfOtherResources(t *testing.T) {
	n := startNode(t)
	adm := kadm.NewClient(n.client())
	own, err := adm.DescribeBrokerConfigs(n.ctx(), 1)
	require.NoError(t, err)
	require.NoError(t, own[0].Err)
	got := map[string]string{}
	for _, c := range own[0].Configs {
		got[c.Key] = *c.Value
	}
	require.Equal(t, "1", got["node.id"])
	require.Contains(t, got["listeners"], "client://127.0.0.1:")
	value := "2"
	altered, err := adm.AlterBrokerConfigs(n.ctx(), []kadm.AlterConfig{{Name: "node.id", Value: &value}}, 1)
	require.NoError(t, err)
	require.ErrorIs(t, altered[0].Err, kerr.InvalidRequest)
	missing, err := adm.DescribeTopicConfigs(n.ctx(), "nowhere")
	require.NoError(t, err)
	require.ErrorIs(t, missing[0].Err, kerr.UnknownTopicOrPartition)
}

func TestPartitionsAreAdded(t *testing.T) {
	n := startNode(t)
	n.topic("t", 2)
	adm := kadm.NewClient(n.client())
	for _, c := range []struct {
		to   int
		want error
	}{{1, kerr.InvalidPartitions}, {2, kerr.InvalidPartitions}, {maxPartitions + 1, kerr.InvalidPartitions}, {4, nil}} {
		got, err := adm.UpdatePartitions(n.ctx(), c.to, "t")
		require.NoError(t, err)
		if c.want != nil {
			require.ErrorIs(t, got["t"].Err, c.want, "to %d", c.to)
			continue
		}
		require.NoError(t, got["t"].Err)
	}
	cl := n.client()
	for p := range int32(4) {
		require.NoError(t, cl.ProduceSync(n.ctx(), &kgo.Record{Topic: "t", Partition: p, Value: fmt.Append(nil, p)}).FirstErr())
	}
	ends, err := adm.ListEndOffsets(n.ctx(), "t")
	require.NoError(t, err)
	for p := range int32(4) {
		end, ok := ends.Lookup("t", p)
		require.True(t, ok)
		require.EqualValues(t, 1, end.Offset, "partition %d", p)
	}
	dirs, err := adm.DescribeBrokerLogDirs(n.ctx(), 1, nil)
	require.NoError(t, err)
	var sizes []int64
	dirs.Each(func(d kadm.DescribedLogDir) {
		for p := range int32(4) {
			one, ok := d.Topics.Lookup("t", p)
			require.True(t, ok)
			sizes = append(sizes, one.Size)
		}
	})
	require.Equal(t, []int64{69, 69, 69, 69}, sizes)
}

func TestTopicsAreDescribedInPages(t *testing.T) {
	n := startNode(t)
	n.topic("a", 3)
	n.topic("b", 2)
	var got []string
	var cursor *kmsg.DescribeTopicPartitionsRequestCursor
	for pages := 0; ; pages++ {
		require.Less(t, pages, 10)
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		for _, name := range []string{"b", "nowhere", "a", "a"} {
			r.Topics = append(r.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		r.ResponsePartitionLimit, r.Cursor = 2, cursor
		resp := serveOne[*kmsg.DescribeTopicPartitionsResponse](n, 0, r)
		got = append(got, "|")
		for _, topic := range resp.Topics {
			if topic.ErrorCode != 0 {
				got = append(got, fmt.Sprintf("%s: %v", *topic.Topic, kerr.TypedErrorForCode(topic.ErrorCode).Message))
			}
			for _, p := range topic.Partitions {
				require.EqualValues(t, 1, p.LeaderID)
				require.Equal(t, []int32{1}, p.ISR)
				got = append(got, fmt.Sprintf("%s-%d", *topic.Topic, p.Partition))
			}
		}
		if resp.NextCursor == nil {
			break
		}
		next := kmsg.NewDescribeTopicPartitionsRequestCursor()
		next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		cursor = &next
	}
	require.Equal(t, []string{"|", "a-0", "a-1", "|", "a-2", "b-0", "|", "b-1", "nowhere: UNKNOWN_TOPIC_OR_PARTITION"}, got)
}
