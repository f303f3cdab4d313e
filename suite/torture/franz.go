package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is one more writer: the library's own producer, idempotent, which tries
// again by itself.
func franz(number int) func(context.Context, *cluster, *history, []partition) error {
	return func(ctx context.Context, c *cluster, h *history, parts []partition) error {
		cl, err := kgo.NewClient(
			kgo.SeedBrokers(c.bootstrap()...), kgo.DisableClientMetrics(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(5*time.Second), kgo.RecordDeliveryTimeout(20*time.Second),
			kgo.MetadataMinAge(50*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		)
		if err != nil {
			return err
		}
		defer cl.Close()
		for i := 0; ctx.Err() == nil; i++ {
			name, p := fmt.Sprintf("c%d-%d", number, i), parts[i%len(parts)]
			o := h.call(operation{Client: number, Name: "franz-go", Kind: "append", Partition: p, Records: []string{name}, Offset: -1, Producer: -1})
			r := &kgo.Record{Topic: p.Topic, Partition: p.Index, Value: []byte(name + " ")}
			switch err := cl.ProduceSync(ctx, r).FirstErr(); {
			case err == nil:
				h.returned(o, acknowledged, func(o *operation) { o.Offset = r.Offset })
			default:
				h.returned(o, unknown, func(o *operation) { o.Error = err.Error() })
			}
			pause(ctx, 20*time.Millisecond)
		}
		return nil
	}
}
