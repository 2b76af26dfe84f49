package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

const (
	each       = 20
	partitions = 2
	// Longer than a scenario may take.
	longTimeout = 5 * time.Minute
)

// values are what one transaction writes; each has its partition (see partitionOf).
func values(label string) []string {
	found := make([]string, each)
	for n := range found {
		found[n] = fmt.Sprintf("%s %d", label, n)
	}
	return found
}

func partitionOf(value string) int32 { return int32(value[len(value)-1]-'0') % partitions }

func write(producer sarama.SyncProducer, topic string, values []string) error {
	messages := make([]*sarama.ProducerMessage, len(values))
	for n, value := range values {
		messages[n] = &sarama.ProducerMessage{
			Topic: topic, Partition: partitionOf(value), Value: sarama.StringEncoder(value),
		}
	}
	err := producer.SendMessages(messages)
	// The list of what was not delivered does not unwrap.
	if failed, is := err.(sarama.ProducerErrors); is {
		return failed[0].Err
	}
	return err
}

// transactions are four, of which each second one is aborted, and one that is open while others read.
func transactions(s *server) error {
	topic, err := s.topic("transactions", partitions)
	if err != nil {
		return err
	}
	producer, err := s.transactional(fresh("id"), longTimeout)
	if err != nil {
		return err
	}
	defer producer.Close()
	var committed, all []string
	for n := range 4 {
		some := values(fmt.Sprintf("transaction %d", n))
		all = append(all, some...)
		end := producer.AbortTxn
		if n%2 == 0 {
			end = producer.CommitTxn
			committed = append(committed, some...)
		}
		err := inOrder(producer.BeginTxn, func() error { return write(producer, topic, some) }, end)
		if err != nil {
			return err
		}
	}
	open := values("open")
	return inOrder(
		producer.BeginTxn,
		func() error { return write(producer, topic, open) },
		func() error { return s.checkEpoch(topic, 0) },
		func() error { return s.checkRead(topic, sarama.ReadCommitted, committed) },
		func() error { return s.checkRead(topic, sarama.ReadUncommitted, append(all, open...)) },
		producer.CommitTxn,
		// A transaction without a record ends as well.
		producer.BeginTxn,
		producer.CommitTxn,
		func() error { return s.checkRead(topic, sarama.ReadCommitted, append(committed, open...)) },
		func() error { return s.checkRead(topic, sarama.ReadUncommitted, append(all, open...)) },
	)
}

// checkEpoch: the end of a transaction raises the epoch of those alone who speak transaction.version 2 (EndTxn 5).
func (s *server) checkEpoch(topic string, wanted int32) error {
	return s.withAdmin(func(client sarama.Client, _ sarama.ClusterAdmin) error {
		leader, err := client.Leader(topic, 0)
		if err != nil {
			return err
		}
		asked := []sarama.DescribeProducersRequestTopic{{Name: topic, PartitionIndexes: []int32{0}}}
		answer, err := leader.DescribeProducers(&sarama.DescribeProducersRequest{Topics: asked})
		if err != nil {
			return err
		}
		found := answer.Topics[0].Partitions[0].ActiveProducers
		if len(found) != 1 {
			return fmt.Errorf("%d producers, not 1", len(found))
		}
		return equal(found[0].ProducerEpoch, wanted, "epoch of the open transaction")
	})
}

// transactionsFencing: another producer of an id aborts what the one before has open, and ends it for good.
func transactionsFencing(s *server) error {
	topic, err := s.topic("fencing", partitions)
	if err != nil {
		return err
	}
	id := fresh("id")
	var made [3]sarama.SyncProducer
	following := func(n int) func() error {
		return func() (err error) {
			made[n], err = s.transactional(id, longTimeout)
			return err
		}
	}
	defer func() {
		for _, one := range made {
			if one != nil {
				one.Close()
			}
		}
	}()
	second, third := values("of the second"), values("of the third")
	return inOrder(
		following(0),
		func() error { return made[0].BeginTxn() },
		func() error { return write(made[0], topic, values("of the first")) },
		following(1),
		func() error { return made[1].BeginTxn() },
		func() error { return write(made[1], topic, second) },
		func() error { return fenced(made[0].CommitTxn()) },
		func() error { return made[1].CommitTxn() },
		following(2),
		func() error { return made[1].BeginTxn() },
		func() error { return fenced(write(made[1], topic, []string{"too late 0"})) },
		func() error { return made[2].BeginTxn() },
		func() error { return write(made[2], topic, third) },
		func() error { return made[2].CommitTxn() },
		func() error { return s.checkRead(topic, sarama.ReadCommitted, append(second, third...)) },
	)
}

// transactionsTimeout: what is open for too long is aborted, and its commit refused; the next producer goes on.
func transactionsTimeout(s *server) error {
	topic, err := s.topic("timeout", partitions)
	if err != nil {
		return err
	}
	id := fresh("id")
	slow, err := s.transactional(id, time.Second)
	if err != nil {
		return err
	}
	defer slow.Close()
	plain, err := sarama.NewSyncProducer(s.addresses(), config())
	if err != nil {
		return err
	}
	defer plain.Close()
	behind, after := []string{"behind it 0", "behind it 1"}, values("after the timeout")
	err = inOrder(
		slow.BeginTxn,
		func() error { return write(slow, topic, values("too slow")) },
		func() error { return write(plain, topic, behind) },
		// Readers are held back by what is open, until it is aborted.
		func() error { return s.checkRead(topic, sarama.ReadCommitted, behind) },
		func() error { return fenced(slow.CommitTxn()) },
	)
	if err != nil {
		return err
	}
	following, err := s.transactional(id, longTimeout)
	if err != nil {
		return err
	}
	defer following.Close()
	return inOrder(
		following.BeginTxn,
		func() error { return write(following, topic, after) },
		following.CommitTxn,
		func() error { return s.checkRead(topic, sarama.ReadCommitted, append(behind, after...)) },
	)
}
