package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alone is a cluster of one node that is killed at random moments while its
// logs are rolled, retained, deleted from and compacted.
type alone struct {
	seed    uint64
	machine machine
	cycles  int
	// idle is how long the node is now and then left to its own work.
	idle time.Duration
	// power: what was not synced goes too, at times.
	power bool
	extra []string
}

// kept is what is known of one partition of the node.
type kept struct {
	topic   string
	configs map[string]string
	keys    int // records have one of so many keys; 0: each its own
	deletes bool

	me     producer
	lost   bool // me has to be got anew
	made   int
	acked  map[int64]string // by offset
	latest map[string]int64 // of acked, by key
	// start is the highest log start that was seen or told; asked is the
	// highest that was asked for.
	start, asked int64
}

func keptTopics() []*kept {
	all := []*kept{
		{topic: "rolled", configs: map[string]string{"segment.bytes": "2048"}},
		{topic: "retained", configs: map[string]string{"segment.bytes": "2048", "retention.bytes": "6000"}},
		{topic: "deleted", deletes: true, configs: map[string]string{"segment.bytes": "2048"}},
		{topic: "compacted", keys: 8, configs: map[string]string{
			"cleanup.policy": "compact", "segment.bytes": "2048", "min.cleanable.dirty.ratio": "0.01",
		}},
		{topic: "flushed", configs: map[string]string{"segment.bytes": "4096", "flush.messages": "1"}},
	}
	for _, k := range all {
		k.lost, k.acked, k.latest = true, map[int64]string{}, map[string]int64{}
	}
	return all
}

func (k *kept) partition() partition { return partition{k.topic, 0} }

// run kills the node cycles times and looks, each time, at what is left. It
// reports what must not be.
func (a *alone) run(ctx context.Context) (r *report, err error) {
	r = &report{judged: &judged{}, history: &history{}, done: map[string]int{}}
	h := r.history
	c, err := newCluster(a.machine, 1, a.seed, 0, h, a.extra...)
	defer func() { err = errors.Join(err, c.close()) }()
	if err != nil {
		return r, err
	}
	rng := rand.New(rand.NewPCG(a.seed, streamPlan))
	w := &worker{client: newClient("alone", a.machine, c.bootstrap(), 5*time.Second), history: h, rng: rng}
	defer w.client.close()
	topics := keptTopics()
	for cycle := range a.cycles {
		if err := c.start(0); err != nil {
			return r, err
		}
		up, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("the node is not up within %s", startWithin))
		err := c.whole(up, w.client)
		for _, k := range topics {
			if cycle == 0 && err == nil {
				err = w.createTopic(up, k.topic, 1, 1, k.configs)
			}
		}
		cancel()
		if err != nil {
			r.say("CLUSTER", "%v", err)
			return r, nil
		}
		for _, k := range topics {
			r.records += len(k.acked)
			holds, err := a.check(ctx, w, k)
			if err != nil {
				r.say("ALONE", "cycle %d, topic %s: %v", cycle, k.topic, err)
				return r, nil
			}
			r.done[k.topic+" begins at"], r.done[k.topic+" holds"] = int(k.start), holds
		}
		if err := a.cycle(ctx, c, w, topics); err != nil {
			return r, err
		}
	}
	return r, nil
}

// cycle writes until the node is dead.
func (a *alone) cycle(ctx context.Context, c *cluster, w *worker, topics []*kept) error {
	r, virtual := c.running[0].(*run)
	dying := virtual && w.rng.IntN(3) > 0
	if dying {
		r.crashAfter(1+w.rng.IntN(300), w.rng.Float64())
	}
	life, end := context.WithTimeout(ctx, time.Duration(w.rng.Int64N(int64(1500*time.Millisecond))))
	defer end()
	for life.Err() == nil {
		pause(life, time.Duration(w.rng.Int64N(int64(10*time.Millisecond))))
		k := topics[w.rng.IntN(len(topics))]
		if k.deletes && w.rng.IntN(8) == 0 {
			w.deleteRecords(life, k)
			continue
		}
		k.write(life, w)
	}
	if a.idle > 0 && w.rng.IntN(2) == 0 {
		pause(ctx, time.Duration(w.rng.Int64N(int64(a.idle))))
	}
	if a.power && w.rng.IntN(3) == 0 {
		for _, k := range topics {
			if k.topic != "flushed" {
				k.forget()
			}
		}
		return c.down(0, "lost power", func(p process) error { return p.(*run).losePower(w.rng) })
	}
	return c.down(0, "killed", process.kill)
}

// forget: all that is known of a log may be gone.
func (k *kept) forget() {
	clear(k.acked)
	clear(k.latest)
	k.start, k.lost = 0, true
}

// write appends one record.
func (k *kept) write(ctx context.Context, w *worker) {
	if k.lost {
		var ok bool
		if k.me, ok = w.become(ctx, ""); !ok {
			return
		}
		k.lost = false
	}
	k.made++
	key := fmt.Sprintf("%s-%d", k.topic, k.made)
	name := key
	if k.keys > 0 {
		key = fmt.Sprintf("%s-key%d", k.topic, w.rng.IntN(k.keys))
		name = fmt.Sprintf("%s=%d", key, k.made)
	}
	raw := encodeKeyed([]string{name}, key, k.me, false, w.rng.IntN(300), time.Now().UnixMilli())
	for ctx.Err() == nil {
		got, err := w.produce(ctx, k.partition(), nil, raw)
		if err == nil && got.code == 0 {
			k.me.sequence++
			k.acked[got.offset] = name
			k.latest[key] = got.offset
			return
		}
		pause(ctx, 5*time.Millisecond)
	}
	k.lost = true
}

// deleteRecords raises the log's start to somewhere.
func (w *worker) deleteRecords(ctx context.Context, k *kept) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.SetVersion(2)
	req.TimeoutMillis = 5000
	to := k.start + w.rng.Int64N(30)
	k.asked = max(k.asked, to)
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = k.topic
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Offset = to
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	if err := w.ask(ctx, 0, req, resp); err != nil || len(resp.Topics) != 1 {
		return
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode == 0 {
		k.start = max(k.start, p.LowWatermark)
	}
}

// check reads the whole partition: all that was acknowledged is there, but for
// what was deleted. It returns how many records there are.
func (a *alone) check(ctx context.Context, w *worker, k *kept) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("not readable within %s", startWithin))
	defer cancel()
	p := k.partition()
	w.lost(p)
	end, err := w.end(ctx, p, false)
	for err != nil {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		pause(ctx, 10*time.Millisecond)
		end, err = w.end(ctx, p, false)
	}
	found := map[int64]string{}
	start, at := int64(-1), int64(0)
	for at < end {
		got, err := w.fetch(ctx, p, at, false, 64<<10)
		if ctx.Err() != nil {
			return 0, fmt.Errorf("read at offset %d of %d: %w (%s)", at, end, context.Cause(ctx), fmt.Sprint(err))
		}
		if err == nil && errors.Is(kerr.ErrorForCode(got.code), kerr.OffsetOutOfRange) {
			if got.start <= at {
				return 0, fmt.Errorf("offset %d is out of range, and the log begins at %d and ends at %d", at, got.start, end)
			}
			at = got.start
			continue
		}
		if err != nil || got.code != 0 || len(got.raw) == 0 {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		start = got.start
		entries, err := entriesOf(got.raw, at)
		if err != nil {
			return 0, fmt.Errorf("read at offset %d: %w", at, err)
		}
		if len(entries) == 0 {
			at++ // of a batch whose records a cleaner took
		}
		for _, e := range entries {
			found[e.Offset] = e.Text
			at = e.Offset + 1
		}
	}
	if start < 0 {
		start = end // nothing is there
	}
	return len(found), k.compare(found, start, end)
}

func (k *kept) compare(found map[int64]string, start, end int64) error {
	if start < k.start {
		return fmt.Errorf("the log begins at %d, and had begun at %d", start, k.start)
	}
	if k.deletes && start > k.asked {
		return fmt.Errorf("the log begins at %d, and was asked to at %d at most", start, k.asked)
	}
	if !k.deletes && k.configs["retention.bytes"] == "" && start > 0 {
		return fmt.Errorf("the log begins at %d, and nobody deleted from it", start)
	}
	k.start = start
	for offset, name := range k.acked {
		got, there := found[offset]
		switch {
		case offset < start:
			delete(k.acked, offset)
		case there && got != name:
			return fmt.Errorf("%q was acknowledged at offset %d, where %q lies", name, offset, got)
		case !there && k.keys == 0:
			return fmt.Errorf("%q was acknowledged at offset %d, and is not there; the log is [%d, %d)", name, offset, start, end)
		}
	}
	for key, offset := range k.latest {
		if k.keys == 0 {
			break
		}
		name := k.acked[offset]
		if _, there := found[offset]; !there && !laterOf(found, key, offset) {
			return fmt.Errorf("%q at offset %d was the last of its key, and is gone; the log is [%d, %d)", name, offset, start, end)
		}
	}
	return nil
}

// laterOf says whether a record of a key lies behind offset.
func laterOf(found map[int64]string, key string, offset int64) bool {
	for o, name := range found {
		if o > offset && len(name) > len(key) && name[:len(key)] == key && name[len(key)] == '=' {
			return true
		}
	}
	return false
}
