package storage

import "time"

// flushSoon syncs what was appended if flush.messages wants it now, or sees to
// it that flush.ms is kept. Under mu.
func (l *Log) flushSoon() error {
	if n := l.cfg.FlushMessages; n > 0 && l.logEnd-l.recovered >= n {
		return l.flush()
	}
	if l.cfg.FlushMs > 0 && l.flushLater == nil {
		l.flushLater = time.AfterFunc(time.Duration(l.cfg.FlushMs)*time.Millisecond, l.flushLate)
	}
	return nil
}

// flushLate is flush.ms after the first append since the last one. A failure is
// told by noteBroken, and by the next append.
func (l *Log) flushLate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushLater = nil
	if l.usable() != nil || l.recovered == l.logEnd {
		return
	}
	if err := l.flush(); err != nil {
		l.cfg.Logger.Warn("log is not flushed", "log", l.dir, "err", err)
	}
}
