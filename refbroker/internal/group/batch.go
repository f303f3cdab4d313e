package group

import "watershed.example/refbroker/internal/shards"

// Producer is who writes a batch in a transaction.
type Producer = shards.Producer

// encodeBatch is a batch of records as the coordinator appends it. With a
// producer it is transactional.
func encodeBatch(timestamp int64, by Producer, records []Record) []byte {
	raw := make([]shards.Record, len(records))
	for i, r := range records {
		raw[i].Key, raw[i].Value = encodeRecord(r)
	}
	return shards.EncodeBatch(timestamp, by, raw...)
}
