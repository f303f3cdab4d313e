package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// askRaw sends one request on a connection of its own and returns what comes
// behind the response's correlation id; io.EOF means that the node closed it.
func askRaw(t *testing.T, addr, client string, key, version int16, flexible bool, body []byte) ([]byte, error) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 77)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(client))), client...)
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err = c.Write(b)
	require.NoError(t, err)
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		var timeout net.Error
		require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "neither an answer nor an end to key %d version %d", key, version)
		return nil, io.EOF
	}
	require.Equal(t, uint32(77), binary.BigEndian.Uint32(head[4:]))
	raw := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err = io.ReadFull(c, raw)
	require.NoError(t, err)
	if flexible && key != kmsg.ApiVersions.Int16() {
		require.Equal(t, byte(0), raw[0], "tags of the header")
		raw = raw[1:]
	}
	return raw, nil
}

// least is an empty request that asks for an answer.
func least(t *testing.T, a wire.API, version int16) kmsg.Request {
	t.Helper()
	r, ok := a.New().(kmsg.Request)
	require.True(t, ok, "%s is %T", a.Name, a.New())
	if d, ok := r.(interface{ Default() }); ok {
		d.Default()
	}
	r.SetVersion(version)
	if p, ok := r.(*kmsg.ProduceRequest); ok {
		p.Acks = -1
	}
	return r
}

// errorCodes collects every error code of a response.
func errorCodes(v reflect.Value, into map[int16]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			errorCodes(v.Elem(), into)
		}
	case reflect.Slice:
		for i := range v.Len() {
			errorCodes(v.Index(i), into)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" {
				into[int16(v.Field(i).Int())] = true
				continue
			}
			errorCodes(v.Field(i), into)
		}
	}
}

// What ApiVersions lists is served in every version, over the wire, and nothing
// else is.
func TestApiVersionsIsTrueOverTheWire(t *testing.T) {
	n := startNode(t)
	addr := n.Addrs()["client"]
	raw, err := askRaw(t, addr, "me", 18, 4, true, least(t, apiNamed(t, n, "ApiVersions"), 4).AppendTo(nil))
	require.NoError(t, err)
	told := kmsg.NewPtrApiVersionsResponse()
	told.Version = 4
	require.NoError(t, told.ReadFrom(raw))
	ranges := map[int16][2]int16{}
	for _, k := range told.ApiKeys {
		ranges[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	require.Greater(t, len(ranges), 40)
	rows := map[int16]wire.API{}
	for _, a := range n.table.APIs() {
		rows[a.Key] = a
	}
	for key, r := range ranges {
		a, ok := rows[key]
		require.True(t, ok, "key %d is told and not served", key)
		for version := r[0]; version <= r[1]; version++ {
			name := fmt.Sprintf("%s (key %d) version %d", a.Name, key, version)
			req := least(t, a, version)
			raw, err := askRaw(t, addr, "me", key, version, req.IsFlexible(), req.AppendTo(nil))
			require.NoError(t, err, "%s: closed", name)
			resp := req.ResponseKind()
			resp.SetVersion(version)
			require.NoError(t, resp.ReadFrom(raw), name)
			codes := map[int16]bool{}
			errorCodes(reflect.ValueOf(resp), codes)
			require.NotContains(t, codes, kerr.UnsupportedVersion.Code, name)
		}
	}
	for key := range int16(128) {
		versions := []int16{0}
		if r, ok := ranges[key]; ok {
			versions = []int16{r[0] - 1, r[1] + 1}
		}
		for _, version := range versions {
			if key == 18 {
				continue // is always answered, see below
			}
			body := make([]byte, 64)
			_, err := askRaw(t, addr, "me", key, version, false, body)
			require.ErrorIs(t, err, io.EOF, "key %d version %d is served and not told", key, version)
		}
	}
}

func apiNamed(t *testing.T, n *testNode, name string) wire.API {
	t.Helper()
	for _, a := range n.table.APIs() {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no api %s", name)
	return wire.API{}
}

// As Kafka does: in version 0, with the error and what may be asked instead.
func TestApiVersionsOfAnUnknownVersion(t *testing.T) {
	n := startNode(t)
	own := apiNamed(t, n, "ApiVersions")
	for _, version := range []int16{own.Max + 1, 99, -1} {
		raw, err := askRaw(t, n.Addrs()["client"], "me", 18, version, true, []byte{3, 'a', 'b'})
		require.NoError(t, err)
		resp := kmsg.NewPtrApiVersionsResponse()
		require.NoError(t, resp.ReadFrom(raw))
		require.Equal(t, kerr.UnsupportedVersion.Code, resp.ErrorCode)
		require.Len(t, resp.ApiKeys, 1)
		require.Equal(t, []int16{18, own.Min, own.Max}, []int16{resp.ApiKeys[0].ApiKey, resp.ApiKeys[0].MinVersion, resp.ApiKeys[0].MaxVersion})
	}
}

// Keys of our own are for nodes: a client that says it is one is refused too.
func TestOurOwnKeysAreForNodesOnly(t *testing.T) {
	n := startNode(t)
	for _, a := range n.table.APIs() {
		if a.Key < firstOwnKey {
			continue
		}
		r := least(t, a, 0)
		for _, client := range []string{"me", "", "node-1", "node-1/", nodeClient(2, n.incarnation)} {
			_, err := askRaw(t, n.Addrs()["client"], client, a.Key, 0, r.IsFlexible(), r.AppendTo(nil))
			require.ErrorIs(t, err, io.EOF, "%s by %q", a.Name, client)
		}
		_, err := askRaw(t, n.Addrs()["client"], nodeClient(1, n.incarnation), a.Key, 0, r.IsFlexible(), r.AppendTo(nil))
		require.NoError(t, err, a.Name)
	}
	// And that is what nodes say.
	req := &txn.SettleDebtsRequest{}
	require.NoError(t, n.peers.Request(n.ctx(), 1, req, &txn.SettleDebtsResponse{}))
}
