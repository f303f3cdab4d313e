package traffic

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// fakeMirrors answers each request with the next of its errors, and then with none.
type fakeMirrors struct {
	answers []error
	asked   int
	takes   time.Duration // for each answer
}

func (f *fakeMirrors) answer() error {
	f.asked++
	time.Sleep(f.takes)
	if len(f.answers) == 0 {
		return nil
	}
	err := f.answers[0]
	f.answers = f.answers[1:]
	return err
}

func (f *fakeMirrors) Create(context.Context, string, map[string]string) error { return f.answer() }
func (f *fakeMirrors) Start(context.Context, string, ...string) error          { return f.answer() }
func (f *fakeMirrors) Stop(context.Context, string, ...string) error           { return f.answer() }
func (f *fakeMirrors) Pause(context.Context, string, ...string) error          { return f.answer() }
func (f *fakeMirrors) Delete(context.Context, string) error                    { return f.answer() }
func (f *fakeMirrors) Describe(context.Context, ...string) ([]mirrorrpc.DescribedMirror, error) {
	return nil, f.answer()
}

// What was carried out although its answer was lost is no error when it is asked for
// again; what was so before is one.
func TestAMirrorIsAskedForAgainWhileTheQuorumChanges(t *testing.T) {
	type ask func(context.Context, *Control) error
	create := func(ctx context.Context, c *Control) error { return c.Create(ctx, "a:1", "id") }
	pause := func(ctx context.Context, c *Control) error { return c.Pause(ctx, "t") }
	remove := func(ctx context.Context, c *Control) error { return c.Delete(ctx) }
	describe := func(ctx context.Context, c *Control) error { _, err := c.Describe(ctx); return err }
	for _, c := range []struct {
		name    string
		ask     ask
		answers []error
		want    error
		asked   int
		takes   time.Duration
	}{
		{"created the first time", create, []error{kerr.RequestTimedOut, mirrorrpc.ErrMirrorAlreadyExists}, nil, 2, 0},
		{"created the second time", create, []error{kerr.NotController}, nil, 2, 0},
		{"the client asked twice", create, []error{mirrorrpc.ErrMirrorAlreadyExists}, nil, 1, requestTimeout},
		{"there before", create, []error{mirrorrpc.ErrMirrorAlreadyExists}, mirrorrpc.ErrMirrorAlreadyExists, 1, 0},
		{"paused the first time", pause, []error{kerr.RequestTimedOut, mirrorrpc.ErrMirrorTopicAlreadyPaused}, nil, 2, 0},
		{"paused before", pause, []error{mirrorrpc.ErrMirrorTopicAlreadyPaused}, mirrorrpc.ErrMirrorTopicAlreadyPaused, 1, 0},
		{"deleted the first time", remove, []error{kerr.RequestTimedOut, mirrorrpc.ErrUnknownMirror}, nil, 2, 0},
		{"never there", remove, []error{mirrorrpc.ErrUnknownMirror}, mirrorrpc.ErrUnknownMirror, 1, 0},
		{"not empty", remove, []error{kerr.NotController, mirrorrpc.ErrMirrorNotEmpty}, mirrorrpc.ErrMirrorNotEmpty, 2, 0},
		{"described", describe, []error{kerr.NotController, kerr.CoordinatorLoadInProgress}, nil, 3, 0},
		{"nobody answers, however often the client asks", describe, []error{io.EOF}, io.EOF, 1, 0},
		{"not to be described", describe, []error{kerr.ClusterAuthorizationFailed}, kerr.ClusterAuthorizationFailed, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeMirrors{answers: c.answers, takes: c.takes}
			rec, _ := recorded(t)
			control := &Control{cluster: Cluster{Name: "B", Mirrors: f}, mirror: "m", rec: rec, last: map[Partition]history.Mirror{}}
			require.ErrorIs(t, c.ask(t.Context(), control), c.want, c.name)
			require.Equal(t, c.asked, f.asked, c.name)
		})
	}
}

// recorded makes a recorder, and tells what it has recorded.
func recorded(t *testing.T) (*Recorder, func() []history.Event) {
	var out bytes.Buffer
	w := history.NewWriter(&out, "settling", 1, time.Now)
	return NewRecorder(w), func() []history.Event {
		require.NoError(t, w.Close())
		_, events, err := history.Read(&out)
		require.NoError(t, err)
		return events
	}
}

// produceAnswer answers a write to t-0.
func produceAnswer(kreq kmsg.Request, code int16) kmsg.Response {
	resp := kreq.ResponseKind().(*kmsg.ProduceResponse)
	resp.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: code}}}}
	return resp
}

// A leader that is another by now answers once, to each kind of request, that it does
// not lead. Nothing of that keeps the request from its end, and all of it is recorded
// that is recorded otherwise.
func TestRequestsOutlastAChangeOfTheLeader(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	defer fake.Close()
	p := Partition{"t", 0}
	const moved = 6 // NOT_LEADER_OR_FOLLOWER
	for key, answer := range map[kmsg.Key]func(kmsg.Request) kmsg.Response{
		kmsg.Produce: func(kreq kmsg.Request) kmsg.Response {
			return produceAnswer(kreq, moved)
		},
		kmsg.Fetch: func(kreq kmsg.Request) kmsg.Response {
			resp := kreq.ResponseKind().(*kmsg.FetchResponse)
			resp.Topics = []kmsg.FetchResponseTopic{{Topic: "t", Partitions: []kmsg.FetchResponseTopicPartition{{ErrorCode: moved}}}}
			return resp
		},
		kmsg.ListOffsets: func(kreq kmsg.Request) kmsg.Response {
			resp := kreq.ResponseKind().(*kmsg.ListOffsetsResponse)
			resp.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsResponseTopicPartition{{ErrorCode: moved}}}}
			return resp
		},
		kmsg.DescribeProducers: func(kreq kmsg.Request) kmsg.Response {
			resp := kreq.ResponseKind().(*kmsg.DescribeProducersResponse)
			resp.Topics = []kmsg.DescribeProducersResponseTopic{{Topic: "t", Partitions: []kmsg.DescribeProducersResponseTopicPartition{{ErrorCode: moved}}}}
			return resp
		},
		kmsg.DeleteRecords: func(kreq kmsg.Request) kmsg.Response {
			resp := kreq.ResponseKind().(*kmsg.DeleteRecordsResponse)
			resp.Topics = []kmsg.DeleteRecordsResponseTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsResponseTopicPartition{{ErrorCode: moved}}}}
			return resp
		},
		kmsg.WriteTxnMarkers: func(kreq kmsg.Request) kmsg.Response {
			resp := kreq.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
			resp.Markers = []kmsg.WriteTxnMarkersResponseMarker{{Topics: []kmsg.WriteTxnMarkersResponseMarkerTopic{
				{Topic: "t", Partitions: []kmsg.WriteTxnMarkersResponseMarkerTopicPartition{{ErrorCode: moved}}},
			}}}
			return resp
		},
		kmsg.IncrementalAlterConfigs: func(kreq kmsg.Request) kmsg.Response {
			resp := kreq.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
			resp.Resources = []kmsg.IncrementalAlterConfigsResponseResource{{ResourceName: "t", ErrorCode: kerr.NotController.Code}}
			return resp
		},
	} {
		fake.ControlKey(key.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) { return answer(kreq), nil, true })
	}
	rec, events := recorded(t)
	raw, err := NewRaw(t.Context(), rec, Cluster{Name: "A", Bootstrap: fake.ListenAddrs()}, "raw")
	require.NoError(t, err)
	defer raw.Close()

	require.Equal(t, history.OK, plainWrite(t.Context(), raw, p, 2).Outcome)
	f, err := raw.FetchAgain(t.Context(), p, FetchOptions{Isolation: history.ReadUncommitted})
	require.NoError(t, err)
	require.Len(t, f.Headers, 1, "it was written once")
	end, _, err := raw.listOffsetAgain(t.Context(), p, 0, latest)
	require.NoError(t, err)
	require.EqualValues(t, 2, end)
	_, err = raw.Producers(t.Context(), p, history.WhenAlone)
	require.NoError(t, err)
	require.NoError(t, raw.AlterTopics(t.Context(), map[string]string{"segment.ms": "1000"}, "t"))
	require.NoError(t, raw.writeMarkerAgain(t.Context(), p, 1, 0, 1, false))
	require.NoError(t, raw.DeleteBelow(t.Context(), p, 1))

	var acks []*history.Produce
	fetches, producers, markers := 0, 0, 0
	for _, e := range events() {
		switch {
		case e.Kind == history.KindProduceAck:
			acks = append(acks, e.Produce)
		case e.Fetch != nil:
			fetches++
		case e.Producers != nil:
			producers++
		case e.Marker != nil:
			markers++
		}
	}
	require.Len(t, acks, 2)
	require.Equal(t, history.Unknown, acks[0].Result.Outcome)
	require.NotEqual(t, acks[0].Tag, acks[1].Tag, "it may have been appended, and has no id to be known by")
	require.Equal(t, [3]int{2, 2, 2}, [3]int{fetches, producers, markers})
}

// What is sent again while leaders change is one operation, as a producer's is, whose last
// answer tells what is known: after NOT_LEADER_OR_FOLLOWER only an acknowledgement does.
func TestAWriteThatOutlastsAChangeOfTheLeaderIsOneOperation(t *testing.T) {
	for _, c := range []struct {
		name    string
		id      int64
		answers []int16
		want    history.Outcome
	}{
		{"moved, then taken", 7, []int16{6, 6, 0}, history.OK},
		{"moved, then refused", 7, []int16{6, 45}, history.Unknown},
		{"too few replicas, then taken", 7, []int16{19, 0}, history.OK},
		{"too few replicas, then refused", 7, []int16{19, 45}, history.Refused},
		{"refused", 7, []int16{45}, history.Refused},
		{"without an id it would be there twice", -1, []int16{6}, history.Unknown},
		{"without an id, before any append", -1, []int16{19, 0}, history.OK},
		{"nobody knows", 7, []int16{7}, history.Unknown},
		{"nobody knows, without an id", -1, []int16{7}, history.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
			require.NoError(t, err)
			defer fake.Close()
			asked := 0
			fake.ControlKey(kmsg.Produce.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				fake.KeepControl()
				code := c.answers[min(asked, len(c.answers)-1)]
				asked++
				return produceAnswer(kreq, code), nil, true
			})
			rec, events := recorded(t)
			raw, err := NewRaw(t.Context(), rec, Cluster{Name: "A", Bootstrap: fake.ListenAddrs()}, "raw")
			require.NoError(t, err)
			defer raw.Close()
			p := Partition{"t", 0}
			mode := history.Idempotent
			if c.id < 0 {
				mode = history.Plain
			}
			_, res := raw.produceAgain(t.Context(), Write{Partition: p, Mode: mode, Batch: Batch{
				ID: history.BatchID{ProducerID: c.id}, Timestamp: 1, Count: 1, First: raw.Tag(p, history.NoTxn, history.IntentNone, 1),
			}})
			require.Equal(t, c.want, res.Outcome)
			require.Equal(t, len(c.answers), asked)
			ops := map[history.Kind]int{}
			for _, e := range events() {
				ops[e.Kind]++
			}
			require.Equal(t, [2]int{1, 1}, [2]int{ops[history.KindProduceBegin], ops[history.KindProduceAck]})
		})
	}
}

func TestNobodyWaitsForADescribeThatNeverWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &fakeMirrors{answers: []error{errors.New("it may come"), mirrorrpc.Never(fs.ErrNotExist)}}
		c := &Control{cluster: Cluster{Mirrors: m}, mirror: "m", rec: NewRecorder(history.NewWriter(io.Discard, "", 0, time.Now)), last: map[Partition]history.Mirror{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Await(ctx, "it mirrors", []Partition{{"t", 0}}, func(Partition, history.Mirror) bool { return true })
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NotErrorAs(t, err, new(*StuckError), "it tells nothing of the mirror")
		require.Equal(t, 2, m.asked)
	})
}
