package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// zombies are writers of a cluster that was a primary and is about to mirror:
// they wrote there, and go on trying. One leaves a transaction open, which times
// out while the cluster mirrors (RO-1, RO-2, FB-4).
type zombies struct {
	rec     *traffic.Recorder
	cluster traffic.Cluster
	layout  layout
	prefix  string

	raw                              *traffic.Raw
	plain, idempotent, transactional *traffic.Producer
	again                            *traffic.Producer // under the same transactional id, later
	// byHand is a zombie that knows its answers by their codes.
	byHand *traffic.OldPrimary
}

// zombieTimeout is how long their transaction may stay open: until after the
// mirror has started.
const zombieTimeout = 1500 * time.Millisecond

func newZombies(ctx context.Context, rec *traffic.Recorder, cluster traffic.Cluster, l layout, prefix string) (*zombies, error) {
	z := &zombies{rec: rec, cluster: cluster, layout: l, prefix: prefix + "zombie-"}
	var err error
	if z.raw, err = traffic.NewRaw(ctx, rec, cluster, z.prefix+"raw"); err != nil {
		return z, err
	}
	if z.plain, err = z.producer("plain", history.Plain); err != nil {
		return z, err
	}
	if z.idempotent, err = z.producer("idempotent", history.Idempotent); err != nil {
		return z, err
	}
	z.transactional, err = z.producer("txn", history.Transactional)
	return z, err
}

func (z *zombies) txnID() string { return z.prefix + "txn" }

func (z *zombies) producer(name string, mode history.Mode) (*traffic.Producer, error) {
	o := traffic.ProducerOptions{Name: z.prefix + name, Mode: mode, Attempts: traffic.Patiently, Payload: []byte(z.prefix)}
	if mode == history.Transactional {
		o.TransactionalID, o.TransactionTimeout = z.txnID(), zombieTimeout
	}
	return traffic.NewProducer(z.rec, z.cluster, o)
}

// write writes in every way, and leaves transactions open. Which leader epochs
// the log holds then is recorded: all of it is cut later (AL-1).
func (z *zombies) write(ctx context.Context) error {
	parts := z.layout.Written
	if err := z.plain.Send(ctx, 2, parts...); err != nil {
		return err
	}
	if err := z.idempotent.Send(ctx, 2, parts...); err != nil {
		return err
	}
	if err := z.transactional.Transaction(ctx, true, 1, parts...); err != nil {
		return err
	}
	if err := z.transactional.Begin(history.IntentOpen); err != nil {
		return err
	}
	if err := z.transactional.Send(ctx, 2, parts...); err != nil {
		return err
	}
	var err error
	if z.byHand, err = traffic.NewOldPrimary(ctx, z.rec, z.cluster, z.prefix+"hand", z.layout.Probed[0], []byte(z.prefix)); err != nil {
		return err
	}
	for _, p := range z.layout.All {
		if err := z.raw.Epochs(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// insist goes on writing while the cluster mirrors. That all of it is refused
// is for the checks to say.
func (z *zombies) insist(ctx context.Context) error {
	part := z.layout.Probed[0]
	_ = z.plain.Send(ctx, 1, part)
	_ = z.idempotent.Send(ctx, 1, part)
	_ = z.transactional.Send(ctx, 1, part)
	_ = z.byHand.Write(ctx)
	return context.Cause(ctx)
}

// pollEvery paces questions that are asked until the answer is the one waited for.
const pollEvery = 20 * time.Millisecond

// timedOut waits until the coordinator has ended the open transaction, and asks
// at once for the transactional id again.
func (z *zombies) timedOut(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		state, err := z.raw.TransactionState(ctx, z.txnID())
		if err == nil && state != "Ongoing" {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("transaction %s on cluster %s was never timed out: it is %q", z.txnID(), z.cluster.Name, state), context.Cause(ctx), err)
		}
	}
	short, cancel := context.WithTimeoutCause(ctx, idLimit, fmt.Errorf("no answer within %s", idLimit))
	defer cancel()
	if _, _, err := z.raw.InitProducerID(short, z.txnID()); err != nil {
		z.rec.Note("transactional id %s can't be used while the cluster mirrors: %v", z.txnID(), err)
	}
	return z.byHand.TimedOut(ctx)
}

// idLimit bounds how long a transactional id may be out of use after its
// transaction has timed out.
const idLimit = 5 * time.Second

// revive writes once the cluster is writable: with the old clients, of which
// the transactional one has been fenced, and with a new one under the same
// transactional id.
func (z *zombies) revive(ctx context.Context) error {
	part := z.layout.Probed[0]
	_ = z.plain.Send(ctx, 1, part)
	_ = z.idempotent.Send(ctx, 1, part)
	_ = z.transactional.End(ctx, true)
	var err error
	if z.again, err = traffic.NewProducer(z.rec, z.cluster, traffic.ProducerOptions{
		Name: z.prefix + "txn-again", Mode: history.Transactional, TransactionalID: z.txnID(), Attempts: traffic.Patiently, Payload: []byte(z.prefix),
	}); err != nil {
		return err
	}
	if _, _, err := z.again.ID(ctx); err != nil {
		z.rec.Note("transactional id %s can't be used after the promotion: %v", z.txnID(), err)
	}
	for _, commit := range []bool{true, false} {
		if err := z.again.Transaction(ctx, commit, 1, z.layout.Written...); err != nil {
			z.rec.Note("transactional id %s can't be used after the promotion: %v", z.txnID(), err)
		}
	}
	return context.Cause(ctx)
}

func (z *zombies) close() {
	for _, p := range []*traffic.Producer{z.plain, z.idempotent, z.transactional, z.again} {
		if p != nil {
			p.Close()
		}
	}
	if z.byHand != nil {
		z.byHand.Close()
	}
	if z.raw != nil {
		z.raw.Close()
	}
}
