package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fillForDumps writes a topic whose log has everything that a dump tool shows:
// several segments with their indexes and snapshots, every codec, headers, keys
// and values that are missing or no text, aborted transactions and one that is
// open.
func fillForDumps(ctx context.Context, c cluster) error {
	seeds := kgo.SeedBrokers(c.Bootstrap()...)
	cl, err := kgo.NewClient(seeds)
	if err != nil {
		return err
	}
	defer cl.Close()
	small, topic := "1048576", "dumped"
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 2, map[string]*string{"segment.bytes": &small}, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	tx, err := kgo.NewClient(seeds, kgo.TransactionalID("dumper"), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer tx.Close()
	for i, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		plain, err := kgo.NewClient(seeds, kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(20_000))
		if err != nil {
			return err
		}
		var records []*kgo.Record
		for n := range 600 {
			r := &kgo.Record{Value: []byte(strings.Repeat(fmt.Sprintf("value %d of codec %d ", n, i), 60))}
			switch n % 5 {
			case 1:
				r.Key = []byte{0xff, 0, byte(n), 0xe2, 0x82}
			case 2:
				r.Value, r.Key = nil, []byte("tombstone")
			case 3:
				r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}}
			case 4:
				r.Timestamp = time.UnixMilli(1_700_000_000_000 + int64(n))
			}
			records = append(records, r)
		}
		err = plain.ProduceSync(ctx, records...).FirstErr()
		plain.Close()
		if err == nil {
			err = errors.Join(tx.BeginTransaction(), tx.ProduceSync(ctx, kgo.StringRecord("in a transaction"), kgo.StringRecord("of two")).FirstErr())
		}
		if err == nil && i < 4 { // the last stays open
			err = tx.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0))
		}
		if err != nil {
			return fmt.Errorf("fill topic %s: %w", topic, err)
		}
	}
	return nil
}
