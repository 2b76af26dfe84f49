package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// Patience for one step on a loaded machine; nothing here waits for it.
const patience = 60 * time.Second

// A reader that has nothing more to be given is asked so long.
const nothingMore = 500 * time.Millisecond

type server struct{ bootstrap string }

func (s *server) addresses() []string { return strings.Split(s.bootstrap, ",") }

// config has the newest of everything that the client knows.
func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Metadata.AllowAutoTopicCreation = false
	made.Metadata.Retry.Max = 100
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Return.Successes = true
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	return made
}

// transactional makes a producer; its id is fenced off from others' then.
func (s *server) transactional(id string, timeout time.Duration) (sarama.SyncProducer, error) {
	made := config()
	made.Net.MaxOpenRequests = 1
	made.Producer.Idempotent = true
	made.Producer.Transaction.ID = id
	made.Producer.Transaction.Timeout = timeout
	return sarama.NewSyncProducer(s.addresses(), made)
}

func fresh(name string) string {
	random := make([]byte, 6)
	rand.Read(random)
	return name + "-" + hex.EncodeToString(random)
}

// topic makes one and waits until its partitions have leaders.
func (s *server) topic(name string, partitions int32) (string, error) {
	topic := fresh(name)
	return topic, s.withAdmin(func(client sarama.Client, admin sarama.ClusterAdmin) error {
		detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1}
		if err := admin.CreateTopic(topic, detail, false); err != nil {
			return err
		}
		return until(topic+" to be there", func() bool {
			if client.RefreshMetadata(topic) != nil {
				return false
			}
			writable, err := client.WritablePartitions(topic)
			return err == nil && len(writable) == int(partitions)
		})
	})
}

func (s *server) withAdmin(steps func(sarama.Client, sarama.ClusterAdmin) error) error {
	client, err := sarama.NewClient(s.addresses(), config())
	if err != nil {
		return err
	}
	// Closing the admin closes its client.
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		client.Close()
		return err
	}
	defer admin.Close()
	return steps(client, admin)
}

// checkRead reads exactly these, in order in each partition, and then nothing.
func (s *server) checkRead(topic string, isolation sarama.IsolationLevel, wanted []string) error {
	made := config()
	made.Consumer.IsolationLevel = isolation
	consumer, err := sarama.NewConsumer(s.addresses(), made)
	if err != nil {
		return err
	}
	defer consumer.Close()
	return checkReadBy(consumer, topic, wanted)
}

func checkReadBy(consumer sarama.Consumer, topic string, wanted []string) error {
	for partition := range int32(partitions) {
		var here []string
		for _, value := range wanted {
			if partitionOf(value) == partition {
				here = append(here, value)
			}
		}
		found, err := readWhole(consumer, topic, partition, len(here))
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
func readWhole(consumer sarama.Consumer, topic string, partition int32, count int) ([]string, error) {
	reader, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var found []string
	limit := time.NewTimer(patience)
	for {
		if len(found) == count {
			limit.Reset(nothingMore)
		}
		select {
		case message := <-reader.Messages():
			found = append(found, string(message.Value))
		case <-limit.C:
			if len(found) < count {
				return nil, fmt.Errorf("partition %d: %d of %d records came", partition, len(found), count)
			}
			return found, nil
		}
	}
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func equal[T comparable](found, wanted T, what string) error {
	if found != wanted {
		return fmt.Errorf("%s: %v, not %v", what, found, wanted)
	}
	return nil
}

// fenced: what a producer is told whose id has another one, or whose transaction was aborted for it.
func fenced(err error) error {
	if !errors.Is(err, sarama.ErrProducerFenced) && !errors.Is(err, sarama.ErrInvalidProducerEpoch) {
		return fmt.Errorf("%v, where the producer had to be fenced", err)
	}
	return nil
}

// until looks again and again.
func until(what string, isSo func() bool) error {
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", patience, what)
		}
	}
	return nil
}
