package group

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/shards"
)

func drawRecord(t *rapid.T) Record {
	r := Record{Group: rapid.String().Draw(t, "group")}
	text := rapid.StringN(0, 6, -1)
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if kind < 2 {
		r.Partition = &Partition{text.Draw(t, "topic"), rapid.Int32().Draw(t, "index")}
	}
	switch kind {
	case 0:
		c := &Commit{
			Offset: rapid.Int64().Draw(t, "offset"), LeaderEpoch: rapid.Int32().Draw(t, "epoch"), Metadata: text.Draw(t, "metadata"),
			At: rapid.Int64().Draw(t, "at"), ExpiresAt: -1,
		}
		if rapid.Bool().Draw(t, "expires") { // that version has neither epoch nor id
			c.ExpiresAt, c.LeaderEpoch = rapid.Int64Min(0).Draw(t, "at"), -1
		} else {
			copy(c.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		}
		r.Commit = c
	case 2:
		m := &Metadata{
			ProtocolType: text.Draw(t, "type"), Generation: rapid.Int32().Draw(t, "generation"), Protocol: text.Draw(t, "protocol"),
			Leader: text.Draw(t, "leader"), Since: rapid.Int64().Draw(t, "since"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			m.Members = append(m.Members, StoredMember{
				ID: text.Draw(t, "id"), InstanceID: text.Draw(t, "instance"), ClientID: text.Draw(t, "client"), ClientHost: text.Draw(t, "host"),
				RebalanceTimeout: time.Duration(rapid.Int32().Draw(t, "rebalance")) * time.Millisecond,
				SessionTimeout:   time.Duration(rapid.Int32().Draw(t, "session")) * time.Millisecond,
				Subscription:     append([]byte{1}, rapid.SliceOf(rapid.Byte()).Draw(t, "subscription")...),
				Assignment:       append([]byte{2}, rapid.SliceOf(rapid.Byte()).Draw(t, "assignment")...),
			})
		}
		r.Metadata = m
	}
	return r
}

func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawRecord), 1, 5).Draw(t, "records")
		by := shards.NoProducer()
		if rapid.Bool().Draw(t, "transactional") {
			by = Producer{ID: rapid.Int64Min(0).Draw(t, "producer"), Epoch: rapid.Int16Min(0).Draw(t, "epoch")}
		}
		raw := encodeBatch(5, by, want)
		binary.BigEndian.PutUint64(raw, 41)
		var got []Record
		next, err := shards.DecodeBatches(raw, 41, shards.Visitor{Record: func(offset, producer int64, key, value []byte) error {
			require.Equal(t, int64(41+len(got)), offset)
			require.Equal(t, by.ID, producer)
			r, ok, err := decodeRecord(key, value)
			require.True(t, ok)
			got = append(got, r)
			return err
		}})
		require.NoError(t, err)
		require.Equal(t, int64(41+len(want)), next)
		require.Equal(t, want, got)
		next, err = shards.DecodeBatches(raw, next, shards.Visitor{Record: func(int64, int64, []byte, []byte) error {
			t.Fatal("visited again")
			return nil
		}})
		require.NoError(t, err)
		require.Equal(t, int64(41+len(want)), next)
	})
}

// What Kafka of other versions writes.
func TestRecordsOfOthers(t *testing.T) {
	key := func(version int16) []byte {
		k := kmsg.OffsetCommitKey{Version: version, Group: "g", Topic: "t", Partition: 3}
		return k.AppendTo(nil)
	}
	for version := range int16(5) {
		v := kmsg.NewOffsetCommitValue()
		v.Version, v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp, v.ExpireTimestamp = version, 9, 4, "m", 50, 60
		got, ok, err := decodeRecord(key(version%2), v.AppendTo(nil))
		require.NoError(t, err)
		require.True(t, ok)
		want := Commit{Offset: 9, LeaderEpoch: -1, Metadata: "m", At: 50, ExpiresAt: -1}
		if version >= 3 {
			want.LeaderEpoch = 4
		}
		if version == 1 {
			want.ExpiresAt = 60
		}
		require.Equal(t, Record{Group: "g", Partition: &Partition{"t", 3}, Commit: &want}, got, "version %d", version)
	}
	group := kmsg.GroupMetadataKey{Version: 2, Group: "g"}
	for version := range int16(5) {
		v := kmsg.NewGroupMetadataValue()
		v.Version, v.ProtocolType, v.Generation, v.CurrentStateTimestamp = version, "consumer", 4, 70
		m := kmsg.NewGroupMetadataValueMember()
		m.MemberID, m.SessionTimeoutMillis, m.RebalanceTimeoutMillis = "m", 10, 20
		m.Subscription, m.Assignment = []byte{1}, []byte{2}
		v.Members = append(v.Members, m)
		got, ok, err := decodeRecord(group.AppendTo(nil), v.AppendTo(nil))
		require.NoError(t, err)
		require.True(t, ok)
		want := StoredMember{ID: "m", SessionTimeout: 10 * time.Millisecond, RebalanceTimeout: 20 * time.Millisecond, Subscription: []byte{1}, Assignment: []byte{2}}
		since := int64(70)
		if version < 1 {
			want.RebalanceTimeout = want.SessionTimeout
		}
		if version < 2 {
			since = -1
		}
		require.Equal(t, &Metadata{ProtocolType: "consumer", Generation: 4, Since: since, Members: []StoredMember{want}}, got.Metadata, "version %d", version)
	}
	for name, bad := range map[string][]byte{"later": {0, 9, 0}, "negative": {255, 255}, "short": {0}} {
		_, _, err := decodeRecord(key(1), bad)
		require.ErrorContains(t, err, `offset value of group "g", t-3`, name)
		_, _, err = decodeRecord(group.AppendTo(nil), bad)
		require.ErrorContains(t, err, `value of group "g"`, name)
	}
	_, ok, err := decodeRecord([]byte{0, 3, 1}, nil)
	require.NoError(t, err)
	require.False(t, ok, "a key of the new group protocol is passed over")
	_, _, err = decodeRecord([]byte{0}, nil)
	require.ErrorContains(t, err, "too short")
}

func FuzzDecodeBatches(f *testing.F) {
	f.Add(encodeBatch(1, shards.NoProducer(), []Record{{Group: "g", Partition: &Partition{"t", 1}, Commit: &Commit{Offset: 3, ExpiresAt: -1}}}))
	f.Add(encodeBatch(1, Producer{ID: 1, Epoch: 2}, []Record{{Group: "g", Metadata: &Metadata{Members: []StoredMember{{ID: "m"}}}}, {Group: "h"}}))
	f.Add(psm.EndTxnMarker{ProducerID: 7, Commit: true}.Append(nil))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		// The checksum would keep the fuzzer out: mend it.
		shards.SealBatch(raw)
		_, _ = shards.DecodeBatches(raw, 0, shards.Visitor{
			Record: func(_, _ int64, key, value []byte) error { _, _, err := decodeRecord(key, value); return err },
			Marker: func(int64, bool) {},
		})
	})
}

// A record that is decoded and encoded again is the same one.
func FuzzDecodeRecord(f *testing.F) {
	for _, r := range []Record{
		{Group: "g", Partition: &Partition{"t", 1}, Commit: &Commit{Offset: 3, ExpiresAt: -1}},
		{Group: "g", Partition: &Partition{"t", 1}},
		{Group: "g", Metadata: &Metadata{Members: []StoredMember{{ID: "m"}}}},
	} {
		key, value := encodeRecord(r)
		f.Add(key, value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r, ok, err := decodeRecord(key, value)
		if err != nil || !ok {
			return
		}
		again, ok, err := decodeRecord(encodeRecord(r))
		require.NoError(t, err)
		require.True(t, ok)
		if r.Commit != nil && r.Commit.ExpiresAt >= 0 {
			again.Commit.LeaderEpoch, again.Commit.TopicID = r.Commit.LeaderEpoch, r.Commit.TopicID
		}
		if r.Commit != nil && r.Commit.ExpiresAt < 0 {
			again.Commit.ExpiresAt = r.Commit.ExpiresAt
		}
		require.Equal(t, r, again)
	})
}
