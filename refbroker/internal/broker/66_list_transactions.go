package broker

import (
	"context"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// ListTransactions (key 66), versions 0 to 2: those that this node
// coordinates, filtered by state and producer id, from 1 on by how long they
// have been open (KIP-994), from 2 on by a pattern of ids (KIP-1152).
func listTransactions(c *txn.Coordinator) wire.API {
	return wire.Of("ListTransactions", 0, 2, func(_ context.Context, req *wire.Request, r *kmsg.ListTransactionsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrListTransactionsResponse()
		resp.Version = req.Version
		var states []string
		for _, s := range r.StateFilters {
			if _, err := kmsg.ParseTransactionState(s); err != nil {
				resp.UnknownStateFilters = append(resp.UnknownStateFilters, s)
				continue
			}
			states = append(states, s)
		}
		var pattern *regexp.Regexp
		if req.Version >= 2 && r.TransactionalIDPattern != nil && *r.TransactionalIDPattern != "" {
			var err error
			if pattern, err = regexp.Compile("^(?:" + *r.TransactionalIDPattern + ")$"); err != nil {
				resp.ErrorCode = kerr.InvalidRegularExpression.Code
				return resp, nil
			}
		}
		all, err := c.List(func(t txn.Txn, now int64) bool {
			switch {
			case len(r.StateFilters) > 0 && !slices.Contains(states, t.State.String()),
				len(r.ProducerIDFilters) > 0 && !slices.Contains(r.ProducerIDFilters, t.ProducerID),
				req.Version >= 1 && r.DurationFilterMillis >= 0 && (t.StartedAt < 0 || now-t.StartedAt <= r.DurationFilterMillis),
				pattern != nil && !pattern.MatchString(t.ID):
				return false
			}
			return true
		})
		resp.ErrorCode = txnErrorCode(err, false)
		for _, t := range all {
			s := kmsg.NewListTransactionsResponseTransactionState()
			s.TransactionalID, s.ProducerID, s.TransactionState = t.ID, t.ProducerID, t.State.String()
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
		return resp, nil
	})
}
