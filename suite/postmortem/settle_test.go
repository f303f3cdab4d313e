package postmortem

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// retained judges so many partitions of two sides with two replicas each, which part
// in the middle, and returns the memory in use when the last one was read.
func retained(t *testing.T, partitions int) (bytes uint64) {
	t.Helper()
	const producers = 1000
	var both, a, b []spec
	for id := range int64(producers) {
		both = append(both, data(0, id, 0, 0, fmt.Sprint(id)))
		a = append(a, data(0, id, 0, 1, fmt.Sprint("a", id)))
		b = append(b, data(1, id, 0, 0, fmt.Sprint("b", id)))
	}
	logs := map[string][]byte{"a": join(both, a), "b": join(both, []spec{reset(1, idA)}, b)}
	root := t.TempDir()
	for broker, bytes := range logs {
		for replica := range 2 {
			name := fmt.Sprint(broker, replica)
			first := filepath.Join(write(t, root, name, "orders-0", bytes), "orders-0", "00000000000000000000.log")
			for p := 1; p < partitions; p++ {
				dir := filepath.Join(root, name, fmt.Sprintf("orders-%d", p))
				require.NoError(t, os.Mkdir(dir, 0o755))
				require.NoError(t, os.Link(first, filepath.Join(dir, filepath.Base(first))))
			}
		}
	}
	sides := []Side{
		{Name: "A", Folders: []string{filepath.Join(root, "a0"), filepath.Join(root, "a1")}},
		{Name: "B", Folders: []string{filepath.Join(root, "b0"), filepath.Join(root, "b1")}},
	}
	r, err := Judge(t.Context(), sides, Options{Progress: func(done, all int64) {
		if done < all || bytes > 0 {
			return
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		bytes = m.HeapAlloc
	}})
	require.NoError(t, err)
	require.Len(t, r.Partitions, partitions)
	for _, p := range r.Partitions {
		require.Equal(t, int64(producers), p.Partings[0].Common)
		require.Equal(t, "lost-tail", string(r.Findings[p.Partition].Kind))
	}
	return bytes
}

// What is kept of a partition that was read does not add up.
func TestMemoryIsBoundedOverPartitions(t *testing.T) {
	few, many := retained(t, 20), retained(t, 200)
	each := (int64(many) - int64(few)) / 180
	t.Logf("%d bytes with 20 partitions, %d with 200: %d for each", few, many, each)
	require.Less(t, each, int64(16<<10), "bytes for each partition more")
}

// Of transactions around partings a number is kept that all partitions share.
func TestTransactionsAroundPartingsAreBounded(t *testing.T) {
	require.Equal(t, maxRecent, roomFor(1, 2))
	require.Equal(t, 1, roomFor(maxTxns, 2))
	require.Positive(t, roomFor(0, 1))
	for _, partitions := range []int{100, 1000, 10_000} {
		require.LessOrEqual(t, partitions*3*4*roomFor(partitions, 3), maxTxns)
	}
	var all []txn
	for i := range int64(100) {
		all = append(all, txn{id: i, last: i, commit: i%2 == 0})
	}
	pr := newPair(&lane{line: newLine("A", "", nil)}, &lane{line: newLine("B", "", nil)}, 0, 1, nil)
	pr.parted = 100
	pr.lanes[1].line.barriers = []*barrier{{offset: 100, from: 100}}
	for _, tail := range pr.tails {
		tail.before, tail.ended = slices.Clone(all), slices.Clone(all)
	}
	pr.settle(2)
	require.Equal(t, []txn{all[96], all[98]}, pr.tails[0].before, "the last ones below the parting")
	require.Equal(t, []txn{all[0], all[2]}, pr.tails[0].ended, "the first ones behind it")
	require.Equal(t, 2, cap(pr.tails[0].before))
	require.Empty(t, pr.tails[1].before, "A has not stopped, so nothing of B is torn")
}

// parted makes a judgement of partitions of which side A's transactions are given:
// those that side B has and those that it has not.
func parted(kept, cut [][]txn) *judgement {
	j := &judgement{sides: []Side{{Name: "A"}, {Name: "B"}}, found: &found{clusterIDs: make([]map[string]string, 2)}}
	for i := range kept {
		p := &partition{topic: "orders", number: int32(i)}
		pr := newPair(&lane{replica: &replica{}, name: "A"}, &lane{replica: &replica{}, name: "B"}, 0, 1, nil)
		pr.tails[0].before, pr.tails[0].ended = kept[i], cut[i]
		p.pairs = []*pair{pr}
		j.partitions = append(j.partitions, p)
	}
	return j
}

// The transactions that are told are those of which another partition has a part.
func TestTornTransactionsAreThoseOfTwoPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.Custom(func(t *rapid.T) txn {
			epoch := int16(rapid.IntRange(0, 1).Draw(t, "epoch"))
			return txn{id: rapid.Int64Range(1, 2).Draw(t, "id"), epoch: epoch, marker: epoch + int16(rapid.IntRange(0, 1).Draw(t, "v2")), ended: rapid.Int64Range(0, 8).Draw(t, "ended") * together / 2, commit: true}
		})
		var kept, cut [][]txn
		offset := int64(0)
		for range rapid.IntRange(1, 3).Draw(t, "partitions") {
			for _, all := range []*[][]txn{&kept, &cut} {
				drawn := rapid.SliceOfN(gen, 0, 4).Draw(t, "transactions")
				for i := range drawn {
					drawn[i].first = offset
					offset++
				}
				*all = append(*all, drawn)
			}
		}
		want := map[string]bool{}
		for p := range cut {
			for _, c := range cut[p] {
				for q := range kept {
					for _, k := range kept[q] {
						apart := max(k.ended-c.ended, c.ended-k.ended)
						if p != q && k.id == c.id && k.epoch == c.epoch && k.marker == c.marker && (c.marker > c.epoch || apart <= together) {
							want[fmt.Sprint(p)] = true
						}
					}
				}
			}
		}
		j := parted(kept, cut)
		if err := j.torn(context.Background()); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for i, p := range j.partitions {
			if len(p.findings.all) > 0 {
				got[fmt.Sprint(i)] = true
			}
		}
		if !maps.Equal(want, got) {
			t.Fatalf("partitions with torn transactions %v, want %v", got, want)
		}
	})
}

// manyTxns are a producer's transactions, all of one epoch, in so many partitions:
// none within reach of another's.
func manyTxns(partitions, each int) *judgement {
	kept, cut := make([][]txn, partitions), make([][]txn, partitions)
	for p := range partitions {
		for i := range int64(each) {
			t := txn{id: 7, ended: (2*i*int64(partitions) + int64(p)) * 3 * together, commit: true}
			kept[p] = append(kept[p], t)
			t.ended += int64(partitions) * 3 * together
			cut[p] = append(cut[p], t)
		}
	}
	return parted(kept, cut)
}

func TestManyTransactionsOfOneProducer(t *testing.T) {
	j := manyTxns(64, maxTxns/2/64)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, j.torn(ctx), "to look at each with each takes longer")
	for _, p := range j.partitions {
		require.Empty(t, p.findings.all)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, j.torn(stopped), context.Canceled)
	_, err := j.report(stopped)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "at the report on orders-0")
}

// Transactions of one partition, all at one time, are no parts of each other.
func TestManyTransactionsOfOnePartition(t *testing.T) {
	all := make([]txn, maxTxns/4)
	for i := range all {
		all[i] = txn{id: 7, ended: 1, commit: true}
	}
	j := parted([][]txn{all}, [][]txn{all})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, j.torn(ctx))
	require.Empty(t, j.partitions[0].findings.all)
}

func BenchmarkTorn(b *testing.B) {
	j := manyTxns(64, maxTxns/2/64)
	for b.Loop() {
		require.NoError(b, j.torn(b.Context()))
	}
}
