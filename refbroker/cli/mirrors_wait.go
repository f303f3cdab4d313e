package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"watershed.example/mirrorrpc"
)

const (
	// awaitEvery is how often --wait asks again.
	awaitEvery = 20 * time.Millisecond
	// progressEvery is how often it says at most what it waits for.
	progressEvery = time.Second
)

// waiting is what --wait waits for, as its progress tells it.
type waiting struct {
	WaitFor string `json:"waitFor"`
	Done    int    `json:"done"`
	Of      int    `json:"of"`
	// The first partition that is not there yet.
	Partition string `json:"partition"`
	State     string `json:"state"`
	Phase     string `json:"phase"`
	Error     string `json:"errorMessage"`
}

func (w waiting) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s is %s %s %s", w.Partition, w.State, w.Phase, w.Error)), " ")
}

// await describes the mirror until every partition of topics is in the state,
// and returns them. A partition that FAILED meanwhile ends the wait. What it
// waits for goes to o.progress, which is not where the answer goes.
func (o *mirrorsOptions) await(ctx context.Context, c mirrorrpc.Client, mirror string, topics []string, state string) ([]describedRow, error) {
	var said waiting
	var at time.Time
	for {
		mirrors, err := c.Describe(ctx, mirror)
		if err != nil {
			return nil, err
		}
		rows := slices.DeleteFunc(rowsOf(mirrors), func(r describedRow) bool { return !slices.Contains(topics, r.Topic) })
		now := waiting{WaitFor: state, Of: len(rows)}
		for _, r := range rows {
			switch {
			case r.State == state:
				now.Done++
			case r.State == "FAILED":
				return nil, fmt.Errorf("%s-%d is FAILED: %s", r.Topic, r.Partition, r.ErrorMessage)
			case now.Partition == "":
				now.Partition, now.State, now.Phase, now.Error = fmt.Sprintf("%s-%d", r.Topic, r.Partition), r.State, r.Phase, r.ErrorMessage
			}
		}
		if now.Done == now.Of {
			return rows, nil
		}
		if now != said && time.Since(at) >= progressEvery {
			said, at = now, time.Now()
			if err := o.tell(now); err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(awaitEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %s: %w", state, now, context.Cause(ctx))
		}
	}
}

// tell prints a line of progress.
func (o *mirrorsOptions) tell(w waiting) error {
	switch {
	case o.progress == nil:
		return nil
	case o.output == "json":
		return json.NewEncoder(o.progress).Encode(w)
	}
	_, err := fmt.Fprintf(o.progress, "%d of %d partitions %s; %s\n", w.Done, w.Of, w.WaitFor, w)
	return err
}
