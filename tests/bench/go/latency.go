package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// spareSeconds is how far a stream of records may fall behind its rate: more, and the rate is not kept.
const spareSeconds = 0.2

// sync1 is the role: clients that each send one record and wait until it is acknowledged; with a rate they take turns.
func sync1(o options) (result, error) {
	return sync1With(o, make(chan error, o.Clients), func() {}, func() {})
}

// sync1With is the same beside other work, which may fail and which notes both ends of what is measured.
func sync1With(o options, failed chan error, begins, ends func()) (result, error) {
	var found result
	led, err := leaders(o.Bootstrap, o.Topic)
	if err != nil {
		return found, err
	}
	var stop atomic.Bool
	var sent atomic.Int64
	timed := new(samples)
	ended := make(chan struct{}, o.Clients)
	for client := range o.Clients {
		singles, err := newSingles(o, led, client)
		if err != nil {
			return found, err
		}
		go func() {
			defer func() { ended <- struct{}{} }()
			if err := sendSingles(o, singles, client, timed, &sent, &stop); err != nil {
				failed <- err
			}
		}()
	}
	from, to, err := o.measured(failed,
		func() { timed.turn(true); found.Requests -= sent.Load(); begins() },
		func() { timed.turn(false); found.Requests += sent.Load(); ends() })
	stop.Store(true)
	if err != nil {
		return found, err
	}
	for range o.Clients {
		<-ended
	}
	found.between(from, to)
	found.Records, found.Bytes, found.Batches = found.Requests, found.Requests*int64(o.RecordBytes), found.Requests
	found.AllRecords = sent.Load()
	return found, timed.into(&found)
}

// single is a record for one partition, and the connection to its leader.
type single struct {
	*producer
	record *frame
}

// newSingles makes those of one client. With as many clients as partitions or more, each has one partition: its own.
func newSingles(o options, led map[string][]int32, client int) ([]single, error) {
	var made []single
	for address, partitions := range led {
		p, err := newProducer(address, options{Topic: o.Topic, Partitions: o.Partitions, RecordBytes: 1, Codec: "none"}, partitions, 0)
		if err != nil {
			return nil, err
		}
		for index := client % o.Partitions; index < o.Partitions; index += o.Clients {
			if !slices.Contains(partitions, int32(index)) {
				continue
			}
			record, err := oneRecord(p, o, int32(index))
			if err != nil {
				return nil, err
			}
			made = append(made, single{p, record})
		}
	}
	return made, nil
}

// sendSingles sends record after record, to one partition after the other.
func sendSingles(o options, singles []single, client int, timed *samples, sent *atomic.Int64, stop *atomic.Bool) error {
	var pause time.Duration
	next := time.Now()
	if o.Rate > 0 {
		pause = seconds(float64(o.Clients) / o.Rate)
		next = next.Add(pause * time.Duration(client) / time.Duration(o.Clients))
	}
	for turn := 0; !stop.Load(); turn++ {
		if pause > 0 {
			time.Sleep(time.Until(next))
			next = next.Add(pause)
		}
		began := time.Now()
		one := singles[turn%len(singles)]
		if err := one.send(one.record); err != nil {
			return err
		}
		if err := one.acknowledged(); err != nil {
			return err
		}
		timed.add(time.Since(began))
		sent.Add(1)
	}
	return nil
}

// endToEnd is the role: records at a rate, each timed from its Produce call to the poll that gives it to a consumer.
func endToEnd(o options) (result, error) {
	var found result
	producer, err := kgo.NewClient(kgo.SeedBrokers(o.Bootstrap), kgo.DefaultProduceTopic(o.Topic), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return found, err
	}
	defer producer.Close()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(o.Bootstrap), kgo.ConsumeTopics(o.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(fetchMaxWaitMillis*time.Millisecond))
	if err != nil {
		return found, err
	}
	defer consumer.Close()
	context, stop := context.WithCancel(context.Background())
	defer stop()
	timed, failed := new(samples), make(chan error, 2)
	var sent, came atomic.Int64
	go func() {
		for context.Err() == nil {
			fetches := consumer.PollFetches(context)
			at := time.Now().UnixNano()
			for _, one := range fetches.Errors() {
				if context.Err() == nil {
					failed <- one.Err
					return
				}
			}
			fetches.EachRecord(func(one *kgo.Record) {
				timed.add(time.Duration(at - int64(binary.BigEndian.Uint64(one.Value))))
				came.Add(1)
			})
		}
	}()
	go pace(context, o.Rate, func() {
		text := make([]byte, max(8, o.RecordBytes))
		binary.BigEndian.PutUint64(text, uint64(time.Now().UnixNano()))
		sent.Add(1)
		producer.Produce(context, &kgo.Record{Value: text}, func(_ *kgo.Record, err error) {
			if err != nil && context.Err() == nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	})
	from, to, err := o.measured(failed,
		func() { timed.turn(true); found.Records -= came.Load() },
		func() { timed.turn(false); found.Records += came.Load() })
	if err != nil {
		return found, err
	}
	found.between(from, to)
	if wanted := o.Rate * found.Seconds; float64(found.Records) < 0.9*wanted-o.Rate*spareSeconds {
		return found, fmt.Errorf("%d records came of %.0f", found.Records, wanted)
	}
	found.Bytes, found.Requests = found.Records*int64(o.RecordBytes), found.Records
	return found, timed.into(&found)
}

// pace calls so often a second; what is late is made up for at once.
func pace(context context.Context, rate float64, call func()) {
	began := time.Now()
	for done := 0; context.Err() == nil; {
		for due := int(time.Since(began).Seconds() * rate); done < due; done++ {
			call()
		}
		time.Sleep(time.Millisecond / 2)
	}
}
