package broker

import (
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
)

// clientListener is the listener that every node has.
const clientListener = "client"

// advertised is where clients that came in on a listener reach a broker.
func advertised(b *quorum.Broker, listener string) (host string, port int32, ok bool) {
	addr, ok := b.Listeners[listener]
	if !ok {
		addr, ok = b.Listeners[clientListener]
	}
	if !ok {
		return "", -1, false
	}
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return "", -1, false
	}
	p, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", -1, false
	}
	return host, int32(p), true
}

// leaderOf is the leader that a response names after NOT_LEADER_OR_FOLLOWER
// and its kin, so that clients need no Metadata first (KIP-951).
func leaderOf(e *env.Env, topic string, index int32, err error) (id, epoch int32, ok bool) {
	if !errors.Is(err, kerr.NotLeaderForPartition) && !errors.Is(err, kerr.FencedLeaderEpoch) {
		return -1, -1, false
	}
	_, p, err := e.Quorum.Image().Partition(topic, index)
	if err != nil {
		return -1, -1, false
	}
	return p.Leader, p.LeaderEpoch, true
}

// hinted collects the leaders that an answer names to clients which asked another node, so
// that it can say where those are: a client moves to one that it is told of only where it
// is told that too (KIP-951).
type hinted struct{ ids []int32 }

func (h *hinted) add(id int32) {
	if id >= 0 && !slices.Contains(h.ids, id) {
		h.ids = append(h.ids, id)
	}
}

// each calls f with the address, on the listener that the client came in on, of each of
// those that serve.
func (h *hinted) each(e *env.Env, listener string, f func(id int32, host string, port int32)) {
	if len(h.ids) == 0 {
		return
	}
	img := e.Quorum.Image()
	for _, id := range h.ids {
		if b := img.Brokers[id]; b != nil && !b.Fenced {
			if host, port, ok := advertised(b, listener); ok {
				f(id, host, port)
			}
		}
	}
}

// topicName finds the name that a request means: the one that it gives, or,
// with byID, that of its topic id.
func topicName(img *quorum.Image, name string, id [16]byte, byID bool) (string, error) {
	if !byID {
		return name, nil
	}
	t, err := img.TopicByID(id)
	if err != nil {
		return "", err
	}
	return t.Name, nil
}
