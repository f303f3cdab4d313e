package traffic

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// DeleteRecords asks to delete the records of p below offset (RO-3), and samples
// the partition's ends behind it.
//
// When to call: on the destination while p is MIRRORING, and at a gate of the
// stop; state is what describe says of it then. Never once p is writable: then
// it deletes what other checks look for.
func (r *Raw) DeleteRecords(ctx context.Context, p Partition, offset int64, mirror, state string) error {
	// Who does not lead has refused nothing. Each answer is recorded.
	_ = again(ctx, func() error {
		result := resultOf(nil)
		resp, _, err := r.ask(ctx, p, deleteRecords(p, offset))
		switch {
		case ended(ctx):
			return context.Cause(ctx)
		case err != nil:
			result = resultOf(err)
		default:
			for _, t := range resp.(*kmsg.DeleteRecordsResponse).Topics {
				for _, got := range t.Partitions {
					result = resultOfCode(got.ErrorCode, nil)
					if err = mirrorrpc.ErrorForCode(resp.Key(), got.ErrorCode); err != nil {
						result = resultOf(err) // the API has no field for words
						r.forget(p)
					}
				}
			}
		}
		r.rec.Add(history.Event{Kind: history.KindProbe, Probe: &history.Probe{
			What: history.ProbeDeleteRecords, Cluster: r.cluster.Name, Mirror: mirror,
			Topic: p.Topic, Partition: p.Index, State: state, Result: result,
		}})
		return err
	})
	if ended(ctx) {
		return context.Cause(ctx)
	}
	_, err := r.Offsets(ctx, p)
	return err
}
