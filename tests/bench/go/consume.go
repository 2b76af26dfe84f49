package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// As Kafka's consumers have them by default.
const (
	fetchBytes          = 50 << 20
	fetchPartitionBytes = 1 << 20
	fetchMaxWaitMillis  = 500
)

// reader is one client that fetches some partitions of a topic, one Fetch after the other, and checks every batch.
type reader struct {
	*connection
	topic     string
	positions map[int32]int64
	starts    map[int32]int64
	ends      map[int32]int64
	order     []int32
	once      bool
	follows   bool
}

// fetched counts what readers have read.
type fetched struct {
	records, requests, batches atomic.Int64
	stop                       atomic.Bool
}

// read fetches until it is told to stop, or (once) until all partitions were read to their ends.
func (r *reader) read(counted *fetched) error {
	for !counted.stop.Load() && len(r.order) > 0 {
		answer, err := r.ask(r.request())
		if err != nil {
			return err
		}
		response := answer.(*kmsg.FetchResponse)
		if err := check("Fetch", response.ErrorCode); err != nil {
			return err
		}
		counted.requests.Add(1)
		for _, topic := range response.Topics {
			for _, one := range topic.Partitions {
				if err := r.take(one, counted); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *reader) take(one kmsg.FetchResponseTopicPartition, counted *fetched) error {
	if err := check(fmt.Sprintf("Fetch of %s-%d", r.topic, one.Partition), one.ErrorCode); err != nil {
		return err
	}
	records, batches, next, err := walk(one.RecordBatches)
	if err != nil {
		return err
	}
	if batches > 0 {
		r.positions[one.Partition] = next
		counted.records.Add(records)
		counted.batches.Add(batches)
	}
	if !r.follows && r.positions[one.Partition] >= r.ends[one.Partition] {
		r.positions[one.Partition] = r.starts[one.Partition]
		if r.once {
			r.drop(one.Partition)
		}
	}
	return nil
}

func (r *reader) drop(index int32) {
	for place, one := range r.order {
		if one == index {
			r.order = append(r.order[:place], r.order[place+1:]...)
			return
		}
	}
}

// request asks for all partitions, another one first each time, as consumers do.
func (r *reader) request() kmsg.Request {
	request := kmsg.NewPtrFetchRequest()
	request.ReplicaID = -1
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = fetchMaxWaitMillis, 1, fetchBytes
	request.SessionEpoch = -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = r.topic
	r.order = append(r.order[1:], r.order[0])
	for _, index := range r.order {
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.FetchOffset, one.PartitionMaxBytes = index, r.positions[index], fetchPartitionBytes
		one.CurrentLeaderEpoch = -1
		topic.Partitions = append(topic.Partitions, one)
	}
	request.Topics = append(request.Topics, topic)
	r.choose(request, 12)
	return request
}

// newReaders shares a topic's partitions among clients, of which each has a connection to each broker, and reads from the last `tail` records on (0: from the start).
func newReaders(o options, topic string, clients int, tail int64) ([]*reader, error) {
	led, err := leaders(o.Bootstrap, topic)
	if err != nil {
		return nil, err
	}
	var found []*reader
	for address, partitions := range led {
		count := min(clients, len(partitions))
		for client := range count {
			var own []int32
			for place := client; place < len(partitions); place += count {
				own = append(own, partitions[place])
			}
			r, err := newReader(address, o, topic, own, tail)
			if err != nil {
				return nil, err
			}
			found = append(found, r)
		}
	}
	return found, nil
}

func newReader(address string, o options, topic string, partitions []int32, tail int64) (*reader, error) {
	c, err := dial(address)
	if err != nil {
		return nil, err
	}
	r := &reader{connection: c, topic: topic, positions: map[int32]int64{}, once: o.Once}
	if r.starts, err = offsets(c, topic, partitions, -2); err != nil {
		return nil, err
	}
	if r.ends, err = offsets(c, topic, partitions, -1); err != nil {
		return nil, err
	}
	for _, index := range partitions {
		if tail > 0 {
			r.starts[index] = max(r.starts[index], r.ends[index]-tail)
		}
		if o.Head > 0 {
			r.ends[index] = min(r.ends[index], r.starts[index]+o.Head)
		}
		if r.starts[index] == r.ends[index] {
			return nil, fmt.Errorf("%s-%d is empty", topic, index)
		}
		r.positions[index] = r.starts[index]
		r.order = append(r.order, index)
	}
	return r, nil
}

// consume is the role: a log's end over and over, or all of it once.
func consume(o options) (result, error) {
	var found result
	readers, err := newReaders(o, o.Topic, o.Clients, o.Tail)
	if err != nil {
		return found, err
	}
	counted := new(fetched)
	failed, ended := make(chan error, len(readers)), make(chan struct{}, len(readers))
	began, err := now(o.Pids)
	if err != nil {
		return found, err
	}
	for _, r := range readers {
		go func() {
			if err := r.read(counted); err != nil {
				failed <- err
			}
			ended <- struct{}{}
		}()
	}
	note := func(sign int64) func() {
		return func() {
			found.Records += sign * counted.records.Load()
			found.Requests += sign * counted.requests.Load()
			found.Batches += sign * counted.batches.Load()
		}
	}
	var to moment
	if o.Once {
		for range readers {
			<-ended
		}
		note(1)()
		to, err = now(o.Pids)
	} else {
		began, to, err = o.measured(failed, note(-1), note(1))
		counted.stop.Store(true)
	}
	select {
	case err = <-failed:
	default:
	}
	found.between(began, to)
	found.Bytes = found.Records * int64(o.RecordBytes)
	return found, err
}

// group is the role: members of one group read a topic from its start, with franz-go's consumer and its commits, until
// they have so many records. What is measured begins with the first of them.
func group(o options) (result, error) {
	var found result
	var records, bytes atomic.Int64
	context, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	began, failed := make(chan moment, o.Clients), make(chan error, o.Clients)
	for range o.Clients {
		client, err := kgo.NewClient(kgo.SeedBrokers(o.Bootstrap), kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(fetchPartitionBytes))
		if err != nil {
			return found, err
		}
		defer client.Close()
		go func() {
			for context.Err() == nil && records.Load() < o.Records {
				fetches := client.PollFetches(context)
				for _, one := range fetches.Errors() {
					if context.Err() == nil {
						failed <- one.Err
						stop()
					}
				}
				if records.Load() == 0 && fetches.NumRecords() > 0 {
					if first, err := now(o.Pids); err == nil {
						began <- first
					}
				}
				fetches.EachRecord(func(one *kgo.Record) { bytes.Add(int64(len(one.Value))) })
				if records.Add(int64(fetches.NumRecords())) >= o.Records {
					stop()
				}
			}
		}()
	}
	<-context.Done()
	to, err := now(o.Pids)
	if err != nil {
		return found, err
	}
	if records.Load() < o.Records {
		select {
		case err = <-failed:
		default:
			err = fmt.Errorf("%d of %d records came", records.Load(), o.Records)
		}
		return found, err
	}
	found.between(<-began, to)
	found.Records, found.Bytes = records.Load(), bytes.Load()
	return found, nil
}
