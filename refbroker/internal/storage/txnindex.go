package storage

import (
	"fmt"
	"io"
	"os"
	"sort"

	"watershed.example/psm"
)

// loadTxnIndex reads the segment's index of aborted transactions; an error
// means that it can't be used.
func (s *segment) loadTxnIndex() error {
	raw, err := readFileIfAny(s.fs, s.file(suffixTxnIndex))
	if err != nil || raw == nil {
		return err
	}
	s.aborted, err = psm.DecodeTxnIndex(raw)
	return err
}

// writeAborted appends entries to the .txnindex file, which is made for the
// first of them. An error leaves the file to the next flush, which writes
// it whole: recovery does not need it before.
func (s *segment) writeAborted(entries []psm.AbortedTxn) error {
	var raw []byte
	for _, e := range entries {
		raw = e.Append(raw)
	}
	if err := s.openTxn(); err != nil {
		s.txnDirty = true
		return err
	}
	n, err := s.txn.WriteAt(raw, int64(len(s.aborted)*psm.AbortedTxnSize))
	if err == nil && n < len(raw) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.txnDirty = true
		return fmt.Errorf("write to %s: %w", s.file(suffixTxnIndex), err)
	}
	return nil
}

// rewriteAborted makes the .txnindex file hold just what aborted does.
func (s *segment) rewriteAborted() error {
	if !s.txnDirty {
		return nil
	}
	if len(s.aborted) > 0 || s.txn != nil {
		if err := s.openTxn(); err != nil {
			return err
		}
		var raw []byte
		for _, e := range s.aborted {
			raw = e.Append(raw)
		}
		if _, err := s.txn.WriteAt(raw, 0); err != nil {
			return fmt.Errorf("write to %s: %w", s.file(suffixTxnIndex), err)
		}
		if err := s.txn.Truncate(int64(len(raw))); err != nil {
			return fmt.Errorf("cut %s: %w", s.file(suffixTxnIndex), err)
		}
	} else if err := removeIfAny(s.fs, s.file(suffixTxnIndex)); err != nil {
		return err
	}
	s.txnDirty = false
	return nil
}

func (s *segment) openTxn() error {
	if s.txn != nil {
		return nil
	}
	f, err := s.fs.OpenFile(s.file(suffixTxnIndex), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("open transaction index: %w", err)
	}
	s.txn = f
	return nil
}

// syncAborted makes the .txnindex file durable.
func (s *segment) syncAborted() error {
	if err := s.rewriteAborted(); err != nil {
		return err
	}
	if s.txn == nil {
		return nil
	}
	if err := s.txn.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.file(suffixTxnIndex), err)
	}
	return nil
}

// Aborted appends to dst the aborted transactions that a reader of the range
// [from, to) has to know.
func (l *Log) Aborted(dst []psm.AbortedTxn, from, to int64) []psm.AbortedTxn {
	l.pub.RLock()
	defer l.pub.RUnlock()
	i := max(0, sort.Search(len(l.segments), func(i int) bool { return l.segments[i].base > from })-1)
	for done := false; i < len(l.segments) && !done; i++ {
		dst, done = psm.CollectAborted(dst, l.segments[i].aborted, from, to)
	}
	return dst
}
