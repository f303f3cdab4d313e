package mirror

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/peer"
)

const (
	clientID = "watershed-mirror"
	// dialTimeout bounds how long a source broker may take to accept.
	dialTimeout = 10 * time.Second
	// requestTimeout is request.timeout.ms' default.
	requestTimeout = 30 * time.Second
)

// ErrOtherCluster is a source whose cluster id is not the mirror's (LINK-4).
var ErrOtherCluster = errors.New("the source is another cluster")

// conn is one connection to a broker of a source. It is used by one goroutine
// at a time; close may be called by any.
type conn struct {
	net.Conn
	versions    map[int16]int16 // the broker's highest, by API key
	mirrors     bool            // it offers mirroring, and so knows barrier lists
	correlation int32
	// reuses: a response is of no use once the next request is sent, and buffer is
	// read into again.
	reuses bool
	buffer []byte
	format *kmsg.RequestFormatter
}

// dial connects to a broker and checks that it belongs to the cluster; an
// empty clusterID takes any. It returns the broker's metadata of topics.
func dial(ctx context.Context, w Way, addr, clusterID string, topics ...string) (*conn, *kmsg.MetadataResponse, error) {
	dctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	nc, err := w.connect(dctx, addr)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to source broker %s: %w", addr, err)
	}
	c := &conn{Conn: nc, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(w.client))}
	meta, err := c.greet(ctx, w, addr, clusterID, topics)
	if err != nil {
		_ = nc.Close()
		return nil, nil, fmt.Errorf("source broker %s: %w", addr, err)
	}
	return c, meta, nil
}

// greet asks for the versions that the broker serves, says who this one is, and
// asks for its cluster's id and the metadata of topics.
func (c *conn) greet(ctx context.Context, w Way, addr, clusterID string, topics []string) (*kmsg.MetadataResponse, error) {
	av := kmsg.NewPtrApiVersionsRequest()
	av.ClientSoftwareName, av.ClientSoftwareVersion = clientID, "1"
	resp := kmsg.NewPtrApiVersionsResponse()
	for _, version := range []int16{3, 0} { // KIP-511: a broker too old for 3 answers in 0
		av.SetVersion(version)
		resp.SetVersion(version)
		raw, err := c.roundTrip(ctx, av)
		if err != nil {
			return nil, err
		}
		if len(raw) >= 2 && int16(binary.BigEndian.Uint16(raw)) == kerr.UnsupportedVersion.Code && version > 0 {
			continue
		}
		if err := resp.ReadFrom(raw); err != nil {
			return nil, fmt.Errorf("decode ApiVersions: %w", err)
		}
		break
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("ApiVersions: %w", err)
	}
	c.versions = make(map[int16]int16, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		c.versions[k.ApiKey] = k.MaxVersion
	}
	// The key alone says nothing: Apache Kafka uses some of KIP-1279's otherwise.
	for _, f := range resp.FinalizedFeatures {
		c.mirrors = c.mirrors || f.Name == mirrorrpc.Feature && f.MaxVersionLevel >= 1
	}
	if err := c.authenticate(ctx, w, addr); err != nil {
		return nil, err
	}
	meta, err := c.metadata(ctx, topics)
	if err != nil {
		return nil, err
	}
	if meta.ClusterID == nil || (clusterID != "" && *meta.ClusterID != clusterID) {
		got := "unknown"
		if meta.ClusterID != nil {
			got = *meta.ClusterID
		}
		return nil, fmt.Errorf("%w: its cluster id is %s, the mirror expects %s", ErrOtherCluster, got, clusterID)
	}
	return meta, nil
}

// metadata asks for topics; none means none, not all.
func (c *conn) metadata(ctx context.Context, topics []string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	resp, err := ask[*kmsg.MetadataResponse](ctx, c, req)
	if err != nil {
		return nil, fmt.Errorf("metadata of the source: %w", err)
	}
	return resp, nil
}

// allTopics asks for every topic.
func (c *conn) allTopics(ctx context.Context) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := ask[*kmsg.MetadataResponse](ctx, c, req)
	if err != nil {
		return nil, fmt.Errorf("metadata of the source: %w", err)
	}
	return resp, nil
}

// ask sends a request in the highest version that both sides know.
func ask[R kmsg.Response](ctx context.Context, c *conn, req kmsg.Request) (R, error) {
	return askAtMost[R](ctx, c, req, req.MaxVersion())
}

// askAtMost is ask in no version above most.
func askAtMost[R kmsg.Response](ctx context.Context, c *conn, req kmsg.Request, most int16) (R, error) {
	var none R
	highest, ok := c.versions[req.Key()]
	if !ok {
		return none, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), kerr.UnsupportedVersion)
	}
	req.SetVersion(min(highest, most))
	raw, err := c.roundTrip(ctx, req)
	if err != nil {
		return none, err
	}
	resp, ok := req.ResponseKind().(R)
	if !ok {
		return none, fmt.Errorf("%s: response kind %T", kmsg.NameForKey(req.Key()), req.ResponseKind())
	}
	if err := peer.Decode(resp, raw, req.GetVersion()); err != nil {
		return none, fmt.Errorf("decode %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

// roundTrip sends a request and returns the bytes behind the response's
// correlation id. After an error the connection is of no use.
func (c *conn) roundTrip(ctx context.Context, req kmsg.Request) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return nil, err
	}
	c.correlation++
	raw, err := c.exchange(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return raw, nil
}

func (c *conn) exchange(req kmsg.Request) ([]byte, error) {
	if _, err := c.Write(c.format.AppendRequest(nil, req, c.correlation)); err != nil {
		return nil, err
	}
	raw, _, err := peer.ReadResponseInto(c, c.correlation, c.buffer)
	if c.reuses {
		c.buffer = raw
	}
	return raw, err
}

// AskCluster asks the first broker of a source that answers for its cluster id
// and for topics (of which the response may hold errors). An empty clusterID
// takes any cluster.
func AskCluster(ctx context.Context, w Way, bootstrap []string, clusterID string, topics ...string) (*kmsg.MetadataResponse, error) {
	errs := make([]error, 0, len(bootstrap))
	for _, addr := range bootstrap {
		c, meta, err := dial(ctx, w, addr, clusterID, topics...)
		if err == nil {
			return meta, c.Close()
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil, errors.New("a source without bootstrap servers")
	}
	return nil, errors.Join(errs...)
}

// SplitBootstrap splits bootstrap.servers, "host:port,host:port".
func SplitBootstrap(list string) ([]string, error) {
	var all []string
	for addr := range strings.SplitSeq(list, ",") {
		addr = strings.TrimSpace(addr)
		if addr == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("bootstrap server %q: %w", addr, err)
		}
		all = append(all, addr)
	}
	if len(all) == 0 {
		return nil, errors.New("no bootstrap servers")
	}
	return all, nil
}
