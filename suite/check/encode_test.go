package check

import (
	"encoding/binary"
	"hash/crc32"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// spec is a hand-made batch.
type spec struct {
	base       int64
	epoch      int32 // of the leader
	pid        int64
	pepoch     int16
	seq        int32
	attributes int16
	tags       []history.Tag // one for each data record
	key, value []byte        // of a control record
	payload    string
	time       int64
	hidden     bool // from read_committed readers
}

const (
	transactional = 0x10
	control       = 0x20
)

func (s spec) count() int64 { return int64(max(len(s.tags), 1)) }

func (s spec) encode() []byte {
	var records []byte
	add := func(delta int64, key, value []byte, header string) {
		r := []byte{0, 0}
		r = binary.AppendVarint(r, delta)
		for _, b := range [][]byte{key, value} {
			if b == nil {
				r = binary.AppendVarint(r, -1)
				continue
			}
			r = binary.AppendVarint(r, int64(len(b)))
			r = append(r, b...)
		}
		if header == "" {
			r = binary.AppendVarint(r, 0)
		} else {
			r = binary.AppendVarint(r, 1)
			r = binary.AppendVarint(r, int64(len(history.HeaderKey)))
			r = append(r, history.HeaderKey...)
			r = binary.AppendVarint(r, int64(len(header)))
			r = append(r, header...)
		}
		records = binary.AppendVarint(records, int64(len(r)))
		records = append(records, r...)
	}
	if s.attributes&control != 0 {
		add(0, s.key, s.value, "")
	}
	for i, t := range s.tags {
		add(int64(i), nil, t.Value([]byte(s.payload)), t.String())
	}
	b := make([]byte, 61, 61+len(records))
	binary.BigEndian.PutUint64(b, uint64(s.base))
	binary.BigEndian.PutUint32(b[8:], uint32(49+len(records)))
	binary.BigEndian.PutUint32(b[12:], uint32(s.epoch))
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], uint16(s.attributes))
	binary.BigEndian.PutUint32(b[23:], uint32(s.count()-1))
	binary.BigEndian.PutUint64(b[27:], uint64(s.time))
	binary.BigEndian.PutUint64(b[35:], uint64(s.time))
	binary.BigEndian.PutUint64(b[43:], uint64(s.pid))
	binary.BigEndian.PutUint16(b[51:], uint16(s.pepoch))
	binary.BigEndian.PutUint32(b[53:], uint32(s.seq))
	binary.BigEndian.PutUint32(b[57:], uint32(s.count()))
	b = append(b, records...)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func marker(base int64, leader int32, pid int64, epoch int16, kind wirelog.ControlType) spec {
	return spec{
		base: base, epoch: leader, pid: pid, pepoch: epoch, seq: -1, attributes: control | transactional, time: 5000 + base,
		key: []byte{0, 0, 0, byte(kind)}, value: []byte{0, 0, 0, 0, 0, 0},
	}
}

func barrier(base int64, leader int32, source string) spec {
	value := append([]byte{0, 0, byte(len(source) + 1)}, source...)
	return spec{
		base: base, epoch: leader, pid: -1, pepoch: -1, seq: -1, attributes: control, time: 7000 + base,
		key: []byte{0, 0, 0, 7}, value: append(value, 0),
	}
}
