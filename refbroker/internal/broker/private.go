package broker

import (
	"context"
	"fmt"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// firstOwnKey is where the keys begin of requests that only refbroker's nodes
// send each other.
const firstOwnKey = 32000

// nodeClient is the client id of a node in its requests to others. The
// incarnation, which the quorum alone tells, makes it one that clients can't
// guess.
func nodeClient(id int32, incarnation string) string {
	return fmt.Sprintf("node-%d/%s", id, incarnation)
}

// isNode says whether a client id is that of a registered node's present run.
func isNode(img *quorum.Image, client string) bool {
	for _, b := range img.Brokers {
		if b.Incarnation != "" && nodeClient(b.ID, b.Incarnation) == client {
			return true
		}
	}
	return false
}

// nodesOnly has requests of our own keys refused from whoever is no node, on
// every listener: the connection ends, as with a key that is not served.
func nodesOnly(e *env.Env, apis []wire.API) []wire.API {
	for i, a := range apis {
		if a.Key < firstOwnKey {
			continue
		}
		apis[i].Handle = func(ctx context.Context, req *wire.Request) (wire.Response, error) {
			if !isNode(e.Quorum.Image(), req.ClientID) {
				return nil, fmt.Errorf("from client %q: only nodes of the cluster may ask", req.ClientID)
			}
			return a.Handle(ctx, req)
		}
	}
	return apis
}
