package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	inputs     = "inputs"
	partitions = 4
	aborted    = 0.15
	mostWrites = 4
	mostPolled = 20
	keyBytes   = 600
	pollWait   = 50 * time.Millisecond
)

// life is a session from one loss of it to the next.
type life struct {
	name, group string
	random      *rand.Rand
	session     *kgo.GroupTransactSession
	number      int
	readers     atomic.Int64
	lock        sync.Mutex
	acked       [][]any
	failed      error
}

func live(bootstrap []string, worker, number, group string, choice *rand.Rand) error {
	one := &life{name: worker + "/" + number, group: group, random: choice}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap...), kgo.TransactionalID(worker), kgo.TransactionTimeout(time.Minute),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(inputs), kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(), kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(1500*time.Millisecond),
		kgo.BlockRebalanceOnPoll(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(2*time.Millisecond), kgo.DialTimeout(2*time.Second), kgo.MetadataMaxAge(5*time.Second),
		kgo.RetryTimeout(2*time.Minute), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { one.readers.Add(1) }),
	)
	if err != nil {
		return err
	}
	one.session = session
	defer session.CloseAllowingRebalance()
	for !ending.Load() {
		if err := one.transaction(); err != nil {
			return err
		}
	}
	return nil
}

func isFatal(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, kerr.InvalidProducerIDMapping) ||
		errors.Is(err, kerr.OutOfOrderSequenceNumber)
}

func (l *life) transaction() error {
	l.number++
	name := fmt.Sprintf("%s/%d", l.name, l.number)
	tell("Begun", fields{"transaction": name})
	if err := l.session.Begin(); err != nil {
		return err
	}
	l.send(name, l.newRecords(name))
	copies, offsets := l.poll(name)
	defer l.session.AllowRebalance()
	l.send(name, copies)
	if l.random.Float64() < aborted {
		return l.end(name, kgo.TryAbort, "at random")
	}
	if len(offsets) > 0 {
		tell("Offsets", fields{"transaction": name, "group": l.group, "offsets": offsets})
	}
	if err := l.session.Client().Flush(context.Background()); err != nil {
		return err
	}
	if failed := l.failure(); failed != nil {
		return l.end(name, kgo.TryAbort, failed.Error())
	}
	return l.end(name, kgo.TryCommit, "")
}

func (l *life) newRecords(name string) []*kgo.Record {
	var records []*kgo.Record
	if draining.Load() {
		return records
	}
	few := min(1+l.random.Intn(mostWrites), 1+l.random.Intn(mostWrites))
	for number := range min(few, l.random.Intn(mostWrites+1)) {
		value := fmt.Sprintf("%s/%d", name, number)
		records = append(records, record(inputs, int32(l.random.Intn(partitions)), value))
	}
	return records
}

func record(topic string, partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: make([]byte, keyBytes), Value: []byte(value)}
}

// poll returns copies of what was read, and how far that was.
func (l *life) poll(name string) ([]*kgo.Record, [][]any) {
	short, cancel := context.WithTimeout(context.Background(), pollWait)
	defer cancel()
	fetched := l.session.PollRecords(short, mostPolled)
	var copies []*kgo.Record
	var seen [][]any
	ends := map[int32]int64{}
	fetched.EachRecord(func(one *kgo.Record) {
		value := fmt.Sprintf("%s/c%d<%s", name, len(copies), one.Value)
		copies = append(copies, record("copies-"+l.group, one.Partition, value))
		seen = append(seen, []any{one.Topic, one.Partition, one.Offset, string(one.Value)})
		ends[one.Partition] = one.Offset + 1
	})
	var offsets [][]any
	for partition, end := range ends {
		offsets = append(offsets, []any{inputs, partition, end})
	}
	if len(seen) > 0 {
		reader := fmt.Sprintf("%s/%s/%d", l.group, l.name, l.readers.Load())
		tell("Polled", fields{"transaction": name, "reader": reader, "records": seen})
	}
	return copies, offsets
}

func (l *life) send(name string, records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	var lines [][]any
	for _, one := range records {
		lines = append(lines, []any{one.Topic, one.Partition, string(one.Value)})
	}
	tell("Sending", fields{"transaction": name, "records": lines})
	for _, one := range records {
		l.session.Produce(context.Background(), one, func(one *kgo.Record, err error) {
			l.lock.Lock()
			defer l.lock.Unlock()
			if err != nil {
				l.failed = err
			} else {
				l.acked = append(l.acked, []any{one.Topic, one.Partition, string(one.Value), one.Offset})
			}
		})
	}
}

func (l *life) failure() error {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.failed
}

func (l *life) end(name string, try kgo.TransactionEndTry, why string) error {
	tell("Ending", fields{"transaction": name, "commit": bool(try)})
	committed, err := l.session.End(context.Background(), try)
	l.lock.Lock()
	if len(l.acked) > 0 {
		tell("Acked", fields{"transaction": name, "records": l.acked})
	}
	l.acked, l.failed = nil, nil
	l.lock.Unlock()
	outcome := "ok"
	if err != nil {
		outcome, why, committed = "unknown", err.Error(), bool(try)
	} else if !committed {
		l.readers.Add(1) // it is set back to what was committed
	}
	tell("Ended", fields{"transaction": name, "commit": committed, "outcome": outcome, "why": why})
	return err
}
