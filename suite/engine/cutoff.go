package engine

import (
	"context"
	"fmt"
	"time"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

const (
	// quietLeast is how long records are waited for, at the least, that do not come
	// since the way is cut; and quietTimes how many times as long as the slowest of some
	// took before.
	quietLeast = time.Second
	quietTimes = 5
	// lagMost is how long a record may take to come: a mirror that lags by more shows no
	// cut within the time that there is.
	lagMost = 3 * time.Second
	// lagSamples is how many come before the cut, and cutTries how often some may come
	// all the same, having been on their way.
	lagSamples = 3
	cutTries   = 3
)

// cutOff has a target's proxies cut the source off for the whole of the stop, and shows
// that they do: of each partition a record that the source acknowledges does not come,
// though others came before.
func (e *episode) cutOff(ctx context.Context) error {
	source, err := traffic.NewRaw(ctx, e.story.unseen, e.from(), "look")
	if err != nil {
		return err
	}
	defer source.Close()
	destination, err := traffic.NewRaw(ctx, e.story.unseen, e.to(), "look")
	if err != nil {
		return err
	}
	defer destination.Close()

	quiet := quietLeast
	for range lagSamples {
		began := time.Now()
		ends, err := e.nudge(ctx, source)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if err := destination.AwaitEnd(ctx, p, end); err != nil {
				return fmt.Errorf("records that are to be mirrored before the way is cut: %w", err)
			}
		}
		took := time.Since(began)
		if took > lagMost {
			return fmt.Errorf("a record took %s to be mirrored, and more than %s is too long to show that a cut keeps others away", took.Round(time.Millisecond), lagMost)
		}
		quiet = max(quiet, quietTimes*took)
	}

	e.fault.event(history.KindFaultStart, history.Fault{})
	if err := e.fault.way.Cut(ctx); err != nil {
		return err
	}
	var came traffic.Partition
	for range cutTries {
		ends, err := e.nudge(ctx, source)
		if err != nil {
			return err
		}
		if err := pause(ctx, quiet); err != nil {
			return err
		}
		all := true
		e.fault.withheld = 0
		for p, end := range ends {
			got, err := destination.Offsets(ctx, p)
			if err != nil {
				return err
			}
			if end <= got.HighWatermark {
				all, came = false, p
			}
			e.fault.withheld += max(0, end-got.HighWatermark)
		}
		if all {
			e.fault.event(history.KindFaultProof, history.Fault{Withheld: e.fault.withheld})
			return nil
		}
	}
	return fmt.Errorf("the way is cut, and %s is mirrored all the same: the mirror takes another way than by the target's proxies", came)
}

// nudge writes a record to each of the partitions that are written, and returns the ends
// of their logs at the source.
func (e *episode) nudge(ctx context.Context, source *traffic.Raw) (map[traffic.Partition]int64, error) {
	if err := e.source.idempotent.Send(ctx, 1, e.layout.Written...); err != nil {
		return nil, err
	}
	ends := map[traffic.Partition]int64{}
	for _, p := range e.layout.Written {
		got, err := source.Offsets(ctx, p)
		if err != nil {
			return nil, err
		}
		ends[p] = got.HighWatermark
	}
	return ends, nil
}
