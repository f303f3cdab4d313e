package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/ci/conformance/script"
)

// copyRecords consumes, processes and produces; offsets are part of the transaction.
func copyRecords(ctx context.Context, k *script.Kit) error {
	in, err := topic(ctx, k, "in", 1)
	if err != nil {
		return err
	}
	out, err := topic(ctx, k, "out", 1)
	if err != nil {
		return err
	}
	cl, err := client(k)
	if err != nil {
		return err
	}
	defer cl.Close()
	for i := range 15 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: in, Value: fmt.Appendf(nil, "v%d", i)}).FirstErr(); err != nil {
			return err
		}
	}
	for round, commit := range []bool{true, false, true, true} {
		if err := copyRound(ctx, k, in, out, 5, commit); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		at := []int64{5, 5, 10, 15}[round]
		if err := errors.Join(settled(ctx, k, out), committedAt(ctx, k, fmt.Sprintf("committed-%d", round+1), at)); err != nil {
			return err
		}
	}
	if err := settled(ctx, k, out); err != nil {
		return err
	}
	for level := range isolation {
		values, err := read(ctx, k, out, 0, level)
		if err != nil {
			return err
		}
		k.Fact("out-"+level, values)
	}
	return nil
}

func copyRound(ctx context.Context, k *script.Kit, in, out string, n int, commit bool) error {
	ctx, cancel := context.WithTimeout(ctx, script.Limit)
	defer cancel()
	s, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(k.Bootstrap, ",")...), kgo.ClientID(k.Prefix), kgo.TransactionalID(k.Name("id")), kgo.ConsumerGroup(k.Name("g")), kgo.ConsumeTopics(in),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()), kgo.DisableClientMetrics(),
	)
	if err != nil {
		return err
	}
	defer s.Close()
	// It commits what it polled, so it polls no more than it is to copy.
	fetches := s.PollRecords(ctx, n)
	got := fetches.NumRecords()
	if err := s.Begin(); err != nil {
		return err
	}
	forward := func(fetches kgo.Fetches) error {
		var err error
		fetches.EachRecord(func(r *kgo.Record) {
			err = errors.Join(err, s.ProduceSync(ctx, &kgo.Record{Topic: out, Value: append(r.Value, '\'')}).FirstErr())
		})
		return errors.Join(err, fetches.Err0())
	}
	if err := forward(fetches); err != nil {
		return err
	}
	for got < n {
		fetches = s.PollRecords(ctx, n-got)
		got += fetches.NumRecords()
		if err := forward(fetches); err != nil {
			return err
		}
	}
	ended, err := s.End(ctx, kgo.TransactionEndTry(commit))
	if err == nil && ended != commit {
		err = fmt.Errorf("committed: %v, but to be: %v", ended, commit)
	}
	return err
}

func admin(ctx context.Context, k *script.Kit) error {
	cl, err := client(k)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	name := k.Name("")
	value := func(s string) *string { return &s }
	_, err = adm.CreateTopic(ctx, 2, 3, map[string]*string{"retention.ms": value("3600000")}, name)
	k.Fact("create", errorName(err))
	if err := script.Await(ctx, "leaders", func() (bool, error) { return led(ctx, adm, name, 2) }); err != nil {
		return err
	}
	_, err = adm.CreateTopic(ctx, 2, 3, nil, name)
	k.Fact("create-again", errorName(err))
	_, err = adm.UpdatePartitions(ctx, 4, name)
	k.Fact("partitions", errorName(err))
	if err := script.Await(ctx, "more leaders", func() (bool, error) { return led(ctx, adm, name, 4) }); err != nil {
		return err
	}
	fewer, err := adm.UpdatePartitions(ctx, 3, name)
	k.Fact("fewer-partitions", errorName(errors.Join(err, fewer[name].Err)))
	altered, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: value("5000")}}, name)
	k.Fact("alter", errorName(errors.Join(err, altered[0].Err)))
	altered, err = adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: value("soon")}}, name)
	k.Fact("alter-badly", errorName(errors.Join(err, altered[0].Err)))
	if err := script.Await(ctx, "the change", func() (bool, error) {
		configs, err := adm.DescribeTopicConfigs(ctx, name)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(configs[0].Configs, func(c kadm.Config) bool { return c.Key == "retention.ms" })
		return i >= 0 && configs[0].Configs[i].MaybeValue() == "5000", configs[0].Err
	}); err != nil {
		return err
	}
	tx, err := client(k, kgo.TransactionalID(k.Name("id")))
	if err != nil {
		return err
	}
	defer tx.Close()
	for range 5 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("v")}).FirstErr(); err != nil {
			return err
		}
	}
	if err := errors.Join(tx.BeginTransaction(), tx.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("t")}).FirstErr()); err != nil {
		return err
	}
	producers, err := adm.DescribeProducers(ctx, kadm.TopicsSet{name: {0: {}}})
	if err != nil {
		return err
	}
	states := []string{}
	producers.EachProducer(func(p kadm.DescribedProducer) {
		states = append(states, fmt.Sprint("epoch ", p.ProducerEpoch, " sequence ", p.LastSequence, " coordinator epoch ", p.CoordinatorEpoch, " open at ", p.CurrentTxnStartOffset))
	})
	slices.Sort(states)
	k.Fact("producers", states)
	transactions, err := adm.DescribeTransactions(ctx, k.Name("id"))
	if err != nil {
		return err
	}
	d := transactions[k.Name("id")]
	k.Fact("transaction", []any{d.State, d.TimeoutMillis, d.ProducerEpoch, len(d.Topics[name])})
	listed, err := adm.ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil {
		return err
	}
	k.Fact("listed", listed[k.Name("id")].State)
	if err := tx.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	deleted, err := adm.DeleteRecords(ctx, kadm.Offsets{name: {0: {Topic: name, At: 3}}})
	if err != nil {
		return err
	}
	one, _ := deleted.Lookup(name, 0)
	k.Fact("deleted-records", []any{one.LowWatermark, errorName(one.Err)})
	deleted, err = adm.DeleteRecords(ctx, kadm.Offsets{name: {0: {Topic: name, At: 300}}})
	one, _ = deleted.Lookup(name, 0)
	k.Fact("deleted-too-many", errorName(errors.Join(err, one.Err)))
	epochs := kadm.OffsetForLeaderEpochRequest{}
	epochs.Add(name, 0, 0)
	ends, err := adm.OffsetForLeaderEpoch(ctx, epochs)
	if err != nil {
		return err
	}
	k.Fact("offset-for-epoch", []any{ends[name][0].LeaderEpoch, ends[name][0].EndOffset})
	if err := adm.CommitAllOffsets(ctx, k.Name("g"), kadm.Offsets{name: {0: {Topic: name, At: 4, LeaderEpoch: 0, Metadata: "m"}}}); err != nil {
		return err
	}
	groups, err := adm.DescribeGroups(ctx, k.Name("g"))
	if err != nil {
		return err
	}
	g := groups[k.Name("g")]
	k.Fact("group", []any{g.State, g.ProtocolType, g.Protocol, len(g.Members), errorName(g.Err)})
	unknown, err := adm.DescribeGroups(ctx, k.Name("nobody"))
	g = unknown[k.Name("nobody")]
	k.Fact("unknown-group", []any{g.State, errorName(errors.Join(err, g.Err))})
	list, err := adm.ListGroups(ctx)
	if err != nil {
		return err
	}
	k.Fact("listed-group", list[k.Name("g")].State)
	gone, err := adm.DeleteGroups(ctx, k.Name("g"), k.Name("nobody"))
	if err != nil && gone == nil {
		return err
	}
	k.Fact("deleted-groups", []string{errorName(gone[k.Name("g")].Err), errorName(gone[k.Name("nobody")].Err)})
	removed, err := adm.DeleteTopics(ctx, name, k.Name("nowhere"))
	if err != nil {
		return err
	}
	k.Fact("deleted-topics", []string{errorName(removed[name].Err), errorName(removed[k.Name("nowhere")].Err)})
	return script.Await(ctx, "the deletion", func() (bool, error) {
		d, err := adm.ListTopics(ctx, name)
		return errors.Is(d[name].Err, kerr.UnknownTopicOrPartition), err
	})
}

// whileKilling is how many are produced while the leader is killed.
const whileKilling = 3000

func leaderKill(ctx context.Context, k *script.Kit) error {
	cl, err := client(k, kgo.ProducerLinger(0), kgo.MaxBufferedRecords(200))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	plain, transactional := k.Name("plain"), k.Name("transactional")
	for _, name := range []string{plain, transactional} {
		if err := createLedBy2(ctx, cl, adm, name); err != nil {
			return err
		}
	}
	tx, err := client(k, kgo.TransactionalID(k.Name("id")), kgo.TransactionTimeout(10*time.Minute))
	if err != nil {
		return err
	}
	defer tx.Close()
	send := func(value string) error {
		for i := range 10 {
			if err := tx.ProduceSync(ctx, &kgo.Record{Topic: transactional, Value: fmt.Appendf(nil, "%s%d", value, i)}).FirstErr(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(tx.BeginTransaction(), send("before")); err != nil {
		return err
	}
	killed := make(chan struct{})
	var failed error
	for i := range whileKilling {
		cl.Produce(ctx, &kgo.Record{Topic: plain, Value: fmt.Appendf(nil, "v%d", i)}, func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
		if i == whileKilling/3 {
			go func() {
				defer close(killed)
				k.Ask("kill-2")
			}()
		}
		if i > whileKilling/3 {
			select {
			case <-killed:
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	<-killed
	if err := errors.Join(cl.Flush(ctx), failed); err != nil {
		return err
	}
	if err := errors.Join(send("after"), tx.EndTransaction(ctx, kgo.TryCommit)); err != nil {
		return err
	}
	read, err := records(ctx, k, plain, 0, "read_committed")
	if err != nil {
		return err
	}
	outOfPlace := 0
	for i, r := range read {
		if string(r.Value) != fmt.Sprintf("v%d", i) {
			outOfPlace++
		}
	}
	k.Fact("plain", map[string]int{"sent": whileKilling, "read": len(read), "out of place": outOfPlace})
	if err := settled(ctx, k, transactional); err != nil {
		return err
	}
	of, err := records(ctx, k, transactional, 0, "read_committed")
	var values []string
	for _, r := range of {
		values = append(values, string(r.Value))
	}
	k.Fact("transactional", values)
	return err
}

func barrier(ctx context.Context, k *script.Kit) error {
	for _, level := range []string{"read_committed", "read_uncommitted"} {
		if err := readOver(ctx, k, level); err != nil {
			return fmt.Errorf("%s: %w", level, err)
		}
	}
	return nil
}

func readOver(ctx context.Context, k *script.Kit, level string) error {
	name := k.Name(level)
	before, err := read(ctx, k, name, 0, level)
	if err != nil {
		return err
	}
	k.Fact(level, before)
	end, err := endOffset(ctx, k, name, 0, level)
	if err != nil {
		return err
	}
	cl, err := client(k, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().At(end - 1)}}),
		kgo.FetchIsolationLevel(isolation[level]), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	k.Ask(level + " count")
	quiet, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	fetches := cl.PollFetches(quiet) // from the barrier on: there is nothing
	cancel()
	if n := fetches.NumRecords(); n > 0 {
		return fmt.Errorf("%d records on the barrier", n)
	}
	k.Fact(level+"-fetches", k.Ask(level+" fetches"))
	k.Ask(level + " produce")
	ctx, cancel = context.WithTimeout(ctx, script.Limit)
	defer cancel()
	for {
		fetches = cl.PollFetches(ctx)
		if all := fetches.Records(); len(all) > 0 {
			k.Fact(level+"-goes-on", string(all[0].Value))
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
