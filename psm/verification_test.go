package psm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

func TestVerification(t *testing.T) {
	fresh := func() *psm.State { return psm.New(psm.Config{VerifyTransactions: true}) }
	start := func(t *testing.T, s *psm.State, pid int64, epoch int16, seq int32, version int8) psm.Guard {
		t.Helper()
		g, err := s.StartVerification(psm.Verification{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq, TransactionVersion: version, NowMs: 1})
		require.NoError(t, err)
		return g
	}
	t.Run("guard", func(t *testing.T) {
		s := fresh()
		requireCode(t, s, client, psm.CodeInvalidTxnState, txn(0, 7, 0, 0, 1))
		g := start(t, s, 7, 0, 0, 1)
		require.NotZero(t, g)
		require.Equal(t, g, start(t, s, 7, 0, 0, 1))
		require.NotEqual(t, g, start(t, s, 8, 0, 0, 1))
		requireCode(t, s, psm.Append{Guard: g + 7}, psm.CodeInvalidTxnState, txn(0, 7, 0, 0, 1))
		requireCode(t, s, client, psm.CodeInvalidTxnState, txn(0, 7, 0, 0, 1))
		requireCode(t, s, psm.Append{Origin: psm.Coordinator}, psm.CodeInvalidTxnState, txn(0, 7, 0, -1, 1))
		s.Begin(psm.Append{Guard: g})
		_, err := s.Add(txn(0, 7, 0, 0, 1))
		require.NoError(t, err)
		require.Equal(t, g, s.VerificationGuard(7), "not yet written")
		s.Discard()
		require.Equal(t, g, s.VerificationGuard(7), "never written")
		_, _, err = try(s, psm.Append{Guard: g}, txn(0, 7, 0, 0, 1))
		require.NoError(t, err)
		require.Zero(t, s.VerificationGuard(7))
		require.Zero(t, start(t, s, 7, 0, 1, 1), "the transaction is open")
		apply(t, s, psm.Client, txn(1, 7, 0, 1, 1))
		apply(t, s, psm.Coordinator, marker(2, 7, 0, 0, true))
		// Late, after the marker: it would open a transaction for ever.
		requireCode(t, s, psm.Append{Guard: g}, psm.CodeInvalidTxnState, txn(3, 7, 0, 2, 1))
		require.NotEqual(t, g, start(t, s, 7, 0, 2, 1))
	})
	t.Run("not for plain data, replicas, or when off", func(t *testing.T) {
		s := fresh()
		apply(t, s, psm.Client, data(0, 7, 0, 0, 1))
		apply(t, s, psm.Replication, txn(1, 7, 0, 1, 1))
		off := psm.New(psm.Config{})
		require.Zero(t, start(t, off, 7, 0, 0, 2))
		apply(t, off, psm.Client, txn(0, 7, 0, 0, 1))
	})
	t.Run("a retry needs no guard", func(t *testing.T) {
		s := fresh()
		apply(t, s, psm.Replication, txn(0, 7, 0, 0, 1), marker(1, 7, 0, 0, true))
		requireDup(t, s, txn(2, 7, 0, 0, 1), 0, 0)
	})
	t.Run("old epoch", func(t *testing.T) {
		s := fresh()
		apply(t, s, psm.Client, data(0, 7, 5, 0, 1))
		_, err := s.StartVerification(psm.Verification{ProducerID: 7, ProducerEpoch: 4})
		require.Equal(t, psm.CodeInvalidProducerEpoch, psm.Code(err))
		requireCode(t, s, client, psm.CodeInvalidProducerEpoch, txn(1, 7, 4, 0, 1))
	})
	t.Run("lowest sequence", func(t *testing.T) {
		s := fresh()
		g := start(t, s, 7, 0, 5, 1)
		start(t, s, 7, 0, 3, 1)
		start(t, s, 7, 0, 9, 1)
		requireCode(t, s, psm.Append{Guard: g}, psm.CodeOutOfOrderSequenceNumber, txn(0, 7, 0, 4, 1))
		start(t, s, 7, 1, 8, 1) // a higher epoch begins anew
		start(t, s, 7, 0, 1, 1) // a lower one changes nothing
		requireCode(t, s, psm.Append{Guard: g}, psm.CodeOutOfOrderSequenceNumber, txn(0, 7, 1, 9, 1))
		_, _, err := try(s, psm.Append{Guard: g}, txn(0, 7, 1, 8, 1))
		require.NoError(t, err)
	})
	t.Run("version 2 begins at 0", func(t *testing.T) {
		s := fresh()
		g := start(t, s, 7, 0, 5, 2)
		requireCode(t, s, psm.Append{Guard: g}, psm.CodeOutOfOrderSequenceNumber, txn(0, 7, 0, 5, 1))
		_, _, err := try(s, psm.Append{Guard: g}, txn(0, 7, 0, 0, 1))
		require.NoError(t, err)
	})
	t.Run("what a marker ends", func(t *testing.T) {
		for _, c := range []struct {
			version int8
			epoch   int16
			kept    bool
		}{{1, 1, false}, {1, 2, false}, {2, 1, true}, {2, 2, false}} {
			s := fresh()
			g := start(t, s, 7, 1, 0, c.version)
			require.NotZero(t, g)
			apply(t, s, psm.Coordinator, marker(0, 7, c.epoch, 0, true))
			require.Equal(t, c.kept, s.VerificationGuard(7) == g, "%+v", c)
		}
	})
}
