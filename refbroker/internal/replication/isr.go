package replication

import (
	"context"
	"sync"
	"time"
)

// isrTimeout bounds one change of an ISR; it is asked for again then.
const isrTimeout = 5 * time.Second

// proposals is how many changes of ISRs are under way at a time.
const proposals = 16

// watchISRs asks the quorum to take followers that lag out of the ISRs that
// this node leads, and to put those in that caught up, until ctx ends.
func (m *Manager) watchISRs(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	slots := make(chan struct{}, proposals)
	tick := time.NewTicker(m.cfg.ISREvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.cfg.Replicas.Joining():
		case <-ctx.Done():
			return
		}
		for _, p := range m.cfg.Replicas.All() {
			p.Tend()
			c, ok := p.ProposeISR(time.Now())
			if !ok {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				p.ISRAnswered(c, context.Cause(ctx))
				return
			}
			asking.Go(func() {
				defer func() { <-slots }()
				ctx, cancel := context.WithTimeout(ctx, isrTimeout)
				defer cancel()
				_, err := m.cfg.Quorum.Apply(ctx, c)
				p.ISRAnswered(c, err)
				if err != nil {
					m.cfg.Log.Warn("in-sync replicas not changed", "partition", p.Name(), "to", c.ISR, "error", err)
					return
				}
				m.cfg.Log.Info("in-sync replicas changed", "partition", p.Name(), "to", c.ISR)
			})
		}
	}
}
