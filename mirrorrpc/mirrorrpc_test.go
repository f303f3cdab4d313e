package mirrorrpc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

var keys = []int16{94, 95, 96, 98, 99, 100, 101, 102, 103, 104, 105}

// fill puts drawn values into every exported field below v.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.String && rapid.Bool().Draw(t, "null") {
			return
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(t, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() {
				fill(t, v.Field(i))
			}
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "len")
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(rapid.Byte().Draw(t, "byte")))
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int8:
		v.SetInt(int64(rapid.Int8().Draw(t, "int8")))
	case reflect.Int16:
		v.SetInt(int64(rapid.Int16().Draw(t, "int16")))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, "int32")))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int64"))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "uint32")))
	default:
		t.Fatalf("fill: %s", v.Type())
	}
}

func TestMessagesComeBackAsTheyWentOut(t *testing.T) {
	for _, key := range keys {
		rapid.Check(t, func(t *rapid.T) {
			req := RequestForKey(key)
			fill(t, reflect.ValueOf(req))
			back := RequestForKey(key)
			require.NoError(t, back.ReadFrom(req.AppendTo(nil)))
			require.Equal(t, req, back)

			resp := ResponseForKey(key)
			fill(t, reflect.ValueOf(resp))
			again := ResponseForKey(key)
			require.NoError(t, again.ReadFrom(resp.AppendTo(nil)))
			require.Equal(t, resp, again)
		})
	}
}

func TestMessagesAreVersionZeroFlexibleAndNameEachOther(t *testing.T) {
	for _, key := range keys {
		req := RequestForKey(key)
		require.Equal(t, key, req.Key())
		require.Zero(t, req.MaxVersion())
		require.True(t, req.IsFlexible())
		resp := req.ResponseKind()
		require.Equal(t, key, resp.Key())
		require.True(t, resp.IsFlexible())
		require.IsType(t, req, resp.RequestKind())
	}
	require.Nil(t, RequestForKey(97))
	require.Nil(t, ResponseForKey(0))
}

// The bytes were worked out by hand from the schemas.
func TestBytes(t *testing.T) {
	id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	start := NewStartMirrorTopicsRequest()
	start.MirrorName = "m"
	start.Topics = []StartTopic{{TopicID: id, TopicName: "t1", NumPartitions: 3}}
	start.ExcludePatterns = []string{"x"}

	part := NewDescribedPartition()
	part.PartitionIndex, part.StateValue, part.Phase = 2, "STOPPING", "settled"
	described := &DescribeClusterMirrorsResponse{Mirrors: []DescribedMirror{{
		MirrorName: "m", AuthorizedOperations: NoOperations,
		Topics: []DescribedTopic{{TopicName: "t", Partitions: []DescribedPartition{part}}},
	}}}

	for _, c := range []struct {
		name string
		m    interface{ AppendTo([]byte) []byte }
		hex  string
	}{
		{"start", start, "02 6d 02 0102030405060708090a0b0c0d0e0f10 03 7431 00000003 00 ffffffffffffffff 01 01 03 02 02 78"},
		{"stop without topics", NewStopMirrorTopicsRequest(), "01 01 ffffffffffffffff 00"},
		{"describe all", NewDescribeClusterMirrorsRequest(), "01 00 00"},
		{"described", described, "00000000 0000 00 02 0000 02 6d 80000000 02 02 74 02" +
			"00000002 ffffffffffffffff ffffffffffffffff ffffffffffffffff 09 53544f5050494e47 0000 00" +
			"01 904e 08 08 736574746c6564" + // tag 10000, 8 bytes
			"00 00 00"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
		require.NoError(t, err)
		require.Equal(t, want, c.m.AppendTo(nil), c.name)
	}
}

func TestUnknownTagsAreSkipped(t *testing.T) {
	b := NewListClusterMirrorsRequest().AppendTo(nil)
	b = append(b[:len(b)-1], 2, 7, 1, 0xff, 9, 0)
	require.NoError(t, NewListClusterMirrorsRequest().ReadFrom(b))
}

func TestBadInputIsRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":              {},
		"null mirror name":     {0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 0},
		"null topics":          {1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0},
		"array beyond the end": {1, 100, 255, 255, 255, 255, 255, 255, 255, 255, 0},
		"bytes left over":      {1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0},
		"tags out of order":    {1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 2, 5, 0, 4, 0},
		"tag too long":         {1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 2, 1, 0},
		"torn":                 {1, 1, 255, 255},
	} {
		require.Error(t, NewStopMirrorTopicsRequest().ReadFrom(b), name)
	}
	require.ErrorIs(t, NewStopMirrorTopicsRequest().ReadFrom(nil), kbin.ErrNotEnoughData)
}

func TestErrorForCodeDependsOnTheAPI(t *testing.T) {
	require.NoError(t, ErrorForCode(KeyStopMirrorTopics, 0))
	require.Equal(t, ErrReadOnlyTopic, ErrorForCode(0, 134))
	require.Equal(t, kerr.GroupDeletionFailed, ErrorForCode(42, 134), "DeleteGroups of Kafka 4.4.0")
	require.Equal(t, ErrUnknownMirror, ErrorForCode(KeyStartMirrorTopics, 137))
	require.Equal(t, kerr.UnknownTopicOrPartition, ErrorForCode(KeyStartMirrorTopics, 3))
	last := int16(133)
	for _, e := range Errors() {
		require.Greater(t, e.Code, last, e.Message)
		require.NotEmpty(t, e.Description)
		last = e.Code
	}
	require.Equal(t, int16(146), last)
}

type answers struct {
	resp kmsg.Response
	req  kmsg.Request
}

func (a *answers) Request(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	a.req = req
	if a.resp == nil {
		return nil, errors.New("no broker")
	}
	return a.resp, nil
}

func TestClientReportsEveryTopicsError(t *testing.T) {
	message := "topic is stopped already elsewhere"
	resp := NewStopMirrorTopicsRequest().ResponseKind().(*TopicsResponse)
	resp.Topics = []TopicResult{
		{Name: "good"},
		{Name: "bad", ErrorCode: 139, ErrorMessage: &message},
		{Name: "worse", ErrorCode: 3},
	}
	a := &answers{resp: resp}
	err := Client{R: a}.Stop(t.Context(), "m", "good", "bad", "worse")
	require.ErrorIs(t, err, ErrTopicNotInMirror)
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
	require.ErrorContains(t, err, message)
	require.NotContains(t, err.Error(), `"good"`)
	require.Equal(t, []NamedTopic{{"good"}, {"bad"}, {"worse"}}, a.req.(*StopMirrorTopicsRequest).Topics)

	a.resp = &CreateClusterMirrorResponse{ErrorCode: 136}
	err = Client{R: a}.Create(t.Context(), "m", map[string]string{"b": "2", "a": "1"})
	require.ErrorIs(t, err, ErrMirrorAlreadyExists)
	require.Equal(t, "a", a.req.(*CreateClusterMirrorRequest).Config[0].Name)

	a.resp = &DescribeClusterMirrorsResponse{Mirrors: []DescribedMirror{{MirrorName: "m", ErrorCode: 137}}}
	_, err = Client{R: a}.Describe(t.Context(), "m")
	require.ErrorIs(t, err, ErrUnknownMirror)

	pause := NewPauseMirrorTopicsRequest().ResponseKind().(*TopicsResponse)
	pause.Topics = []TopicResult{{Name: "t", ErrorCode: 142, ErrorMessage: &message}}
	a.resp = pause
	err = Client{R: a}.Pause(t.Context(), "m", "t")
	require.ErrorIs(t, err, ErrMirrorTopicBeingStopped)
	require.Equal(t, &PauseMirrorTopicsRequest{MirrorName: "m", Topics: []NamedTopic{{"t"}}, StateValidationOffset: -1}, a.req)
	resume := NewResumeMirrorTopicsRequest().ResponseKind().(*TopicsResponse)
	resume.ErrorCode = 137 // about the mirror: no topic has one
	a.resp = resume
	require.ErrorIs(t, Client{R: a}.Resume(t.Context(), "m", "t"), ErrUnknownMirror)
	require.Equal(t, &ResumeMirrorTopicsRequest{MirrorName: "m", Topics: []NamedTopic{{"t"}}, StateValidationOffset: -1}, a.req)
	a.resp = &DeleteClusterMirrorResponse{ErrorCode: 143, ErrorMessage: &message}
	err = Client{R: a}.Delete(t.Context(), "m")
	require.ErrorIs(t, err, ErrMirrorNotEmpty)
	require.ErrorContains(t, err, message)
	bump := NewBumpLeaderEpochsRequest().ResponseKind().(*PartitionsResponse)
	bump.Topics = []PartitionResults{{Name: "t", Partitions: []PartitionResult{{PartitionIndex: 1}, {PartitionIndex: 2, ErrorCode: 3}}}}
	a.resp = bump
	require.ErrorIs(t, Client{R: a}.Bump(t.Context(), [16]byte{7}, 40, 1, 2), kerr.UnknownTopicOrPartition)
	require.Equal(t, []BumpTopic{{TopicID: [16]byte{7}, Partitions: []BumpPartition{{1, 40}, {2, 40}}}}, a.req.(*BumpLeaderEpochsRequest).Topics)
	state := ReadState{PartitionIndex: 1, State: 7, PreviousState: NoPreviousState, ErrorMessage: &message}
	a.resp = &ReadMirrorStatesResponse{Topics: []ReadStates{{Name: "t", Partitions: []ReadState{state}}}}
	states, err := Client{R: a}.ReadStates(t.Context(), "m", "t", 1)
	require.NoError(t, err, "a FAILED state is no failed request")
	require.Equal(t, []ReadState{state}, states)

	a.resp = nil
	for what, do := range map[string]func() error{
		"delete": func() error { return Client{R: a}.Delete(t.Context(), "m") },
		"bump":   func() error { return Client{R: a}.Bump(t.Context(), [16]byte{}, 0, 0) },
		"states": func() error { _, err := Client{R: a}.ReadStates(t.Context(), "m", "t", 0); return err },
	} {
		require.ErrorContains(t, do(), "no broker", what)
	}
	_, err = Client{R: a}.List(t.Context())
	require.ErrorContains(t, err, "no broker")
	require.ErrorContains(t, err, "list mirrors: ListClusterMirrors: ", "franz-go has no name for the key")
}

func TestWhatNeverWorksIsToldAsItIs(t *testing.T) {
	cause := &Error{Err: ErrUnknownMirror}
	err := fmt.Errorf("describe: %w", Never(cause))
	require.EqualError(t, err, "describe: "+cause.Error())
	require.ErrorIs(t, err, ErrNever)
	require.ErrorIs(t, err, ErrUnknownMirror)
}

func FuzzMessages(f *testing.F) {
	for _, key := range keys {
		f.Add(key, RequestForKey(key).AppendTo(nil))
		f.Add(key, ResponseForKey(key).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, key int16, b []byte) {
		req := RequestForKey(key)
		if req == nil {
			return
		}
		if req.ReadFrom(b) == nil {
			again := RequestForKey(key)
			require.NoError(t, again.ReadFrom(req.AppendTo(nil)))
			require.Equal(t, req, again)
		}
		resp := ResponseForKey(key)
		if resp.ReadFrom(b) == nil {
			again := ResponseForKey(key)
			require.NoError(t, again.ReadFrom(resp.AppendTo(nil)))
			require.Equal(t, resp, again)
		}
	})
}
