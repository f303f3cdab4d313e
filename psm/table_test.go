package psm_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// Many producers, in and out: the table against a map.
func TestTableAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := psm.New(psm.Config{ExpirationMs: 1000})
	want := map[int64]int64{} // id to timestamp
	offset := int64(0)
	for now := int64(0); now < 60_000; now++ {
		pid := r.Int64N(1500)
		if now > 30_000 {
			pid *= 7919 << 20
		}
		b := data(offset, pid, 0, 0, 1)
		b.MaxTimestamp = now
		apply(t, s, psm.Replication, b)
		offset++
		want[pid] = now
		if now%1777 == 0 {
			s.Expire(now)
			for id, ts := range want {
				if now-ts >= 1000 {
					delete(want, id)
				}
			}
			got := map[int64]int64{}
			for _, p := range s.Producers() {
				got[p.ProducerID] = p.LastTimestamp
			}
			require.Equal(t, want, got)
			for id := range want {
				_, ok := s.Lookup(id)
				require.True(t, ok)
			}
		}
	}
}

// When most producers have expired their memory is given back, and those with
// an open transaction stay, in order.
func TestExpiryGivesMemoryBack(t *testing.T) {
	s := psm.New(psm.Config{ExpirationMs: 10})
	end := int64(0)
	for pid := range int64(20_000) {
		b := data(end, pid, 0, 0, 1)
		if pid%5000 == 7 {
			b = txn(end, pid, 0, 0, 1)
		}
		b.MaxTimestamp = 5
		apply(t, s, psm.Replication, b)
		end++
	}
	require.Equal(t, 20_000, s.Slots())
	require.Equal(t, 19_996, s.Expire(15))
	require.Less(t, s.Slots(), 1000)
	require.Equal(t, []int64{7, 5007, 10007, 15007}, ids(s))
	var firsts []int64
	for _, o := range s.OpenTransactions() {
		firsts = append(firsts, o.FirstOffset)
	}
	require.Equal(t, []int64{7, 5007, 10007, 15007}, firsts)
	done := apply(t, s, psm.Coordinator, marker(end, 7, 0, 0, true))
	require.Equal(t, int64(5007), done[0].LSO)
}
