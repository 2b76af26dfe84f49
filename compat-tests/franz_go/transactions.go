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
)

const (
	each                  = 20
	transactionPartitions = 2
	// A reader that has nothing more to be given is asked so long.
	nothingMore = 500 * time.Millisecond
	notThere    = int64(-1)
)

// values are what one transaction writes; each has its partition (see partitionOf).
func values(label string) []string {
	found := make([]string, each)
	for n := range found {
		found[n] = fmt.Sprintf("%s %d", label, n)
	}
	return found
}

func partitionOf(value string) int32 { return int32(value[len(value)-1]-'0') % transactionPartitions }

func write(client *kgo.Client, topic string, values []string) error {
	records := make([]*kgo.Record, len(values))
	for n, value := range values {
		records[n] = &kgo.Record{Topic: topic, Partition: partitionOf(value), Value: []byte(value)}
	}
	return send(client, records)
}

func (s *server) transactional(id string, options ...kgo.Opt) (*kgo.Client, error) {
	return s.client(append(options, kgo.TransactionalID(id))...)
}

// inTransaction writes, and ends as it is told.
func inTransaction(client *kgo.Client, topic string, values []string, end kgo.TransactionEndTry) error {
	return inOrder(
		client.BeginTransaction,
		func() error { return write(client, topic, values) },
		func() error { return ended(client, end) },
	)
}

func ended(client *kgo.Client, end kgo.TransactionEndTry) error {
	ctx, cancel := limited()
	defer cancel()
	return client.EndTransaction(ctx, end)
}

// transactions are four, of which each second one is aborted, and one that is open while others read.
func transactions(s *server) error {
	topic, err := s.topic("transactions", transactionPartitions, nil)
	if err != nil {
		return err
	}
	client, err := s.transactional(fresh("id"))
	if err != nil {
		return err
	}
	defer client.Close()
	var committed, all []string
	for n := range 4 {
		some := values(fmt.Sprintf("transaction %d", n))
		all = append(all, some...)
		end := kgo.TryAbort
		if n%2 == 0 {
			end = kgo.TryCommit
			committed = append(committed, some...)
		}
		if err := inTransaction(client, topic, some, end); err != nil {
			return err
		}
	}
	open := values("open")
	return inOrder(
		client.BeginTransaction,
		func() error { return write(client, topic, open) },
		func() error { return s.checkEpoch(topic, 4) },
		func() error { return s.checkRead(topic, kgo.ReadCommitted(), committed) },
		func() error { return s.checkRead(topic, kgo.ReadUncommitted(), append(all, open...)) },
		func() error { return ended(client, kgo.TryCommit) },
		// A transaction without a record ends as well.
		client.BeginTransaction,
		func() error { return ended(client, kgo.TryCommit) },
		func() error { return s.checkRead(topic, kgo.ReadCommitted(), append(committed, open...)) },
		func() error { return s.checkRead(topic, kgo.ReadUncommitted(), append(all, open...)) },
	)
}

// checkEpoch: with transaction.version 2 each end raises the epoch (EndTxn 5).
func (s *server) checkEpoch(topic string, wanted int16) error {
	return withAdmin(s, func(ctx context.Context, admin *kadm.Client) error {
		described, err := admin.DescribeProducers(ctx, kadm.TopicsSet{topic: {0: {}}})
		if err != nil {
			return err
		}
		found := described.SortedProducers()
		if len(found) != 1 {
			return fmt.Errorf("%d producers, not 1", len(found))
		}
		return equal(found[0].ProducerEpoch, wanted, "epoch of the open transaction")
	})
}

// transactionsFencing: a second producer of an id aborts what the first has open, and ends it for good.
func transactionsFencing(s *server) error {
	topic, err := s.topic("fencing", transactionPartitions, nil)
	if err != nil {
		return err
	}
	id := fresh("id")
	first, err := s.transactional(id)
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := s.transactional(id)
	if err != nil {
		return err
	}
	defer second.Close()
	committed := values("of the second")
	return inOrder(
		first.BeginTransaction,
		func() error { return write(first, topic, values("of the first")) },
		second.BeginTransaction,
		func() error { return write(second, topic, committed) },
		func() error { return fenced(ended(first, kgo.TryCommit)) },
		func() error { return ended(second, kgo.TryCommit) },
		func() error { return s.checkRead(topic, kgo.ReadCommitted(), committed) },
	)
}

// transactionsTimeout: what is open for too long is aborted, and its commit refused; the next producer goes on.
func transactionsTimeout(s *server) error {
	topic, err := s.topic("timeout", transactionPartitions, nil)
	if err != nil {
		return err
	}
	id := fresh("id")
	slow, err := s.transactional(id, kgo.TransactionTimeout(time.Second))
	if err != nil {
		return err
	}
	defer slow.Close()
	plain, err := s.client()
	if err != nil {
		return err
	}
	defer plain.Close()
	following, err := s.transactional(id)
	if err != nil {
		return err
	}
	defer following.Close()
	behind, after := []string{"behind it 0", "behind it 1"}, values("after the timeout")
	return inOrder(
		slow.BeginTransaction,
		func() error { return write(slow, topic, values("too slow")) },
		func() error { return write(plain, topic, behind) },
		// Readers are held back by what is open, until it is aborted.
		func() error { return s.checkRead(topic, kgo.ReadCommitted(), behind) },
		func() error { return fenced(ended(slow, kgo.TryCommit)) },
		func() error { return inTransaction(following, topic, after, kgo.TryCommit) },
		func() error { return s.checkRead(topic, kgo.ReadCommitted(), append(behind, after...)) },
	)
}

// fenced: with transaction.version 2 a commit of what the server has aborted is INVALID_TXN_STATE, in Kafka as well.
func fenced(err error) error {
	due := []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState}
	if !slices.ContainsFunc(due, func(one error) bool { return errors.Is(err, one) }) {
		return fmt.Errorf("%v, where the producer had to be fenced", err)
	}
	return nil
}

// transactionsOffsets: consume, transform, produce; each second time aborted, and done again from what is committed.
func transactionsOffsets(s *server) error {
	from, err := s.topic("from", transactionPartitions, nil)
	if err != nil {
		return err
	}
	to, err := s.topic("to", transactionPartitions, nil)
	if err != nil {
		return err
	}
	producer, err := s.client()
	if err != nil {
		return err
	}
	defer producer.Close()
	var input, wanted []string
	for n := range 10 {
		input = append(input, values(fmt.Sprintf("input %d", n))...)
	}
	for _, value := range input {
		wanted = append(wanted, "seen "+value)
	}
	if err := write(producer, from, input); err != nil {
		return err
	}
	group := fresh("group")
	if err := copyInTransactions(s, from, to, group, len(input)); err != nil {
		return err
	}
	err = until("the committed offsets", func() bool { return s.committedSum(group, from) == int64(len(input)) })
	if err != nil {
		return err
	}
	return s.checkRead(to, kgo.ReadCommitted(), wanted)
}

func copyInTransactions(s *server, from, to, group string, count int) error {
	options := append(groupOptions(from, group), transactionOptions(s, fresh("id"))...)
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	defer session.Close()
	ctx, cancel := limited()
	defer cancel()
	for done, n := 0, 0; done < count; n++ {
		found := session.PollRecords(ctx, 30).Records()
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records came", done, count)
		}
		if err := session.Begin(); err != nil {
			return err
		}
		if err := write(session.Client(), to, seen(found)); err != nil {
			return err
		}
		// The transaction before has its marker: else this one could not have begun.
		before := s.committedSum(group, from)
		committed, err := session.End(ctx, kgo.TransactionEndTry(n%2 == 1))
		if err != nil {
			return err
		}
		if err := equal(committed, n%2 == 1, "committed"); err != nil {
			return err
		}
		if committed {
			done += len(found)
		} else if err := equal(s.committedSum(group, from), before, "offsets after an abort"); err != nil {
			return err
		}
	}
	return nil
}

func seen(records []*kgo.Record) []string {
	found := make([]string, len(records))
	for n, one := range records {
		found[n] = "seen " + string(one.Value)
	}
	return found
}

func transactionOptions(s *server, id string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(s.bootstrap, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(id), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ProducerLinger(0),
		kgo.RequireStableFetchOffsets(),
	}
}

func (s *server) committedSum(group, topic string) (sum int64) {
	for partition := range int32(transactionPartitions) {
		sum += s.committed(group, topic, partition)
	}
	return sum
}

// committed is notThere where there is none.
func (s *server) committed(group, topic string, partition int32) int64 {
	offset := notThere
	withAdmin(s, func(ctx context.Context, admin *kadm.Client) error {
		found, err := admin.FetchOffsets(ctx, group)
		if one, has := found.Lookup(topic, partition); err == nil && has {
			offset = one.At
		}
		return err
	})
	return offset
}

// checkRead reads exactly these, in order in each partition, and then nothing.
func (s *server) checkRead(topic string, isolation kgo.IsolationLevel, wanted []string) error {
	for partition := range int32(transactionPartitions) {
		var here []string
		for _, value := range wanted {
			if partitionOf(value) == partition {
				here = append(here, value)
			}
		}
		found, err := s.readWhole(topic, partition, isolation, len(here))
		if err != nil {
			return err
		}
		if !slices.Equal(found, here) {
			return fmt.Errorf("partition %d: %.300q, not %.300q", partition, found, here)
		}
	}
	return nil
}

// readWhole takes so many values, and whatever comes after them.
func (s *server) readWhole(topic string, partition int32, isolation kgo.IsolationLevel, count int) ([]string, error) {
	start := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	client, err := s.client(kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(isolation))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records, err := read(client, count)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), nothingMore)
	defer cancel()
	for ctx.Err() == nil {
		records = append(records, client.PollFetches(ctx).Records()...)
	}
	var found []string
	for _, one := range records {
		found = append(found, string(one.Value))
	}
	return found, nil
}
