package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Patience for one step on a loaded machine; nothing here waits for it.
const patience = 60 * time.Second

const largeRequestBytes = 4_000_000

type server struct{ bootstrap string }

// client makes a producer, a consumer or both.
func (s *server) client(options ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(s.bootstrap, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	return kgo.NewClient(append(base, options...)...)
}

// admin makes one; closing the client closes it.
func (s *server) admin() (*kadm.Client, func(), error) {
	client, err := s.client()
	if err != nil {
		return nil, nil, err
	}
	return kadm.NewClient(client), client.Close, nil
}

func fresh(name string) string {
	random := make([]byte, 6)
	rand.Read(random)
	return name + "-" + hex.EncodeToString(random)
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// topic makes one and waits until it is listed.
func (s *server) topic(name string, partitions int32, configs map[string]*string) (string, error) {
	admin, done, err := s.admin()
	if err != nil {
		return "", err
	}
	defer done()
	ctx, cancel := limited()
	defer cancel()
	topic := fresh(name)
	if _, err := admin.CreateTopic(ctx, partitions, -1, configs, topic); err != nil {
		return "", err
	}
	return topic, until(topic+" to be listed", func() bool {
		found, err := admin.ListTopics(ctx, topic)
		return err == nil && found.Has(topic)
	})
}

// send produces and waits for all acknowledgements; records get their offsets.
func send(client *kgo.Client, records []*kgo.Record) error {
	ctx, cancel := limited()
	defer cancel()
	return client.ProduceSync(ctx, records...).FirstErr()
}

// read takes so many records, one after the other.
func read(client *kgo.Client, count int) ([]*kgo.Record, error) {
	ctx, cancel := limited()
	defer cancel()
	var found []*kgo.Record
	for len(found) < count {
		fetches := client.PollRecords(ctx, count-len(found))
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d records came", len(found), count)
		}
		found = append(found, fetches.Records()...)
	}
	return found, nil
}

// checkPartition reads all of a partition with a new client: exactly these records.
func (s *server) checkPartition(topic string, partition int32, sent []*kgo.Record) error {
	client, err := s.at(topic, partition, kgo.NewOffset().AtStart())
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := read(client, len(sent))
	if err != nil {
		return err
	}
	if err := check(found, sent, 0); err != nil {
		return err
	}
	ctx, cancel := limited()
	defer cancel()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	end, _ := ends.Lookup(topic, partition)
	return equal(end.Offset, int64(len(sent)), "end of the partition")
}

// at makes a consumer of one partition.
func (s *server) at(topic string, partition int32, offset kgo.Offset) (*kgo.Client, error) {
	return s.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: offset}}))
}

// check compares everything that was sent, and that offsets have no gaps.
func check(found, sent []*kgo.Record, first int64) error {
	for n := range min(len(found), len(sent)) {
		one, wanted := found[n], sent[n]
		if one.Offset != first+int64(n) {
			return fmt.Errorf("record %d has offset %d", n, one.Offset)
		}
		if !same(one.Key, wanted.Key) || !same(one.Value, wanted.Value) {
			return fmt.Errorf("record %d: %.100q, %.100q, not %.100q, %.100q", n, one.Key, one.Value, wanted.Key, wanted.Value)
		}
		if !slices.EqualFunc(one.Headers, wanted.Headers, sameHeader) {
			return fmt.Errorf("headers of record %d: %v, not %v", n, one.Headers, wanted.Headers)
		}
		if one.Timestamp.UnixMilli() != wanted.Timestamp.UnixMilli() {
			return fmt.Errorf("timestamp of record %d: %v, not %v", n, one.Timestamp, wanted.Timestamp)
		}
	}
	return equal(len(found), len(sent), "number of records")
}

func sameHeader(a, b kgo.RecordHeader) bool { return a.Key == b.Key && same(a.Value, b.Value) }

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func equal[T comparable](found, wanted T, what string) error {
	if found != wanted {
		return fmt.Errorf("%s: %v, not %v", what, found, wanted)
	}
	return nil
}

func refused(err, wanted error) error {
	if !errors.Is(err, wanted) {
		return fmt.Errorf("%v, where %v was due", err, wanted)
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
