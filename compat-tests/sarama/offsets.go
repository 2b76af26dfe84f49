package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// Records of one partition that go into one transaction.
const batch = 25

const notThere = int64(-1)

// transactionsOffsets: consume, transform, produce; each second time aborted, and done again from what is committed.
func transactionsOffsets(s *server) error {
	from, err := s.topic("from", partitions)
	if err != nil {
		return err
	}
	to, err := s.topic("to", partitions)
	if err != nil {
		return err
	}
	plain, err := sarama.NewSyncProducer(s.addresses(), config())
	if err != nil {
		return err
	}
	defer plain.Close()
	var input, wanted []string
	for n := range 10 {
		input = append(input, values(fmt.Sprintf("input %d", n))...)
	}
	for _, value := range input {
		wanted = append(wanted, "seen "+value)
	}
	if err := write(plain, from, input); err != nil {
		return err
	}
	producer, err := s.transactional(fresh("id"), longTimeout)
	if err != nil {
		return err
	}
	defer producer.Close()
	group := fresh("group")
	copying := &copier{server: s, producer: producer, group: group, from: from, to: to, left: len(input)}
	if err := copying.run(); err != nil {
		return err
	}
	err = until("the committed offsets", func() bool {
		sum, err := s.committedSum(group, from)
		return err == nil && sum == int64(len(input))
	})
	if err != nil {
		return err
	}
	return s.checkRead(to, sarama.ReadCommitted, wanted)
}

// copier is a member of a group. Each of its claims has a goroutine; one has a transaction at a time.
type copier struct {
	server          *server
	producer        sarama.SyncProducer
	group, from, to string

	lock    sync.Mutex
	leave   context.CancelFunc
	ended   int // transactions
	left    int // records that are in no committed transaction
	problem error
}

// run is a session after the other: an abort ends one, and the next one begins at what is committed.
func (c *copier) run() error {
	made := config()
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	made.Consumer.Offsets.AutoCommit.Enable = false
	made.Consumer.Group.Session.Timeout = 6 * time.Second
	made.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	member, err := sarama.NewConsumerGroup(c.server.addresses(), c.group, made)
	if err != nil {
		return err
	}
	defer member.Close()
	whole, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for c.left > 0 && c.problem == nil {
		session, leave := context.WithCancel(whole)
		c.leave = leave
		err := member.Consume(session, []string{c.from}, c)
		leave()
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if whole.Err() != nil {
			return fmt.Errorf("%d records are not copied", c.left)
		}
	}
	return c.problem
}

func (*copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	var some []*sarama.ConsumerMessage
	for message := range claim.Messages() {
		if some = append(some, message); len(some) < batch {
			continue
		}
		c.lock.Lock()
		if session.Context().Err() == nil {
			c.take(c.transaction(session, some))
		}
		c.lock.Unlock()
		some = nil
	}
	return nil
}

// take ends the session after an error, an abort, and the last record.
func (c *copier) take(committed int, err error) {
	c.ended++
	c.left -= committed
	c.problem = errors.Join(c.problem, err)
	if err != nil || committed == 0 || c.left == 0 {
		c.leave()
	}
}

// transaction says how many records it has committed.
func (c *copier) transaction(session sarama.ConsumerGroupSession, some []*sarama.ConsumerMessage) (int, error) {
	seen := make([]string, len(some))
	for n, one := range some {
		seen[n] = "seen " + string(one.Value)
	}
	member := sarama.NewConsumerGroupMetadataFromSession(session, c.group, nil)
	err := inOrder(
		c.producer.BeginTxn,
		func() error { return write(c.producer, c.to, seen) },
		func() error {
			return c.producer.AddMessageToTxnWithGroupMetadata(some[len(some)-1], member, nil)
		},
	)
	if err != nil {
		return 0, err
	}
	if c.ended%2 == 1 {
		return len(some), c.producer.CommitTxn()
	}
	// The transaction before has its marker: else this one could not have begun.
	before, err := c.server.committedSum(c.group, c.from)
	if err != nil {
		return 0, err
	}
	if err := c.producer.AbortTxn(); err != nil {
		return 0, err
	}
	after, err := c.server.committedSum(c.group, c.from)
	return 0, errors.Join(err, equal(after, before, "offsets after an abort"))
}

// committedSum is of all partitions that have a committed offset.
func (s *server) committedSum(group, topic string) (sum int64, err error) {
	err = s.withAdmin(func(_ sarama.Client, admin sarama.ClusterAdmin) error {
		asked := map[string][]int32{topic: {0, 1}}
		found, err := admin.ListConsumerGroupOffsets(group, asked)
		if err != nil {
			return err
		}
		for _, partition := range asked[topic] {
			if one := found.GetBlock(topic, partition); one != nil && one.Offset != notThere {
				sum += one.Offset
			}
		}
		return nil
	})
	return sum, err
}
