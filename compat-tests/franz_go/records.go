package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const many = 5000

// What a topic takes where nothing else is said (max.message.bytes); franz-go's own default is a little less.
const topicLimitBytes = 1_048_588

var start = time.UnixMilli(1_700_000_000_000)

// sample has records whose values differ and compress.
func sample(topic string, count int, label string) []*kgo.Record {
	records := make([]*kgo.Record, count)
	for n := range records {
		value := strings.Repeat(fmt.Sprintf("%s %06d ", label, n), 10)
		records[n] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key %d", n), Value: []byte(value)}
	}
	return records
}

// roundTrip produces to a fresh topic and reads partition 0 again.
func roundTrip(s *server, name string, change func(topic string, records []*kgo.Record), count int, options ...kgo.Opt) (string, error) {
	topic, err := s.topic(name, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")})
	if err != nil {
		return "", err
	}
	client, err := s.client(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	records := sample(topic, count, name)
	change(topic, records)
	if err := send(client, records); err != nil {
		return "", err
	}
	return topic, s.checkPartition(topic, 0, records)
}

func unchanged(string, []*kgo.Record) {}

func codec(s *server, name string) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	topic, err := roundTrip(s, "codec-"+name, unchanged, 500,
		kgo.ProducerBatchCompression(codecs[name]), kgo.ProducerLinger(50*time.Millisecond))
	if err == nil {
		fmt.Println("check-codec", topic, name)
	}
	return err
}

func headers(s *server) error {
	_, err := roundTrip(s, "headers", func(_ string, records []*kgo.Record) {
		all := make([]byte, 256)
		for n := range all {
			all[n] = byte(n)
		}
		records[1].Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}
		records[2].Headers = []kgo.RecordHeader{{Key: "b", Value: []byte("2")}, {Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("3")}}
		records[3].Headers = []kgo.RecordHeader{{Key: "", Value: []byte{}}, {Key: "null"}}
		records[4].Headers = []kgo.RecordHeader{{Key: "\u00e9\u4e16", Value: all}}
	}, 5)
	return err
}

func emptyValues(s *server) error {
	kinds := [][]byte{nil, {}, []byte("x")}
	_, err := roundTrip(s, "empty", func(_ string, records []*kgo.Record) {
		for n, record := range records {
			record.Key, record.Value = kinds[n/3], kinds[n%3]
		}
	}, 9)
	return err
}

func batches(s *server) error {
	_, err := roundTrip(s, "batches", unchanged, many, kgo.ProducerLinger(20*time.Millisecond))
	return err
}

func idempotence(s *server) error {
	// Idempotence is franz-go's default, with several requests in flight.
	_, err := roundTrip(s, "idempotence", unchanged, 2000, kgo.ProducerLinger(time.Millisecond))
	return err
}

func singleRecords(s *server) error {
	topic, err := s.topic("single", 1, nil)
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	records := sample(topic, 30, "single")
	for n, record := range records {
		if err := send(client, []*kgo.Record{record}); err != nil {
			return err
		}
		if err := equal(record.Offset, int64(n), "acknowledged offset"); err != nil {
			return err
		}
	}
	return s.checkPartition(topic, 0, records)
}

func largeMessages(s *server) error {
	topic, err := roundTrip(s, "large", func(_ string, records []*kgo.Record) {
		records[1].Value = []byte(strings.Repeat("0123456789", 100_000))
	}, 3, kgo.ProducerBatchMaxBytes(topicLimitBytes))
	if err != nil {
		return err
	}
	client, err := s.client(kgo.ProducerBatchMaxBytes(largeRequestBytes), kgo.BrokerMaxWriteBytes(largeRequestBytes+1000))
	if err != nil {
		return err
	}
	defer client.Close()
	tooLarge := &kgo.Record{Topic: topic, Value: make([]byte, 2_000_000)}
	return refused(send(client, []*kgo.Record{tooLarge}), kerr.MessageTooLarge)
}

func seek(s *server) error {
	topic, err := s.topic("seek", 1, nil)
	if err != nil {
		return err
	}
	client, err := s.at(topic, 0, kgo.NewOffset().AtStart())
	if err != nil {
		return err
	}
	defer client.Close()
	records := sample(topic, 100, "seek")
	if err := send(client, records); err != nil {
		return err
	}
	for _, offset := range []int64{42, 7, 99, 0} {
		client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: offset}}})
		found, err := read(client, 1)
		if err != nil {
			return err
		}
		if err := check(found, records[offset:offset+1], offset); err != nil {
			return err
		}
	}
	more := sample(topic, 1, "behind the end")
	end, err := s.at(topic, 0, kgo.NewOffset().AtEnd().Relative(-1))
	if err != nil {
		return err
	}
	defer end.Close()
	if err := send(client, more); err != nil {
		return err
	}
	found, err := read(end, 1)
	if err != nil {
		return err
	}
	// Where the end was looked up before or after the last record, it is the record before it.
	first := found[0].Offset
	if first != 99 && first != 100 {
		return fmt.Errorf("one before the end is %d", first)
	}
	return check(found, append(records, more...)[first:first+1], first)
}

func timestamps(s *server) error {
	topic, err := roundTrip(s, "timestamps", func(_ string, records []*kgo.Record) {
		for n, record := range records {
			record.Timestamp = start.Add(time.Duration(n) * time.Second)
		}
	}, 50)
	if err != nil {
		return err
	}
	admin, done, err := s.admin()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := limited()
	defer cancel()
	// Behind the last record kadm answers with the end.
	for after, wanted := range map[int64]int64{0: 0, 20_000: 20, 20_001: 21, 49_000: 49, -5: 0, 49_001: 50} {
		found, err := admin.ListOffsetsAfterMilli(ctx, start.UnixMilli()+after, topic)
		if err != nil {
			return err
		}
		one, _ := found.Lookup(topic, 0)
		if err := equal(one.Offset, wanted, fmt.Sprintf("offset at %d", after)); err != nil {
			return err
		}
	}
	return nil
}

// reconnect has the server killed while records are on their way to it and others are read.
func reconnect(s *server) error {
	topic, err := s.topic("reconnect", 1, nil)
	if err != nil {
		return err
	}
	client, err := s.at(topic, 0, kgo.NewOffset().AtStart())
	if err != nil {
		return err
	}
	defer client.Close()
	before, during, after := sample(topic, 100, "before"), sample(topic, 100, "during"), sample(topic, 100, "after")
	if err := send(client, before); err != nil {
		return err
	}
	found, err := read(client, len(before))
	if err != nil {
		return err
	}
	if err := check(found, before, 0); err != nil {
		return err
	}
	fmt.Println("kill-server")
	ctx, cancel := limited()
	defer cancel()
	var waiting sync.WaitGroup
	var failed error
	for _, record := range during {
		waiting.Add(1)
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
			waiting.Done()
		})
	}
	said, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if err := equal(said, "restarted\n", "what the runner says"); err != nil {
		return err
	}
	waiting.Wait()
	if failed != nil {
		return failed
	}
	if err := send(client, after); err != nil {
		return err
	}
	later := append(during, after...)
	found, err = read(client, len(later))
	if err != nil {
		return err
	}
	if err := check(found, later, int64(len(before))); err != nil {
		return err
	}
	return s.checkPartition(topic, 0, append(before, later...))
}
