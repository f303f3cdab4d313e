package postmortem

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// spec is a hand-made batch.
type spec struct {
	epoch      int32 // of the leader
	pid        int64
	pepoch     int16
	seq        int32
	attributes int16
	keys       []string // one record each; - for no key
	value      string
	control    [2][]byte // key and value of a control record
	time       int64
	skip       int64 // offsets left out before it
	packer     string
}

const (
	transactional = 0x10
	control       = 0x20
	idA           = "AAAAAAAAAAAAAAAAAAAAAA"
	idB           = "BBBBBBBBBBBBBBBBBBBBBB"
)

func data(leader int32, pid int64, pepoch int16, seq int32, keys ...string) spec {
	return spec{epoch: leader, pid: pid, pepoch: pepoch, seq: seq, keys: keys}
}

func inTxn(s spec) spec { s.attributes |= transactional; return s }

func plain(leader int32, keys ...string) spec { return data(leader, -1, -1, -1, keys...) }

func marker(leader int32, pid int64, pepoch int16, kind byte, coordinator byte) spec {
	return spec{
		epoch: leader, pid: pid, pepoch: pepoch, seq: -1, attributes: control | transactional,
		control: [2][]byte{{0, 0, 0, kind}, {0, 0, 0, 0, 0, coordinator}},
	}
}

func abort(leader int32, pid int64, pepoch int16) spec  { return marker(leader, pid, pepoch, 0, 0) }
func commit(leader int32, pid int64, pepoch int16) spec { return marker(leader, pid, pepoch, 1, 0) }

func reset(leader int32, source string) spec {
	value := append([]byte{0, 0, byte(len(source) + 1)}, source...)
	return spec{epoch: leader, pid: -1, pepoch: -1, seq: -1, attributes: control, control: [2][]byte{{0, 0, 0, 7}, append(value, 0)}}
}

func (s spec) encode(base int64) []byte {
	var records []byte
	add := func(delta int, key, value []byte) {
		r := []byte{0, 0}
		r = binary.AppendVarint(r, int64(delta))
		for _, b := range [][]byte{key, value} {
			if b == nil {
				r = binary.AppendVarint(r, -1)
				continue
			}
			r = binary.AppendVarint(r, int64(len(b)))
			r = append(r, b...)
		}
		r = binary.AppendVarint(r, 0)
		records = append(binary.AppendVarint(records, int64(len(r))), r...)
	}
	n := max(len(s.keys), 1)
	if s.attributes&control != 0 {
		add(0, s.control[0], s.control[1])
	}
	for i, k := range s.keys {
		key := []byte(k)
		if k == "-" {
			key = nil
		}
		add(i, key, fmt.Appendf(nil, "%s%d", s.value, i))
	}
	codec, records := packed(s.packer, records)
	b := make([]byte, 61, 61+len(records))
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[8:], uint32(49+len(records)))
	binary.BigEndian.PutUint32(b[12:], uint32(s.epoch))
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], uint16(s.attributes|codec))
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint64(b[27:], uint64(s.time))
	binary.BigEndian.PutUint64(b[35:], uint64(s.time))
	binary.BigEndian.PutUint64(b[43:], uint64(s.pid))
	binary.BigEndian.PutUint16(b[51:], uint16(s.pepoch))
	binary.BigEndian.PutUint32(b[53:], uint32(s.seq))
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	b = append(b, records...)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// log encodes batches one after the other, from offset 0 on, a second apart.
func log(specs ...spec) []byte {
	var all []byte
	base := int64(0)
	for i, s := range specs {
		if s.time == 0 {
			s.time = int64(1000 * (i + 1))
		}
		base += s.skip
		all = append(all, s.encode(base)...)
		base += int64(max(len(s.keys), 1))
	}
	return all
}

// write puts a log of one segment into root/broker/name.
func write(t testing.TB, root, broker, name string, data []byte) string {
	t.Helper()
	dir := filepath.Join(root, broker, name)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "00000000000000000000.log"), data, 0o644))
	return filepath.Join(root, broker)
}

// ofTwo judges a partition of which each side has one replica.
func ofTwo(t testing.TB, a, b []byte) *Report {
	t.Helper()
	root := t.TempDir()
	r, err := Judge(t.Context(), []Side{
		{Name: "A", Folders: []string{write(t, root, "a", "orders-0", a)}},
		{Name: "B", Folders: []string{write(t, root, "b", "orders-0", b)}},
	}, Options{})
	require.NoError(t, err)
	return r
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

type entryOf struct{ id, last, txn int64 }

func snapshotOf(entries ...entryOf) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(entries)))
	for _, e := range entries {
		b = binary.BigEndian.AppendUint64(b, uint64(e.id))
		b = append(b, make([]byte, 2+4)...)
		b = binary.BigEndian.AppendUint64(b, uint64(e.last))
		b = append(b, make([]byte, 4+8+4)...)
		b = binary.BigEndian.AppendUint64(b, uint64(e.txn))
	}
	head := binary.BigEndian.AppendUint32([]byte{0, 1}, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return append(head, b...)
}

// indexOf is a transaction index of entries {producer, first, last}.
func indexOf(entries ...[3]int64) []byte {
	var b []byte
	for _, e := range entries {
		b = append(b, 0, 0)
		for _, n := range append(e[:], e[2]+1) {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
	}
	return b
}
