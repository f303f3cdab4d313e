package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// warmUp has both coordinators make their topics and load: clients bound how
// long they wait for the first transaction, which on a busy machine takes long.
func warmUp(ctx context.Context, c cluster) error {
	seeds, topic := kgo.SeedBrokers(c.Bootstrap()...), "warm-up"
	cl, err := kgo.NewClient(seeds)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, 1, nodes, nil, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	// Each coordinator has four partitions: this many ids and groups are in all.
	for i := range 16 {
		tx, err := kgo.NewClient(seeds, kgo.TransactionalID(fmt.Sprint("warm-up-", i)), kgo.DefaultProduceTopic(topic))
		if err != nil {
			return err
		}
		err = errors.Join(tx.BeginTransaction(), tx.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(), tx.EndTransaction(ctx, kgo.TryCommit))
		tx.Close()
		if err == nil {
			err = adm.CommitAllOffsets(ctx, fmt.Sprint("warm-up-", i), kadm.Offsets{topic: {0: {Topic: topic, At: 1, LeaderEpoch: -1}}})
		}
		if err != nil {
			return fmt.Errorf("transaction and group %d: %w", i, err)
		}
	}
	return nil
}
