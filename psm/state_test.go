package psm_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

const (
	attrTxn     psm.Attributes = 0x10
	attrControl psm.Attributes = 0x20
)

// data is a batch of count records at offset; seq -1 for none.
func data(offset int64, pid int64, epoch int16, seq, count int32) *psm.Batch {
	return &psm.Batch{
		BaseOffset: offset, LastOffset: offset + int64(count) - 1, ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq,
		Count: count, BaseTimestamp: 1000 + offset, MaxTimestamp: 1000 + offset, Magic: 2, Control: psm.Control{Type: psm.ControlNone},
	}
}

func txn(offset int64, pid int64, epoch int16, seq, count int32) *psm.Batch {
	b := data(offset, pid, epoch, seq, count)
	b.Attributes |= attrTxn
	return b
}

func marker(offset int64, pid int64, epoch int16, coordEpoch int32, commit bool) *psm.Batch {
	b := data(offset, pid, epoch, -1, 1)
	b.Attributes |= attrTxn | attrControl
	b.Control = psm.Control{Type: psm.ControlAbort, CoordinatorEpoch: coordEpoch, Timestamp: b.MaxTimestamp}
	if commit {
		b.Control.Type = psm.ControlCommit
	}
	return b
}

func barrier(offset int64, epoch int32, source string) *psm.Batch {
	b := data(offset, -1, -1, -1, 1)
	b.LeaderEpoch = epoch
	b.Attributes |= attrControl
	b.Control = psm.Control{Type: psm.ControlMirrorPIDReset, SourceClusterID: source, Timestamp: b.MaxTimestamp}
	return b
}

// try makes one append of batches.
func try(s *psm.State, a psm.Append, batches ...*psm.Batch) ([]psm.Completed, psm.Duplicate, error) {
	s.Begin(a)
	for _, b := range batches {
		if dup, err := s.Add(b); err != nil || dup.Found {
			s.Discard()
			return nil, dup, err
		}
	}
	return append([]psm.Completed(nil), s.Commit()...), psm.Duplicate{}, nil
}

func apply(t tester, s *psm.State, o psm.Origin, batches ...*psm.Batch) []psm.Completed {
	t.Helper()
	c, dup, err := try(s, psm.Append{Origin: o}, batches...)
	require.NoError(t, err)
	require.Zero(t, dup)
	return c
}

func requireDup(t tester, s *psm.State, b *psm.Batch, base, last int64) {
	t.Helper()
	before := s.SnapshotEntries()
	end := s.End()
	b.LastOffset += end - b.BaseOffset
	b.BaseOffset = end
	_, dup, err := try(s, psm.Append{Origin: psm.Client}, b)
	require.NoError(t, err)
	require.Equal(t, psm.Duplicate{Found: true, BaseOffset: base, LastOffset: last, Timestamp: 1000 + base}, dup)
	require.Equal(t, end, s.End())
	require.Equal(t, before, s.SnapshotEntries())
}

func requireCode(t tester, s *psm.State, a psm.Append, code int16, b *psm.Batch) {
	t.Helper()
	before, open := s.SnapshotEntries(), s.OpenTransactions()
	_, dup, err := try(s, a, b)
	require.Zero(t, dup)
	require.Equal(t, code, psm.Code(err), "%v", err)
	var e *psm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, b.ProducerID, e.ProducerID)
	require.Equal(t, before, s.SnapshotEntries())
	require.Equal(t, open, s.OpenTransactions())
}

var client = psm.Append{Origin: psm.Client}

func TestSequences(t *testing.T) {
	for name, c := range map[string]struct {
		before []*psm.Batch
		b      *psm.Batch
		code   int16
	}{
		"unknown producer, any sequence":        {nil, data(0, 7, 3, 100, 1), 0},
		"negative sequence":                     {nil, data(0, 7, 0, -1, 1), psm.CodeInvalidRecord},
		"next":                                  {[]*psm.Batch{data(0, 7, 0, 0, 3)}, data(3, 7, 0, 3, 1), 0},
		"gap":                                   {[]*psm.Batch{data(0, 7, 0, 0, 3)}, data(3, 7, 0, 4, 1), 45},
		"overlap with another count":            {[]*psm.Batch{data(0, 7, 0, 0, 3)}, data(3, 7, 0, 0, 2), 45},
		"0 after the greatest":                  {[]*psm.Batch{data(0, 7, 0, math.MaxInt32, 1)}, data(1, 7, 0, 0, 1), 0},
		"1 after the greatest":                  {[]*psm.Batch{data(0, 7, 0, math.MaxInt32, 1)}, data(1, 7, 0, 1, 1), 45},
		"0 after less than the greatest":        {[]*psm.Batch{data(0, 7, 0, math.MaxInt32-1, 1)}, data(1, 7, 0, 0, 1), 45},
		"lower epoch":                           {[]*psm.Batch{data(0, 7, 1, 0, 1)}, data(1, 7, 0, 1, 1), 47},
		"higher epoch from 0":                   {[]*psm.Batch{data(0, 7, 1, 0, 1)}, data(1, 7, 2, 0, 1), 0},
		"higher epoch, not from 0":              {[]*psm.Batch{data(0, 7, 1, 0, 1)}, data(1, 7, 2, 1, 1), 45},
		"same sequences in another epoch":       {[]*psm.Batch{data(0, 7, 1, 0, 1)}, data(1, 7, 2, 0, 1), 0},
		"after a marker only, 0":                {[]*psm.Batch{marker(0, 7, 1, 0, true)}, data(1, 7, 1, 0, 1), 0},
		"after a marker only, 1":                {[]*psm.Batch{marker(0, 7, 1, 0, true)}, data(1, 7, 1, 1, 1), 45},
		"after a marker of the epoch":           {[]*psm.Batch{txn(0, 7, 1, 0, 2), marker(2, 7, 1, 0, true)}, txn(3, 7, 1, 2, 1), 0},
		"after a marker of a higher epoch":      {[]*psm.Batch{txn(0, 7, 1, 0, 2), marker(2, 7, 2, 0, true)}, txn(3, 7, 2, 0, 1), 0},
		"late, after a marker of higher epoch":  {[]*psm.Batch{txn(0, 7, 1, 0, 2), marker(2, 7, 2, 0, true)}, txn(3, 7, 1, 2, 1), 47},
		"retry, after a marker of higher epoch": {[]*psm.Batch{txn(0, 7, 1, 0, 2), marker(2, 7, 2, 0, true)}, txn(3, 7, 1, 0, 2), 47},
		"plain data in an open transaction":     {[]*psm.Batch{txn(0, 7, 1, 0, 2)}, data(2, 7, 1, 2, 1), 48},
		"a client's control batch":              {nil, marker(0, 7, 0, 0, true), psm.CodeInvalidRecord},
		"a client's barrier":                    {nil, barrier(0, 1, "src"), psm.CodeInvalidRecord},
	} {
		t.Run(name, func(t *testing.T) {
			s := psm.New(psm.Config{})
			apply(t, s, psm.Replication, c.before...)
			if c.code != 0 {
				requireCode(t, s, client, c.code, c.b)
				return
			}
			apply(t, s, psm.Client, c.b)
			p, ok := s.Lookup(7)
			require.True(t, ok)
			require.Equal(t, c.b.LastSequence(), p.LastSequence)
			require.Equal(t, c.b.ProducerEpoch, p.Epoch)
		})
	}
}

func TestOffsetOrder(t *testing.T) {
	s := psm.New(psm.Config{})
	_, err := s.Add(data(0, 1, 0, 0, 1))
	require.ErrorIs(t, err, psm.ErrNoAppend)
	apply(t, s, psm.Client, data(0, 1, 0, 0, 5))
	for _, o := range []psm.Origin{psm.Client, psm.Coordinator, psm.Replication} {
		_, _, err = try(s, psm.Append{Origin: o}, data(4, 1, 0, 5, 1))
		require.ErrorIs(t, err, psm.ErrOffsetOrder)
		require.Equal(t, psm.CodeUnknown, psm.Code(err))
	}
	// The failed append can't be committed.
	s.Begin(client)
	_, err = s.Add(data(5, 1, 0, 5, 1))
	require.NoError(t, err)
	_, err = s.Add(data(6, 1, 0, 9, 1))
	require.Equal(t, psm.CodeOutOfOrderSequenceNumber, psm.Code(err))
	_, err = s.Add(data(6, 1, 0, 6, 1))
	require.ErrorIs(t, err, psm.ErrNoAppend)
	require.Nil(t, s.Commit())
	require.Equal(t, int64(5), s.End())
	apply(t, s, psm.Client, data(5, 1, 0, 5, 1))
}

func TestMarkers(t *testing.T) {
	type want struct {
		code int16
		done []psm.Completed
	}
	for name, c := range map[string]struct {
		before  []*psm.Batch
		version int8
		b       *psm.Batch
		want    want
	}{
		"commit": {[]*psm.Batch{txn(0, 7, 0, 0, 2)}, 1, marker(2, 7, 0, 0, true), want{done: []psm.Completed{{ProducerID: 7, FirstOffset: 0, LastOffset: 2, LSO: 3}}}},
		"abort while another is open": {
			[]*psm.Batch{txn(0, 7, 0, 0, 2), txn(2, 8, 0, 0, 1), txn(3, 9, 0, 0, 1)},
			1, marker(4, 7, 0, 0, false),
			want{done: []psm.Completed{{ProducerID: 7, FirstOffset: 0, LastOffset: 4, LSO: 2, Aborted: true}}},
		},
		"end the later one":                {[]*psm.Batch{txn(0, 7, 0, 0, 2), txn(2, 8, 0, 0, 1)}, 1, marker(3, 8, 0, 0, true), want{done: []psm.Completed{{ProducerID: 8, FirstOffset: 2, LastOffset: 3, LSO: 0}}}},
		"nothing open":                     {nil, 1, marker(0, 7, 0, 0, true), want{}},
		"repeated":                         {[]*psm.Batch{txn(0, 7, 0, 0, 2), marker(2, 7, 0, 0, true)}, 1, marker(3, 7, 0, 0, true), want{}},
		"lower epoch":                      {[]*psm.Batch{txn(0, 7, 3, 0, 2)}, 1, marker(2, 7, 2, 0, true), want{code: 47}},
		"higher epoch (fencing)":           {[]*psm.Batch{txn(0, 7, 3, 0, 2)}, 1, marker(2, 7, 4, 0, false), want{done: []psm.Completed{{ProducerID: 7, FirstOffset: 0, LastOffset: 2, LSO: 3, Aborted: true}}}},
		"old coordinator":                  {[]*psm.Batch{txn(0, 7, 0, 0, 1), marker(1, 7, 0, 5, true), txn(2, 7, 0, 1, 1)}, 1, marker(3, 7, 0, 4, true), want{code: 52}},
		"old coordinator and epoch":        {[]*psm.Batch{marker(0, 7, 3, 5, true)}, 1, marker(1, 7, 2, 4, true), want{code: 47}},
		"version 2, raised epoch":          {[]*psm.Batch{txn(0, 7, 0, 0, 2)}, 2, marker(2, 7, 1, 0, true), want{done: []psm.Completed{{ProducerID: 7, FirstOffset: 0, LastOffset: 2, LSO: 3}}}},
		"version 2, own epoch":             {[]*psm.Batch{txn(0, 7, 0, 0, 2)}, 2, marker(2, 7, 0, 0, true), want{code: 47}},
		"version 2, repeated":              {[]*psm.Batch{txn(0, 7, 0, 0, 2), marker(2, 7, 1, 0, true)}, 2, marker(3, 7, 1, 0, true), want{}},
		"version 2, repeated, next open":   {[]*psm.Batch{txn(0, 7, 0, 0, 2), marker(2, 7, 1, 0, true), txn(3, 7, 1, 0, 1)}, 2, marker(4, 7, 1, 0, true), want{code: 47}},
		"version 2, the epochs' end":       {[]*psm.Batch{txn(0, 7, 32767, 0, 2)}, 2, marker(2, 7, 32767, 0, true), want{done: []psm.Completed{{ProducerID: 7, FirstOffset: 0, LastOffset: 2, LSO: 3}}}},
		"version 2, lower than the marker": {[]*psm.Batch{txn(0, 7, 0, 0, 2), marker(2, 7, 1, 0, true)}, 2, marker(3, 7, 0, 0, true), want{code: 47}},
	} {
		t.Run(name, func(t *testing.T) {
			s := psm.New(psm.Config{})
			apply(t, s, psm.Replication, c.before...)
			a := psm.Append{Origin: psm.Coordinator, TransactionVersion: c.version}
			if c.want.code != 0 {
				requireCode(t, s, a, c.want.code, c.b)
			} else {
				done, _, err := try(s, a, c.b)
				require.NoError(t, err)
				require.Equal(t, c.want.done, done)
				p, ok := s.Lookup(7)
				if c.b.ProducerID == 7 {
					require.True(t, ok)
					require.Equal(t, c.b.ProducerEpoch, p.Epoch)
					require.Equal(t, c.b.Control.CoordinatorEpoch, p.CoordinatorEpoch)
					require.Equal(t, c.b.Control.Timestamp, p.LastTimestamp)
					require.Equal(t, int64(-1), p.CurrentTxnFirstOffset)
				}
			}
			// A replica takes any marker.
			r := psm.New(psm.Config{})
			apply(t, r, psm.Replication, append(c.before[:len(c.before):len(c.before)], c.b)...)
			p, ok := r.Lookup(c.b.ProducerID)
			require.True(t, ok)
			require.Equal(t, c.b.ProducerEpoch, p.Epoch)
		})
	}
}

// A control batch that the cleaner emptied, and control types that producer
// state does not know, change nothing but the end.
func TestOtherControlBatches(t *testing.T) {
	s := psm.New(psm.Config{})
	apply(t, s, psm.Replication, txn(0, 7, 0, 0, 1))
	for i, typ := range []psm.ControlType{psm.ControlNone, 2, 3, 6, 8, 100} {
		b := marker(int64(i)+1, 7, 5, 0, true)
		b.Control.Type = typ
		apply(t, s, psm.Replication, b)
		require.Equal(t, int64(i)+2, s.End())
	}
	require.Equal(t, []psm.Producer{{ProducerID: 7, LastTimestamp: 1000, CoordinatorEpoch: -1}}, s.Producers())
}

func TestLastStableOffset(t *testing.T) {
	s := psm.New(psm.Config{})
	unstable := func() int64 {
		if o, ok := s.FirstUnstable(); ok {
			return o
		}
		return -1
	}
	require.Equal(t, int64(-1), unstable())
	apply(t, s, psm.Client, txn(0, 1, 0, 0, 2)) // 0, 1
	apply(t, s, psm.Client, txn(2, 2, 0, 0, 2)) // 2, 3
	apply(t, s, psm.Client, data(4, 3, 0, 0, 1))
	apply(t, s, psm.Coordinator, marker(5, 2, 0, 0, true))
	require.Equal(t, int64(0), unstable())
	apply(t, s, psm.Coordinator, marker(6, 1, 0, 0, false))
	require.Equal(t, int64(0), unstable(), "ended but not replicated")
	for hw, want := range map[int64]int64{0: 0, 1: 0, 5: 0, 6: 0, 7: 7} {
		require.Equal(t, want, s.LSO(hw), "high watermark %d", hw)
	}
	s.OnHighWatermark(6)
	require.Equal(t, int64(0), unstable())
	apply(t, s, psm.Client, txn(7, 2, 0, 2, 1))
	s.OnHighWatermark(7)
	require.Equal(t, int64(7), unstable())
	first, ok := s.FirstUndecided()
	require.True(t, ok)
	require.Equal(t, int64(7), first)
	apply(t, s, psm.Coordinator, marker(8, 2, 0, 0, true))
	s.OnLogStart(9)
	require.Equal(t, int64(-1), unstable())
	_, ok = s.FirstUndecided()
	require.False(t, ok)
}

func TestExpiry(t *testing.T) {
	s := psm.New(psm.Config{ExpirationMs: 100, VerifyTransactions: true})
	apply(t, s, psm.Client, data(0, 1, 0, 0, 1))            // last active at 1000
	apply(t, s, psm.Replication, txn(1, 2, 0, 0, 1))        // open
	apply(t, s, psm.Replication, data(2, 3, 0, 0, 1))       // 1002
	apply(t, s, psm.Coordinator, marker(50, 3, 0, 0, true)) // 1050: counts as activity
	_, err := s.StartVerification(psm.Verification{ProducerID: 9, NowMs: 1000})
	require.NoError(t, err)
	require.Zero(t, s.Expire(1099))
	require.NotZero(t, s.VerificationGuard(9))
	require.Equal(t, 1, s.Expire(1100))
	require.Equal(t, []int64{2, 3}, ids(s))
	require.Zero(t, s.VerificationGuard(9))
	require.Equal(t, 1, s.Expire(1_000_000))
	require.Equal(t, []int64{2}, ids(s))
	require.Equal(t, 1, s.Len())
	apply(t, s, psm.Client, data(51, 1, 0, 77, 1)) // unknown again: any sequence
}

func TestLateTransactions(t *testing.T) {
	s := psm.New(psm.Config{MaxTransactionTimeoutMs: 1000})
	apply(t, s, psm.Replication, txn(0, 1, 0, 0, 1), txn(100, 2, 4, 0, 1))
	limit := 1000 + 1000 + psm.LateTransactionBufferMs
	require.Empty(t, s.LateTransactions(limit))
	first := psm.OpenTxn{ProducerID: 1, FirstOffset: 0, LastTimestamp: 1000}
	require.Equal(t, []psm.OpenTxn{first}, s.LateTransactions(limit+1))
	require.Equal(t, []psm.OpenTxn{first, {ProducerID: 2, Epoch: 4, FirstOffset: 100, LastTimestamp: 1100}}, s.LateTransactions(limit+101))
}

func TestErrorsAreClear(t *testing.T) {
	s := psm.New(psm.Config{})
	apply(t, s, psm.Client, data(0, 7, 0, 0, 3))
	_, _, err := try(s, client, data(3, 7, 0, 9, 1))
	require.EqualError(t, err, "producer 7, batch at offset 3: sequence 9 follows 2 (error code 45)")
	require.Equal(t, int16(0), psm.Code(nil))
	require.Equal(t, psm.CodeUnknown, psm.Code(errors.New("other")))
}

// tester is testing's or rapid's.
type tester interface {
	require.TestingT
	Helper()
}
