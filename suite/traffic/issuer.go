package traffic

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Each broker hands out producer ids from blocks of its own. So that those of two
// clusters can be made to collide, one broker of each, the issuer, gives raw
// clients all of theirs, and coordinates the transactional ids that matter.

// several says whether the cluster has more brokers than one.
func (r *Raw) several() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.brokers) > 1
}

// issuer is the broker that hands out ids, -1 for whichever is asked.
func (r *Raw) issuer() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.brokers) < 2 {
		return -1
	}
	return r.brokers[0]
}

// firstBroker is whom to ask what any broker can answer: the issuer.
func (r *Raw) firstBroker() kmsg.Requestor {
	if id := r.issuer(); id >= 0 {
		return r.client().Broker(int(id))
	}
	return r.client()
}

// ClaimProducerIDs gives the issuer of a cluster of several brokers the next
// block of ids: the first one, where nobody has asked before. A lone broker's
// first id is left to whoever asks next.
func (r *Raw) ClaimProducerIDs(ctx context.Context) error {
	if r.issuer() < 0 {
		return nil
	}
	_, _, err := r.InitProducerID(ctx, "")
	return err
}

const (
	// inReach is how far below an id a broker may be that is going to hand it out:
	// one that is farther away has another block.
	inReach = 200
	// askFor bounds how long a broker is asked that may be cut off: one that can't
	// be reached hands out nothing.
	askFor = 5 * time.Second
)

// PassProducerID has each broker of a cluster of several go beyond an id, if it is
// about to hand it out: a producer that got the id of a forged batch would be
// taken for the forger.
func (r *Raw) PassProducerID(ctx context.Context, id int64) error {
	if !r.several() {
		return nil
	}
	r.mu.Lock()
	brokers := slices.Clone(r.brokers)
	r.mu.Unlock()
	for _, broker := range brokers {
		asking, cancel := context.WithTimeout(ctx, askFor)
		for {
			got, err := r.producerIDOf(asking, broker)
			if ctx.Err() != nil {
				cancel()
				return context.Cause(ctx)
			}
			if err != nil || got >= id || id-got > inReach {
				break
			}
		}
		cancel()
	}
	return nil
}

// coordinatorTries bounds the search for an id of the issuer's: it may coordinate
// none, as a broker does that was only just started.
const coordinatorTries = 60

// TransactionalID returns a transactional id that begins with name and, where
// there is one, gets its producer id from the broker from which raw clients have
// theirs.
func (r *Raw) TransactionalID(ctx context.Context, name string) (string, error) {
	issuer := r.issuer()
	if issuer < 0 {
		return name, nil
	}
	return r.CoordinatedBy(ctx, issuer, name)
}

// CoordinatedBy returns a transactional id that begins with name and that a broker
// coordinates; name itself where none was found.
func (r *Raw) CoordinatedBy(ctx context.Context, broker int32, name string) (string, error) {
	for n := 0; n < coordinatorTries; n++ {
		id := name
		if n > 0 {
			id = fmt.Sprintf("%s-%d", name, n)
		}
		req := kmsg.NewPtrFindCoordinatorRequest()
		key := r.cluster.named(id)
		req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = 1, key, []string{key}
		resp, err := req.RequestWith(ctx, r.client())
		if err == nil && len(resp.Coordinators) != 1 {
			err = fmt.Errorf("%d answers", len(resp.Coordinators))
		}
		if err == nil {
			err = kerr.ErrorForCode(resp.Coordinators[0].ErrorCode)
		}
		switch {
		case busy(ctx, err):
			n--
		case err != nil:
			return "", fmt.Errorf("raw client %s: find the coordinator of %q: %w", r.name, id, err)
		case resp.Coordinators[0].NodeID == broker:
			return id, nil
		}
	}
	return name, nil
}
