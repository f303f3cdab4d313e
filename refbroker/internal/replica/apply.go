package replica

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spf13/afero"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/lock"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/storage"
)

// Suffixes of folders that are no longer a partition's.
const (
	suffixDelete = "-delete"
	suffixStray  = "-stray"
)

// Apply makes this node's partitions what the quorum's image says: it creates
// and deletes logs, and sets leadership, leader epoch, in-sync replicas and
// the read-only window. When it returns, all of that is in force. What it
// could not do is in the error, and tried again by the next Apply.
//
// Images must come in their order. The first should hold all that was
// committed when the node started: a partition that is not in it does not
// lose its folder, and one of another topic id only its name.
func (m *Manager) Apply(img *quorum.Image) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	if m.closed {
		return errors.New("apply a metadata image: replicas are closed")
	}
	var errs error
	wanted := map[key]bool{}
	known := map[string]int32{}
	for _, t := range img.Topics {
		known[t.Name] = int32(len(t.Partitions))
		for i, p := range t.Partitions {
			if !slices.Contains(p.Replicas, m.cfg.NodeID) {
				continue
			}
			k := key{t.Name, int32(i)}
			if old, ok := m.Get(k.topic, k.index); !ok || old.topicID == t.ID {
				wanted[k] = true
			}
		}
	}
	if !m.swept {
		m.swept = true
		errs = errors.Join(errs, m.sweep(img))
	}
	removed := false
	for _, p := range m.All() {
		if k := (key{p.topic, p.index}); !wanted[k] {
			removed = true
			errs = errors.Join(errs, m.remove(k, p))
		}
	}
	if removed {
		// A log that is made under the same name must not be taken for one of which
		// more is on disk.
		errs = errors.Join(errs, m.saveMarks())
	}
	live := map[int32]int64{}
	for id, b := range img.Brokers {
		if !b.Fenced {
			live[id] = b.Epoch
		}
	}
	before := m.live.Swap(&live)
	if before != nil && !maps.Equal(*before, live) {
		defer func() {
			for _, p := range m.All() {
				p.notify() // who waits for a replica waits for one that lives
			}
		}()
	}
	var changes []*change
	for _, t := range img.Topics {
		for i, p := range t.Partitions {
			if slices.Contains(p.Replicas, m.cfg.NodeID) {
				c, err := m.prepareOne(t, int32(i), p)
				if err != nil {
					errs = errors.Join(errs, fmt.Errorf("%s: %w", partitionName(t.Name, int32(i)), err))
				} else if c != nil {
					changes = append(changes, c)
				}
			}
		}
	}
	m.openAll(changes)
	errs = errors.Join(errs, m.applyAll(changes))
	if m.made {
		// One sync for all the folders that were made.
		if err := storage.SyncDir(m.fs, m.dir); err != nil {
			errs = errors.Join(errs, err)
		} else {
			m.made = false
		}
	}
	m.mu.Lock()
	m.known = known
	m.mu.Unlock()
	return errs
}

// change is what an image changes in one partition.
type change struct {
	to   applied
	part *Partition
	made bool // the partition is opened for it
	conf topicConfig
	role role
	err  error
}

// prepareOne says what q changes in a partition, nil for nothing.
func (m *Manager) prepareOne(t *quorum.Topic, index int32, q *quorum.Partition) (*change, error) {
	k := key{t.Name, index}
	p, ok := m.Get(t.Name, index)
	old := m.seen[k]
	same := ok && sameTopic(old.topic, t)
	if same && old.partition == q {
		return nil, nil
	}
	conf, err := parseTopicConfigs(t.Configs, m.cfg.TopicDefaults)
	if err != nil {
		return nil, err
	}
	if !ok {
		if err := m.claim(filepath.Join(m.dir, partitionName(t.Name, index)), t.ID); err != nil {
			return nil, err
		}
		p = m.newPartition(t, index, q)
	} else if !same {
		p.log.Reconfigure(m.logConfig(t, conf))
	}
	return &change{to: applied{t, q}, part: p, made: !ok, conf: conf, role: m.roleOf(t, q, conf)}, nil
}

// sameTopic says whether two topics say the same of each of their partitions. An
// image has another one as soon as one of its partitions is another: of a
// thousand that stop, each record concerns those few that it names (OPS-3).
func sameTopic(a, b *quorum.Topic) bool {
	return a == b || a != nil && a.ID == b.ID && a.Internal == b.Internal && a.Mirror == b.Mirror && maps.Equal(a.Configs, b.Configs)
}

// openAll opens or makes the logs of partitions that are new, as many at a time
// as there are processors: recovery reads and checks all that a crash may have
// torn.
func (m *Manager) openAll(changes []*change) {
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, c := range changes {
		if !c.made {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			c.part.log, c.err = m.open(c.to.topic, c.part.Name(), c.conf)
			<-slots
		})
	}
	all.Wait()
}

// applyTogether is how many partitions take on a new role at a time. Nearly all
// of that time they wait for a disk, which syncs many files as fast as one.
const applyTogether = 64

// applyAll gives partitions their roles, several at a time: one that syncs its
// stops, or is being cut, does not keep another from becoming writable (RO-4).
func (m *Manager) applyAll(changes []*change) error {
	var all sync.WaitGroup
	slots := make(chan struct{}, applyTogether)
	for _, c := range changes {
		if c.err != nil {
			continue // it was not opened
		}
		slots <- struct{}{}
		all.Go(func() {
			c.err = c.part.assume(c.role, c.to.partition.Mirror.Stops)
			<-slots
		})
	}
	all.Wait()
	var errs error
	for _, c := range changes {
		p := c.part
		if c.err != nil {
			if c.made && p.log != nil {
				c.err = errors.Join(c.err, p.close(false))
			}
			errs = errors.Join(errs, fmt.Errorf("%s: %w", p.Name(), c.err))
			continue
		}
		k := key{p.topic, p.index}
		m.seen[k] = c.to
		if c.made {
			m.made = true
			m.mu.Lock()
			m.parts[k] = p
			m.mu.Unlock()
		}
	}
	return errs
}

func (m *Manager) roleOf(t *quorum.Topic, q *quorum.Partition, conf topicConfig) role {
	r := role{
		leader: q.Leader, epoch: q.LeaderEpoch, partitionEpoch: q.PartitionEpoch,
		replicas: q.Replicas, isr: q.ISR, minISR: min(conf.minISR, len(q.Settled())),
		retention: retentionOf(conf),
	}
	if conf.compacts {
		c := conf.compaction
		c.Decompress, c.Compress = m.inflate, m.deflate
		r.compaction = &c
	}
	if t.Mirror != "" && q.Mirror.State != quorum.Stopped {
		r.readOnly = true
		r.owed = q.Mirror.State == quorum.Stopping && !q.Mirror.Aligned
	}
	r.cuts = q.Cuts
	if c := q.Mirror.Cutting; c != nil {
		r.cut = &cutRecord{at: c.At, epoch: c.Epoch, anew: c.Anew}
	}
	if c := q.Mirror.Current; c != nil {
		r.stopping = true
		r.cut = &cutRecord{at: c.L, epoch: c.Epoch}
	}
	return r
}

// assume takes on the role that the quorum gave. Nothing is appended between
// its parts. The stops are beside the log, synced, before the role is in force.
func (p *Partition) assume(r role, stops []psm.Stop) error {
	p.order.Lock()
	defer p.order.Unlock()
	stops, r = p.believed(stops), p.misread(r)
	p.stops = stops
	// Before anything of the new leader epoch can come in.
	if err := p.followStops(r, stops); err != nil {
		return err
	}
	p.mu.Lock()
	old := p.role
	p.mu.Unlock()
	if r.leader == p.node && r.epoch != old.epoch && !r.readOnly {
		// A mirrored log's epochs come with its batches (LOG-5).
		if err := p.log.AssignEpoch(r.epoch); err != nil {
			return fmt.Errorf("begin leader epoch %d: %w", r.epoch, err)
		}
	}
	if r.leader != p.node || !r.readOnly {
		p.session = 0
	}
	end := p.log.Marks().LogEnd
	p.mu.Lock()
	if r.epoch != old.epoch || r.leader != old.leader {
		p.progress = begin(p.node, r.isr, end, time.Now())
		p.pending = nil
	}
	if q := p.pending; q != nil && r.partitionEpoch > q.partitionEpoch {
		p.pending = nil
	}
	maps.DeleteFunc(p.progress.by, func(id int32, _ follower) bool {
		return !slices.Contains(r.replicas, id) // nobody waits for who was reassigned away
	})
	for _, id := range r.isr { // who joined has the lag time from here on
		if f, ok := p.progress.by[id]; !ok && id != p.node {
			f.end, f.epoch, f.caughtUp = -1, -1, time.Now()
			p.progress.by[id] = f
		}
	}
	p.role = r
	p.mu.Unlock()
	p.raiseHighWatermark()
	p.notify()
	return nil
}

func (m *Manager) logConfig(t *quorum.Topic, c topicConfig) storage.Config {
	return storage.Config{
		SegmentBytes: c.segmentBytes, SegmentMs: c.segmentMs, IndexInterval: c.indexInterval, IndexBytes: c.indexBytes,
		MaxMessageBytes: c.maxMessageBytes, LogAppendTime: c.logAppendTime,
		FlushMessages: c.flushMessages, FlushMs: c.flushMs,
		Producers: psm.Config{
			VerifyTransactions: true, Log: m.cfg.Logger.With("topic", t.Name), Faults: faultsOf(m.cfg.Defects),
			AnyBarrierExpires: m.anyBarrierExpires(),
		},
		ClusterID: m.cfg.ClusterID, Now: m.cfg.Host.Now, Logger: m.cfg.Logger, Defects: m.cfg.Defects,
	}
}

// anyBarrierExpires says whether inherited barriers expire producers too.
func (m *Manager) anyBarrierExpires() bool {
	return m.cfg.Profile.AnyBarrierExpires() && !m.cfg.Defects.Has(defect.InheritedBarrierKept) || m.cfg.Defects.Has(defect.InheritedBarrierExpires)
}

// open opens or makes the log of a partition.
func (m *Manager) open(t *quorum.Topic, name string, conf topicConfig) (*storage.Log, error) {
	return storage.Open(m.fs, filepath.Join(m.dir, name), m.logConfig(t, conf), storage.OpenOptions{
		TopicID: t.ID, Clean: m.clean, RecoveryPoint: m.before.recovery[name],
		LogStart: m.before.start[name], HighWatermark: m.before.high[name],
	})
}

// newPartition is a partition whose log is still to be opened.
func (m *Manager) newPartition(t *quorum.Topic, index int32, q *quorum.Partition) *Partition {
	return &Partition{
		name: partitionName(t.Name, index), topic: t.Name, topicID: t.ID, index: index, node: m.cfg.NodeID, internal: t.Internal, profile: m.cfg.Profile,
		defects: m.cfg.Defects, logger: m.cfg.Logger, now: m.cfg.Host.Now, inflate: m.inflate, lowered: m.lowered, save: m.saveMarks,
		forgotten: m.cfg.Defects.Has(defect.ReadOnlyAfterRestart) && t.Mirror != "" && q.Mirror.State == quorum.Stopped,
		order:     lock.New(), role: role{leader: -1, epoch: -1}, lag: m.cfg.Lag, eligible: m.eligible, joined: m.joined, kept: -1,
	}
}

// claim makes dir the folder of the topic with id: a folder of another topic
// that had the name is put aside, one of this topic that was is put back.
func (m *Manager) claim(dir string, id [16]byte) error {
	there, err := afero.DirExists(m.fs, dir)
	if err != nil {
		return err
	}
	if there {
		found, ok, err := storage.ReadTopicID(m.fs, dir)
		if err != nil {
			return err
		}
		if !ok || found == id {
			return nil
		}
		aside := strayName(dir, found)
		m.cfg.Logger.Warn("log of another topic of this name is put aside", "dir", dir, "to", aside)
		if err := m.fs.Rename(dir, aside); err != nil {
			return fmt.Errorf("put the log of another topic aside: %w", err)
		}
		// What the last run knew of the name was of the other topic.
		name := filepath.Base(dir)
		delete(m.before.recovery, name)
		delete(m.before.high, name)
		delete(m.before.start, name)
	}
	if back, err := afero.DirExists(m.fs, strayName(dir, id)); err != nil || !back {
		return err
	}
	return m.fs.Rename(strayName(dir, id), dir)
}

func strayName(dir string, id [16]byte) string {
	return dir + "." + hex.EncodeToString(id[:]) + suffixStray
}
