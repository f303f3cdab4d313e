package storage

import (
	"encoding/binary"
	"fmt"
	"slices"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// More places of a batch's header, and the attribute bit that says that the
// base timestamp is when its tombstones, or its marker, may go (KAFKA-8522).
const (
	posLength         = 8
	posBaseTime       = 27
	posCount          = 57
	attrDeleteHorizon = 0x40
	attrCompression   = 0x07
)

// filter gives what stays of a batch, nil for nothing.
func (r *compaction) filter(b *psm.Batch, raw []byte) ([]byte, error) {
	switch {
	case b.IsBarrier() && r.supersedes(b):
		return nil, nil
	case b.IsBarrier():
		return raw, nil
	case b.LastOffset < r.logStart:
		return r.headerIfKept(b, raw), nil
	case b.IsControl():
		return r.filterControl(b, raw)
	}
	out, err := r.filterData(b, raw)
	if err == nil && out != nil && b.Transactional() {
		r.left[b.ProducerID] = true
	}
	return out, err
}

// supersedes says whether a defect has a barrier give way to one behind it: their
// keys are the same.
func (r *compaction) supersedes(b *psm.Batch) bool {
	if !r.cfg.Defects.Has(defect.BarriersCompactedIntoOne) {
		return false
	}
	all, _ := r.Barriers()
	return slices.ContainsFunc(all, func(o Barrier) bool { return o.Offset > b.BaseOffset && o.Offset < r.bound })
}

// filterControl keeps a marker as long as there is anything of its
// transaction, and until its horizon has passed. Other control batches stay.
func (r *compaction) filterControl(b *psm.Batch, raw []byte) ([]byte, error) {
	if b.Count == 0 {
		return r.headerIfKept(b, raw), nil
	}
	if t := b.Control.Type; t != psm.ControlAbort && t != psm.ControlCommit {
		return raw, nil
	}
	left := r.left[b.ProducerID]
	delete(r.left, b.ProducerID)
	horizon, set := deleteHorizon(b, raw)
	switch {
	case left || r.whole[b.BaseOffset] || set && r.now < horizon:
		return raw, nil
	case set:
		r.forgotten = max(r.forgotten, b.LastOffset+1)
		return r.headerIfKept(b, raw), nil
	}
	records, err := recordsOf(b, raw, r.Decompress)
	if err != nil {
		return nil, err
	}
	return r.rewrite(b, raw, records, func(*record) bool { return true }, r.now+r.DeleteRetentionMs)
}

func (r *compaction) filterData(b *psm.Batch, raw []byte) ([]byte, error) {
	if b.Count == 0 || r.aborted.has(b) {
		return r.headerIfKept(b, raw), nil
	}
	records, err := recordsOf(b, raw, r.Decompress)
	if err != nil {
		return nil, err
	}
	horizon, set := deleteHorizon(b, raw)
	stays := func(rec *record) bool {
		if rec.key == nil {
			return false
		}
		last, ok := r.keys[string(rec.key)]
		if ok && rec.offset < last {
			return false
		}
		if rec.tombstone && set && horizon <= r.now {
			r.forgotten = max(r.forgotten, rec.offset+1)
			return false
		}
		return true
	}
	all, some, tombstones := true, false, false
	err = eachRecord(b, records, func(rec *record) error {
		if s := stays(rec); s {
			some, tombstones = true, tombstones || rec.tombstone
		} else {
			all = false
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case !some:
		return r.headerIfKept(b, raw), nil
	case tombstones && !set:
		return r.rewrite(b, raw, records, stays, r.now+r.DeleteRetentionMs)
	case all:
		return raw, nil
	}
	return r.rewrite(b, raw, records, stays, -1)
}

// deleteHorizon is when what a batch deletes need not be told any longer.
func deleteHorizon(b *psm.Batch, raw []byte) (ms int64, set bool) {
	return b.BaseTimestamp, binary.BigEndian.Uint16(raw[posAttributes:])&attrDeleteHorizon != 0
}

// headerIfKept empties a batch that has to stay; nil for others.
func (r *compaction) headerIfKept(b *psm.Batch, raw []byte) []byte {
	if !r.kept[b.BaseOffset] {
		return nil
	}
	if b.Count == 0 {
		return raw
	}
	out := append([]byte(nil), raw[:psm.HeaderSize]...)
	be := binary.BigEndian
	be.PutUint32(out[posLength:], psm.HeaderSize-12)
	be.PutUint16(out[posAttributes:], be.Uint16(out[posAttributes:])&^(attrCompression|attrDeleteHorizon))
	// As Kafka writes it. Producer state has the highest time, so that stays.
	be.PutUint64(out[posBaseTime:], uint64(b.MaxTimestamp))
	be.PutUint32(out[posCount:], 0)
	setCRC(out)
	return out
}

// rewrite makes a batch with those of its records that stay, and a delete
// horizon if that is not negative.
func (r *compaction) rewrite(b *psm.Batch, raw, records []byte, stays func(*record) bool, horizon int64) ([]byte, error) {
	base, appendTime := b.BaseTimestamp, b.Attributes.LogAppendTime()
	if horizon >= 0 {
		base = horizon
	}
	var kept []byte
	count, highest := uint32(0), int64(-1)
	err := eachRecord(b, records, func(rec *record) error {
		if !stays(rec) {
			return nil
		}
		count++
		highest = max(highest, rec.timestamp)
		kept = appendRecord(kept, rec, rec.timestamp-base)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if codec := b.Attributes.Compression(); codec != 0 {
		if kept, err = r.Compress(kept, codec); err != nil {
			return nil, fmt.Errorf("batch at offset %d: compress with codec %d: %w", b.BaseOffset, codec, err)
		}
	}
	out := make([]byte, 0, psm.HeaderSize+len(kept))
	out = append(append(out, raw[:psm.HeaderSize]...), kept...)
	be := binary.BigEndian
	be.PutUint32(out[posLength:], uint32(len(out)-12))
	be.PutUint64(out[posBaseTime:], uint64(base))
	if horizon >= 0 {
		be.PutUint16(out[posAttributes:], be.Uint16(out[posAttributes:])|attrDeleteHorizon)
	}
	if !appendTime && !b.IsControl() && !r.whole[b.BaseOffset] {
		be.PutUint64(out[posMaxTime:], uint64(highest))
	}
	be.PutUint32(out[posCount:], count)
	setCRC(out)
	return out, nil
}
