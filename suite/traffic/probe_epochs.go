package traffic

import (
	"context"

	"watershed.example/suite/history"
)

// Epochs reads from p's leader which leader epochs its log holds, and records
// them (AL-1).
//
// When to call: in failback, on the old primary right before it starts to
// mirror, after it has elected and written on its own; for each partition that
// the mirror carries. What it holds then is cut afterwards, so that no log shows
// it any more.
func (r *Raw) Epochs(ctx context.Context, p Partition) error {
	headers, err := r.HeadersFrom(ctx, p, 0)
	if err != nil {
		return err
	}
	e := history.Epochs{Cluster: r.cluster.Name, Topic: p.Topic, Partition: p.Index}
	for _, h := range headers {
		if n := len(e.Ranges); n > 0 && e.Ranges[n-1].Epoch == h.LeaderEpoch {
			e.Ranges[n-1].Last = h.LastOffset
			continue
		}
		e.Ranges = append(e.Ranges, history.EpochRange{Epoch: h.LeaderEpoch, First: h.BaseOffset, Last: h.LastOffset})
	}
	r.rec.Add(history.Event{Kind: history.KindLeaderEpochs, Epochs: &e})
	return nil
}
