package postmortem

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What may lie in a copy besides logs, and what may be wrong with those.
func TestForeignAndDamagedFilesAreNamed(t *testing.T) {
	whole := join(shared(), []spec{reset(1, idA)}, local(1))
	old := bytes.Clone(whole)
	old[16] = 1 // magic
	flipped := bytes.Clone(whole)
	flipped[70] ^= 1
	long := bytes.Clone(whole)
	long[8] = 0x7F // the first batch's length
	tests := []struct {
		name string
		make func(t *testing.T, root string) string
		sure Sureness
		want string
	}{
		{"a flipped bit", func(t *testing.T, root string) string { return write(t, root, "b", "orders-0", flipped) }, Certain, "checksum"},
		{"a torn tail", func(t *testing.T, root string) string { return write(t, root, "b", "orders-0", whole[:len(whole)-5]) }, Measured, "bytes end within a batch"},
		{"a torn segment before the last", func(t *testing.T, root string) string {
			dir := write(t, root, "b", "orders-0", whole[:len(whole)-5])
			put(t, filepath.Join(dir, "orders-0"), "00000000000000000012.log", "")
			return dir
		}, Certain, "bytes end within a batch"},
		{"magic 1", func(t *testing.T, root string) string { return write(t, root, "b", "orders-0", old) }, Certain, "messages of magic 1, as before Kafka 0.11"},
		{"a false length", func(t *testing.T, root string) string { return write(t, root, "b", "orders-0", long) }, Measured, "bytes end within a batch"},
		{"text", func(t *testing.T, root string) string {
			return write(t, root, "b", "orders-0", []byte(strings.Repeat("no log at all ", 20)))
		}, Measured, "bytes end within a batch"},
		{"a name that is none", func(t *testing.T, root string) string {
			dir := write(t, root, "b", "orders-0", whole)
			write(t, root, "b", "orders", whole)
			return dir
		}, Measured, "its name is no TOPIC-PARTITION"},
		{"a partition number that is none", func(t *testing.T, root string) string {
			dir := write(t, root, "b", "orders-0", whole)
			write(t, root, "b", "orders-9999999999", whole)
			return dir
		}, Measured, "a partition number that is none"},
		{"a deleted partition", func(t *testing.T, root string) string {
			dir := write(t, root, "b", "orders-0", whole)
			write(t, root, "b", "orders-1.0123456789abcdef-delete", whole)
			return dir
		}, Measured, "the broker had given up"},
		{"application logs", func(t *testing.T, root string) string {
			dir := write(t, root, "b", "orders-0", whole)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o755))
			put(t, filepath.Join(dir, "logs"), "server.log", "started")
			return dir
		}, Measured, "none with the name of a segment"},
		{"two clusters in one", func(t *testing.T, root string) string {
			dir := write(t, root, "b", "orders-0", whole)
			put(t, dir, metaFile, "cluster.id=one\n")
			put(t, filepath.Join(dir, "orders-0"), metaFile, "")
			other := write(t, filepath.Join(root, "b"), "c", "orders-1", whole)
			put(t, other, metaFile, "cluster.id=two\n")
			return dir
		}, Measured, "of another cluster"},
		{"a broken snapshot", func(t *testing.T, root string) string {
			dir := write(t, root, "b", "orders-0", whole)
			put(t, filepath.Join(dir, "orders-0"), "00000000000000000012.snapshot", "nonsense bytes")
			return dir
		}, Measured, "producer snapshot of version"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			sides := []Side{{Name: "B", Folders: []string{test.make(t, root)}}}
			if strings.Contains(test.name, "snapshot") { // it takes another side to know the barrier for B's own
				sides = append(sides, Side{Name: "A", Folders: []string{write(t, root, "a", "orders-0", join(shared(), onward()))}})
			}
			r := judged(t, sides...)
			for _, f := range r.Findings {
				if strings.Contains(f.What, test.want) {
					require.Equal(t, test.sure, f.Sure)
					require.NotContains(t, f.What, "\n")
					return
				}
			}
			require.Failf(t, "not named", "%q in %v", test.want, r.Findings)
		})
	}
}

// An empty partition, and a preallocated segment, are nothing to talk about.
func TestEmptyAndPreallocatedLogs(t *testing.T) {
	for _, data := range [][]byte{nil, make([]byte, 3<<20), append(join(shared()), make([]byte, 3<<20)...)} {
		r := judged(t, Side{Name: "B", Folders: []string{write(t, t.TempDir(), "b", "orders-0", data)}})
		require.Empty(t, r.Findings)
	}
}

func TestJudgeStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Judge(ctx, []Side{{Name: "B", Folders: []string{segments + "/B"}}}, Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// A producer snapshot from behind the barrier that knows mirrored producers.
func TestSnapshotThatKeepsProducers(t *testing.T) {
	root := t.TempDir()
	a := write(t, root, "a", "orders-0", join(shared(), onward()))
	b := write(t, root, "b", "orders-0", join(shared(), []spec{reset(1, idA)}, local(1)))
	put(t, filepath.Join(b, "orders-0"), "00000000000000000012.snapshot", string(snapshotOf(entryOf{id: 4, last: 2, txn: -1}, entryOf{id: 5, last: 10, txn: -1})))
	r := judged(t, Side{Name: "A", Folders: []string{a}}, Side{Name: "B", Folders: []string{b}})
	require.Equal(t, []string{"kept-producer likely B 2 PSM-1+PSM-2+PSM-3"}, brief(r, Possible))
}

// An index that lacks an aborted transaction, and one that has one too many.
func TestTransactionIndexes(t *testing.T) {
	root := t.TempDir()
	b := write(t, root, "b", "orders-0", join(shared(), []spec{reset(1, idA)}, local(1)))
	dir := filepath.Join(b, "orders-0")
	put(t, dir, "00000000000000000012.log", "")
	put(t, dir, "00000000000000000000.txnindex", string(indexOf([3]int64{6, 6, 7})))
	require.Empty(t, brief(judged(t, Side{Name: "B", Folders: []string{b}}), Possible))
	put(t, dir, "00000000000000000000.txnindex", string(indexOf([3]int64{4, 0, 3})))
	r := judged(t, Side{Name: "B", Folders: []string{b}})
	require.Equal(t, []string{"aborted-index certain B 6 TXN-4+SC-3", "aborted-index likely B 0 TXN-4+SC-3"}, brief(r, Possible))
}

// Whatever the bytes, the judge says something and never panics.
func FuzzJudge(f *testing.F) {
	f.Add(join(shared(), onward()), join(shared(), []spec{reset(1, idA)}, local(1)), "1\n1\n")
	f.Add(join(shared(), onward())[:200], []byte{}, "")
	f.Fuzz(func(t *testing.T, a, b []byte, beside string) {
		root := t.TempDir()
		one, two := write(t, root, "a", "orders-0", a), write(t, root, "b", "orders-0", b)
		for _, name := range []string{"00000000000000000000.txnindex", "00000000000000000003.snapshot", topicIDFile, "leader-epoch-checkpoint"} {
			put(t, filepath.Join(two, "orders-0"), name, beside)
		}
		put(t, two, watermarkFile, beside)
		put(t, two, metaFile, beside)
		third := write(t, root, "c", "orders-0", a)
		r, err := Judge(t.Context(), []Side{{Name: "A", Folders: []string{one}}, {Name: "B", Folders: []string{two, third}}}, Options{})
		require.NoError(t, err)
		var text bytes.Buffer
		require.NoError(t, r.Text(&text))
		require.NoError(t, r.JSON(&text))
	})
}
