package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"watershed.example/ci/conformance/script"
)

// copyRecords consumes, processes and produces; offsets are part of the transaction.
func copyRecords(ctx context.Context, k *script.Kit) error {
	in, err := topic(ctx, k, "in", sarama.TopicDetail{NumPartitions: 1})
	if err != nil {
		return err
	}
	out, err := topic(ctx, k, "out", sarama.TopicDetail{NumPartitions: 1})
	if err != nil {
		return err
	}
	source, err := producer(k)
	if err != nil {
		return err
	}
	defer closing(source)
	for i := range 15 {
		if _, err := send(source, in, 0, fmt.Sprintf("v%d", i)); err != nil {
			return err
		}
	}
	records, err := messages(ctx, k, in, 0, "read_committed", 15)
	if err != nil {
		return err
	}
	p, err := producer(k, transactional(k, "id"))
	if err != nil {
		return err
	}
	defer closing(p)
	next := 0
	for round, commit := range []bool{true, false, true, true} {
		if err := p.BeginTxn(); err != nil {
			return err
		}
		for _, m := range records[next : next+5] {
			if _, err := send(p, out, 0, string(m.Value)+"'"); err != nil {
				return err
			}
			if err := p.AddMessageToTxn(m, k.Name("g"), nil); err != nil {
				return fmt.Errorf("add offset %d to the transaction: %w", m.Offset, err)
			}
		}
		finish := p.AbortTxn
		if commit {
			finish = p.CommitTxn
			next += 5
		}
		if err := finish(); err != nil {
			return fmt.Errorf("end round %d: %w", round+1, err)
		}
		if err := errors.Join(settled(ctx, k, out), committedAt(ctx, k, in, fmt.Sprintf("committed-%d", round+1), int64(next))); err != nil {
			return err
		}
	}
	for level, want := range map[string]int{"read_committed": 15, "read_uncommitted": 20} {
		got, err := read(ctx, k, out, level, want)
		if err != nil {
			return err
		}
		k.Fact("out-"+level, got)
	}
	return nil
}

func admin(ctx context.Context, k *script.Kit) error {
	value := "3600000"
	name, err := topic(ctx, k, "", sarama.TopicDetail{NumPartitions: 2, ConfigEntries: map[string]*string{"retention.ms": &value}})
	if err != nil {
		return err
	}
	adm, err := sarama.NewClusterAdmin(brokers(k), config(k))
	if err != nil {
		return err
	}
	defer closing(adm)
	k.Fact("create-again", errorName(adm.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}, false)))
	k.Fact("partitions", errorName(adm.CreatePartitions(name, 4, nil, false)))
	if err := script.Await(ctx, "more leaders", func() (bool, error) { return led(adm, name, 4) }); err != nil {
		return err
	}
	k.Fact("fewer-partitions", errorName(adm.CreatePartitions(name, 3, nil, false)))
	alter := func(value string) error {
		return adm.IncrementalAlterConfig(sarama.TopicResource, name, map[string]sarama.IncrementalAlterConfigsEntry{
			"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
		}, false)
	}
	k.Fact("alter", errorName(alter("5000")))
	k.Fact("alter-badly", errorName(alter("soon")))
	if err := script.Await(ctx, "the change", func() (bool, error) {
		entries, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: name, ConfigNames: []string{"retention.ms"}})
		if err != nil || len(entries) != 1 {
			return false, err
		}
		return entries[0].Value == "5000" && !entries[0].Default && entries[0].Source == sarama.SourceTopic, nil
	}); err != nil {
		return err
	}
	p, err := producer(k)
	if err != nil {
		return err
	}
	defer closing(p)
	if _, err := send(p, name, 0, "a", "b", "c", "d", "e"); err != nil {
		return err
	}
	k.Fact("deleted-records", errorName(adm.DeleteRecords(name, map[int32]int64{0: 3})))
	got, err := read(ctx, k, name, "read_committed", 2)
	if err != nil {
		return err
	}
	k.Fact("read", got)
	details, err := adm.ListTopics()
	if err != nil {
		return err
	}
	k.Fact("listed", []any{details[name].NumPartitions, details[name].ReplicationFactor, *details[name].ConfigEntries["retention.ms"]})
	nodes, _, err := adm.DescribeCluster()
	if err != nil {
		return err
	}
	k.Fact("cluster", len(nodes))
	m, err := join(ctx, k, name)
	if err != nil {
		return err
	}
	defer m.close()
	if err := script.Await(ctx, "the member", func() (bool, error) { ok, err := m.has(4); return ok && len(m.values()) == 2, err }); err != nil {
		return err
	}
	describe := func() (*sarama.GroupDescription, error) {
		all, err := adm.DescribeConsumerGroups([]string{k.Name("g")})
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	d, err := describe()
	if err != nil {
		return err
	}
	k.Fact("group", []any{d.State, d.ProtocolType, d.Protocol, len(d.Members), errorName(kerror(d.Err))})
	k.Fact("delete-with-members", errorName(adm.DeleteConsumerGroup(k.Name("g"))))
	m.close()
	if err := script.Await(ctx, "the group to be empty", func() (bool, error) {
		d, err := describe()
		return err == nil && d.State == "Empty", err
	}); err != nil {
		return err
	}
	groups, err := adm.ListConsumerGroups()
	if err != nil {
		return err
	}
	k.Fact("group-type", groups[k.Name("g")])
	k.Fact("delete-offset", errorName(adm.DeleteConsumerGroupOffset(k.Name("g"), name, 0)))
	if err := committed(k, name, "committed", 4); err != nil {
		return err
	}
	k.Fact("delete-group", errorName(adm.DeleteConsumerGroup(k.Name("g"))))
	k.Fact("delete-group-again", errorName(adm.DeleteConsumerGroup(k.Name("g"))))
	k.Fact("delete-topic", errorName(adm.DeleteTopic(name)))
	return script.Await(ctx, "the deletion", func() (bool, error) {
		all, err := adm.DescribeTopics([]string{name})
		return err == nil && errors.Is(all[0].Err, sarama.ErrUnknownTopicOrPartition), err
	})
}

// whileKilling is how many are produced while the leader is killed.
const whileKilling = 1500

func leaderKill(ctx context.Context, k *script.Kit) error {
	two := "2"
	detail := sarama.TopicDetail{
		NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: map[int32][]int32{0: {2, 3, 1}},
		ConfigEntries: map[string]*string{"min.insync.replicas": &two},
	}
	plain, err := topic(ctx, k, "plain", detail)
	if err != nil {
		return err
	}
	inTransactions, err := topic(ctx, k, "transactional", detail)
	if err != nil {
		return err
	}
	t, err := producer(k, transactional(k, "id"), func(c *sarama.Config) { c.Producer.Transaction.Timeout = 10 * time.Minute })
	if err != nil {
		return err
	}
	defer closing(t)
	if err := t.BeginTxn(); err != nil {
		return err
	}
	if _, err := send(t, inTransactions, 0, numbered("before", 10)...); err != nil {
		return err
	}
	p, err := sarama.NewAsyncProducer(brokers(k), config(k))
	if err != nil {
		return err
	}
	// What comes back is read while others go out, or the producer would stand.
	outcome := make(chan error, 1)
	go func() {
		var failed error
		for range whileKilling {
			select {
			case <-p.Successes():
			case e := <-p.Errors():
				failed = errors.Join(failed, e)
			}
		}
		outcome <- failed
	}()
	killed := make(chan struct{})
	for i, v := range numbered("v", whileKilling) {
		p.Input() <- &sarama.ProducerMessage{Topic: plain, Value: sarama.StringEncoder(v)}
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
	select {
	case err = <-outcome:
	case <-time.After(script.Limit):
		err = fmt.Errorf("not all records were answered")
	}
	if err = errors.Join(err, p.Close()); err != nil {
		return err
	}
	if _, err := send(t, inTransactions, 0, numbered("after", 10)...); err != nil {
		return err
	}
	if err := t.CommitTxn(); err != nil {
		return err
	}
	read, err := messages(ctx, k, plain, 0, "read_committed", whileKilling)
	if err != nil {
		return err
	}
	outOfPlace := 0
	for i, m := range read {
		if string(m.Value) != fmt.Sprintf("v%d", i) {
			outOfPlace++
		}
	}
	k.Fact("plain", map[string]int{"sent": whileKilling, "read": len(read), "out of place": outOfPlace})
	of, err := messages(ctx, k, inTransactions, 0, "read_committed", 20)
	var values []string
	for _, m := range of {
		values = append(values, string(m.Value))
	}
	k.Fact("transactional", strings.Join(values, " "))
	return err
}

func numbered(value string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", value, i))
	}
	return all
}

func barrier(ctx context.Context, k *script.Kit) error {
	for level, want := range map[string]int{"read_committed": 4, "read_uncommitted": 5} {
		if err := readOver(ctx, k, level, want); err != nil {
			return fmt.Errorf("%s: %w", level, err)
		}
	}
	return nil
}

func readOver(ctx context.Context, k *script.Kit, level string, want int) error {
	name := k.Name(level)
	before, err := read(ctx, k, name, level, want)
	k.Fact(level, before)
	if err != nil {
		return err
	}
	at, err := end(k, name, 0, level)
	if err != nil {
		return err
	}
	c, err := sarama.NewConsumer(brokers(k), config(k, func(c *sarama.Config) {
		c.Consumer.IsolationLevel, c.Consumer.MaxWaitTime = isolation[level], 200*time.Millisecond
	}))
	if err != nil {
		return err
	}
	defer closing(c)
	p, err := c.ConsumePartition(name, 0, at-1) // on the barrier
	if err != nil {
		return err
	}
	defer closing(p)
	k.Ask(level + " count")
	select {
	case m := <-p.Messages():
		return fmt.Errorf("%q on the barrier", m.Value)
	case <-time.After(1500 * time.Millisecond):
	}
	k.Fact(level+"-fetches", k.Ask(level+" fetches"))
	k.Ask(level + " produce")
	select {
	case m := <-p.Messages():
		k.Fact(level+"-goes-on", string(m.Value))
	case <-time.After(script.Limit):
		return fmt.Errorf("nothing came after the barrier")
	}
	return nil
}
