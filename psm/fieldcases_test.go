package psm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// Public reports of brokers that got it wrong, by the ids of the field cases.
func TestFieldCases(t *testing.T) {
	t.Run("FA-01 sequence wrap inside one batch", func(t *testing.T) {
		s := psm.New(psm.Config{})
		apply(t, s, psm.Client, data(0, 7, 0, 2147483644, 2))
		apply(t, s, psm.Client, data(2, 7, 0, 2147483646, 4))
		p, ok := s.Lookup(7)
		require.True(t, ok)
		require.Equal(t, int32(1), p.LastSequence)
		requireDup(t, s, data(6, 7, 0, 2147483646, 4), 2, 5)
		apply(t, s, psm.Client, data(6, 7, 0, 2, 1))
		require.Equal(t, int64(7), s.End())
	})
	t.Run("FA-02 five-batch duplicate window", func(t *testing.T) {
		s := psm.New(psm.Config{})
		for i := range int32(6) {
			apply(t, s, psm.Client, data(int64(i), 7, 0, i, 1))
		}
		requireCode(t, s, client, psm.CodeOutOfOrderSequenceNumber, data(6, 7, 0, 0, 1))
		for i := int32(1); i < 6; i++ {
			requireDup(t, s, data(6, 7, 0, i, 1), int64(i), int64(i))
		}
		require.Equal(t, int64(6), s.End())
	})
	t.Run("FA-03 duplicates after reload from a snapshot", func(t *testing.T) {
		l := newLog(t, psm.Config{})
		for i := range int32(5) {
			l.append(psm.Client, data(int64(i), 7, 0, i, 1))
		}
		require.NoError(t, l.snapshots.Write(l.state))
		s := l.reopen(0, 5)
		requireDup(t, s, data(5, 7, 0, 4, 1), 4, 4)
		for seq := int32(3); seq >= 0; seq-- {
			requireCode(t, s, client, psm.CodeOutOfOrderSequenceNumber, data(5, 7, 0, seq, 1))
		}
		require.Equal(t, int64(5), s.End())
	})
	t.Run("FA-03 without a snapshot all five are known", func(t *testing.T) {
		l := newLog(t, psm.Config{})
		for i := range int32(5) {
			l.append(psm.Client, data(int64(i), 7, 0, i, 1))
		}
		s := l.reopen(0, 5)
		for i := range int32(5) {
			requireDup(t, s, data(5, 7, 0, i, 1), int64(i), int64(i))
		}
	})
	t.Run("FA-04 state outlives deleted records", func(t *testing.T) {
		l := newLog(t, psm.Config{})
		l.append(psm.Client, data(0, 7, 0, 0, 10))
		l.state.OnLogStart(10)
		requireDup(t, l.state, data(10, 7, 0, 0, 10), 0, 9)
		l.append(psm.Client, data(10, 7, 0, 10, 1))
		require.NoError(t, l.snapshots.Write(l.state)) // clean stop
		s := l.reopen(10, 11)
		apply(t, s, psm.Client, data(11, 7, 0, 11, 1))
		require.Equal(t, int64(12), s.End())
	})
	t.Run("FA-04 everything deleted, then restarted", func(t *testing.T) {
		l := newLog(t, psm.Config{})
		l.append(psm.Client, data(0, 7, 0, 0, 10))
		require.NoError(t, l.snapshots.Write(l.state))
		s := l.reopen(10, 10)
		requireDup(t, s, data(10, 7, 0, 0, 10), 0, 9)
		apply(t, s, psm.Client, data(10, 7, 0, 10, 1))
	})
	t.Run("FA-05 truncation and the last stable offset", func(t *testing.T) {
		l := newLog(t, psm.Config{})
		l.append(psm.Client, data(0, -1, -1, -1, 10))
		l.append(psm.Client, txn(10, 1, 0, 0, 5))
		require.Equal(t, int64(10), l.state.LSO(15))

		one := l.reopen(0, 10)
		require.Equal(t, int64(10), one.LSO(10))
		require.Empty(t, one.OpenTransactions())
		require.Empty(t, one.Producers())

		l.append(psm.Coordinator, marker(15, 1, 0, 0, true))
		require.Equal(t, int64(10), l.state.LSO(15), "not replicated")
		require.Equal(t, int64(16), l.state.LSO(16))
		require.NoError(t, l.snapshots.Write(l.state))
		two := l.reopen(0, 15)
		require.Equal(t, int64(15), two.End())
		require.Equal(t, int64(10), two.LSO(15))
		require.Equal(t, []psm.OpenTxn{{ProducerID: 1, Epoch: 0, FirstOffset: 10, LastTimestamp: 1010}}, two.OpenTransactions())
	})
	t.Run("FA-06 replication does not check sequences", func(t *testing.T) {
		s := psm.New(psm.Config{})
		apply(t, s, psm.Replication, data(0, 7, 0, 0, 5))
		apply(t, s, psm.Replication, data(20, 7, 0, 20, 5))
		p, _ := s.Lookup(7)
		require.Equal(t, int32(24), p.LastSequence)
		requireCode(t, s, client, psm.CodeOutOfOrderSequenceNumber, data(25, 7, 0, 30, 5))
		apply(t, s, psm.Client, data(25, 7, 0, 25, 1))
	})
	t.Run("FA-08 an open mirrored transaction holds the last stable offset", func(t *testing.T) {
		s := psm.New(psm.Config{})
		apply(t, s, psm.Replication, txn(0, 5, 0, 0, 5))
		require.Equal(t, int64(0), s.LSO(5))
		c := apply(t, s, psm.Replication, marker(5, 5, 0, 0, false))
		require.Equal(t, []psm.Completed{{ProducerID: 5, FirstOffset: 0, LastOffset: 5, LSO: 6, Aborted: true}}, c)
		require.Equal(t, int64(6), s.LSO(6))
	})
	t.Run("FA-08 rewritten to a negative id it would not", func(t *testing.T) {
		s := psm.New(psm.Config{})
		apply(t, s, psm.Replication, txn(0, -7, 0, 0, 5))
		require.Equal(t, int64(5), s.LSO(5))
		require.Empty(t, s.Producers())
	})
}
