package txn

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Describe returns what is known of a transactional id.
func (c *Coordinator) Describe(id string) (Txn, error) {
	if id == "" {
		return Txn{}, kerr.InvalidRequest
	}
	s, err := c.shard(id)
	if err != nil {
		return Txn{}, err
	}
	t, ok, _, err := s.look(id)
	if err == nil && !ok {
		err = kerr.TransactionalIDNotFound
	}
	return t, err
}

// List returns all transactional ids that this node coordinates and that pass
// keep, by id. now is ms since 1970.
func (c *Coordinator) List(keep func(t Txn, now int64) bool) ([]Txn, error) {
	now := c.now()
	led, err := c.shards.Led()
	if err != nil {
		return nil, err
	}
	var all []Txn
	for _, s := range led {
		s.mu.Lock()
		err := s.ready()
		for _, e := range s.txns {
			// An entry is there before its first record is written.
			if e.txn.ID != "" && keep(e.txn, now) {
				all = append(all, e.txn)
			}
		}
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Txn) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
