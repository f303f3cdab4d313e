// Package wire is a node's TCP server for the Kafka protocol: framing, request
// headers, dispatch to handlers, responses in the order of the requests. It
// knows no API by itself but ApiVersions' rule that an unsupported version is
// answered in version 0 (KIP-511).
package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/auth"
)

// Message is a request that can be decoded. Every kmsg.Request is one; APIs
// that kmsg doesn't know bring types of their own.
type Message interface {
	SetVersion(version int16)
	// IsFlexible says whether this version has tagged fields (KIP-482), and so
	// request header v2 and response header v1.
	IsFlexible() bool
	ReadFrom(src []byte) error
}

// Response is an answer that can be encoded. Every kmsg.Response is one. The
// handler sets its version; [Request.Response] does so.
type Response interface {
	AppendTo(dst []byte) []byte
}

// Request is one decoded request.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	// ClientID is "" when the client sent none.
	ClientID string
	// Listener is the name of the listener that the request came in on.
	Listener string
	Remote   net.Addr
	// Session is who the client is, where the listener asks; else nil.
	Session *auth.Session
	// Body is what API.New made, filled.
	Body Message
	// Unsupported marks an ApiVersions request of a version that is not served;
	// Version and Body are those of version 0 then, and Body is empty.
	Unsupported bool
}

// Response makes the empty response to a kmsg request, with the request's
// version. It is nil for types of other makers.
func (r *Request) Response() kmsg.Response {
	if k, ok := r.Body.(kmsg.Request); ok {
		resp := k.ResponseKind()
		resp.SetVersion(r.Version)
		return resp
	}
	return nil
}

// Handler answers one request. A nil Response without error sends nothing
// (Produce with acks=0). An error ends the connection; errors that a client
// should read belong into the response. ctx ends when the server closes.
type Handler func(ctx context.Context, req *Request) (Response, error)

// ErrCloseConnection ends a connection in silence, as Kafka does after a
// failed Produce with acks=0.
var ErrCloseConnection = errors.New("connection closed on purpose")

// API is one row of the table of served APIs.
type API struct {
	Key, Min, Max int16
	Name          string
	// Bulk is set for Produce: its requests may be large, and its handler keeps
	// nothing of them.
	Bulk bool
	// New makes an empty request.
	New    func() Message
	Handle Handler
}

// Of makes the row of an API that kmsg knows, from a typed handler:
//
//	wire.Of("EndTxn", 0, 5, c.endTxn) // func(context.Context, *wire.Request, *kmsg.EndTxnRequest) (wire.Response, error)
func Of[M any, P interface {
	*M
	Message
	Key() int16
}](name string, minVersion, maxVersion int16, h func(context.Context, *Request, P) (Response, error),
) API {
	return API{
		Key: P(new(M)).Key(), Min: minVersion, Max: maxVersion, Name: name,
		New: func() Message { return P(new(M)) },
		Handle: func(ctx context.Context, req *Request) (Response, error) {
			m, ok := req.Body.(P)
			if !ok {
				return nil, fmt.Errorf("%s: body is %T", name, req.Body)
			}
			return h(ctx, req, m)
		},
	}
}

// Table is the APIs that a server serves. It does not change once a server
// uses it.
type Table struct {
	apis   map[int16]API
	frames buffers
}

// NewTable makes a table; a key that comes twice is an error of the caller's.
func NewTable(apis ...API) (*Table, error) {
	t := &Table{apis: make(map[int16]API, len(apis))}
	for _, a := range apis {
		if b, ok := t.apis[a.Key]; ok {
			return nil, fmt.Errorf("api key %d: both %s and %s", a.Key, b.Name, a.Name)
		}
		if a.Handle == nil || a.New == nil || a.Min < 0 || a.Max < a.Min {
			return nil, fmt.Errorf("api %s (key %d): incomplete row", a.Name, a.Key)
		}
		t.apis[a.Key] = a
	}
	return t, nil
}

// APIs lists the rows in the order of their keys.
func (t *Table) APIs() []API {
	var all []API
	for _, a := range t.apis {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b API) int { return int(a.Key) - int(b.Key) })
	return all
}
