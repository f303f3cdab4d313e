package replica

import "watershed.example/refbroker/internal/storage"

// retainAll applies retention to every log.
func (m *Manager) retainAll() {
	for _, p := range m.All() {
		before := p.log.Marks().LogStart
		start, err := p.retain()
		switch {
		case err != nil:
			m.cfg.Logger.Warn("retention failed", "partition", p.Name(), "error", err)
		case start > before:
			m.cfg.Logger.Info("retention raised the log's start", "partition", p.Name(), "from", before, "to", start)
		}
	}
}

// retain drops what the topic's retention no longer keeps, and returns the
// log's start. A log that mirrors is left alone: its start is the source's
// (RO-3). Each replica does it for itself, as in Kafka.
func (p *Partition) retain() (int64, error) {
	p.order.Lock()
	start, err := p.retainLocked()
	p.order.Unlock()
	if err == nil {
		p.notify()
	}
	return start, err
}

func (p *Partition) retainLocked() (int64, error) {
	p.mu.Lock()
	r, readOnly, closed := p.role, p.role.readOnly, p.closed
	p.mu.Unlock()
	now := p.log.Marks().LogStart
	if readOnly || closed || r.retention == nil {
		return now, nil
	}
	start, err := p.log.Retain(p.now().UnixMilli(), *r.retention)
	if err == nil && start > now {
		err = p.save()
	}
	return start, storageError(err)
}

// retentionOf is a topic's retention, nil where its policy is to compact only.
func retentionOf(c topicConfig) *storage.Retention {
	if !c.deletes {
		return nil
	}
	return &storage.Retention{Ms: c.retentionMs, Bytes: c.retentionBytes}
}
