package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"watershed.example/psm"
)

// Places of the fields of a batch that the broker itself writes (KIP-98).
const (
	posCRC        = 17
	posAttributes = 21
	posMaxTime    = 35
	posProducerID = 43
)

// attrLogAppendTime is the attribute bit of a timestamp that a broker gave,
// attrControl that of a control batch.
const (
	attrLogAppendTime = 0x08
	attrControl       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn marks bytes that hold no whole, valid batch.
var errTorn = errors.New("no whole valid batch")

// nextBatch takes the first whole batch off raw, with its control record, and
// checks its CRC.
func nextBatch(raw []byte) (b psm.Batch, bytes, rest []byte, err error) {
	if err := psm.CheckCRC(raw); err != nil {
		return b, nil, nil, err
	}
	if b, err = psm.DecodeBatch(raw); err != nil {
		return b, nil, nil, err
	}
	return b, raw[:b.Size:b.Size], raw[b.Size:], nil
}

// setCRC makes the CRC of the whole batch b right.
func setCRC(b []byte) {
	binary.BigEndian.PutUint32(b[posCRC:], crc32.Checksum(b[posAttributes:], castagnoli))
}

// setAppendTime stamps the batch b with the broker's time in ms, as a topic
// with message.timestamp.type=LogAppendTime wants it.
func setAppendTime(b []byte, ms int64) {
	attrs := binary.BigEndian.Uint16(b[posAttributes:])
	binary.BigEndian.PutUint16(b[posAttributes:], attrs|attrLogAppendTime)
	binary.BigEndian.PutUint64(b[posMaxTime:], uint64(ms))
	setCRC(b)
}

// SetProducerID writes another producer id into every batch of raw and makes
// the CRCs right: what KIP-1279's first design did to mirrored batches, kept
// for the defect of that name.
func SetProducerID(raw []byte, change func(int64) int64) error {
	for len(raw) > 0 {
		b, err := psm.DecodeHeader(raw)
		if err != nil {
			return err
		}
		if b.Size > len(raw) {
			return fmt.Errorf("batch at offset %d: %w", b.BaseOffset, errTorn)
		}
		binary.BigEndian.PutUint64(raw[posProducerID:], uint64(change(b.ProducerID)))
		setCRC(raw[:b.Size])
		raw = raw[b.Size:]
	}
	return nil
}

// ShowBarriers makes data batches of the MIRROR_PID_RESET batches in raw, for
// the defect of a broker that delivers them.
func ShowBarriers(raw []byte) error {
	for len(raw) > 0 {
		b, err := psm.DecodeHeader(raw)
		if err != nil {
			return err
		}
		if b.Size > len(raw) {
			return nil // the rest was left off
		}
		if b.IsControl() {
			if b, err = psm.DecodeBatch(raw); err != nil {
				return err
			}
		}
		if b.IsBarrier() {
			attrs := binary.BigEndian.Uint16(raw[posAttributes:])
			binary.BigEndian.PutUint16(raw[posAttributes:], attrs&^attrControl)
			setCRC(raw[:b.Size])
		}
		raw = raw[b.Size:]
	}
	return nil
}

// PadBarrier lengthens the value of a MIRROR_PID_RESET batch by bytes that mean
// nothing, for the defect of a broker that writes such ones.
func PadBarrier(raw []byte) []byte {
	const padding = 2
	// The record is the batch's only one; its lengths take one byte each.
	b, err := psm.DecodeBatch(raw)
	if err != nil || !b.IsBarrier() || len(raw) > 120 {
		return raw
	}
	headers := raw[len(raw)-1]
	out := append(slices.Clone(raw[:len(raw)-1]), 0, 0, headers)
	binary.BigEndian.PutUint32(out[8:], binary.BigEndian.Uint32(raw[8:])+padding)
	out[psm.HeaderSize] += 2 * padding // zigzag
	out[psm.HeaderSize+1+3+1+4] += 2 * padding
	setCRC(out)
	return out
}
