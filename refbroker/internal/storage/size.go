package storage

// Size is how many bytes the log's segments hold, without their indexes.
func (l *Log) Size() int64 {
	l.pub.RLock()
	defer l.pub.RUnlock()
	var n int64
	for _, s := range l.segments {
		n += s.size
	}
	return n
}
