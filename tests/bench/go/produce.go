package main

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const produceTimeoutMillis = 30_000

// frame is an encoded Produce request that is sent over and over, with other sequences each time.
type frame struct {
	bytes      []byte
	batches    []int // where they begin
	lengths    []int
	partitions []int32
	records    int64
	valueBytes int64
}

// producer is one client: an idempotent producer that keeps requests in flight on one connection.
type producer struct {
	*connection
	id        int64
	epoch     int16
	frames    []frame
	sequences []int32
	each      int32 // records of a batch
}

// produced counts what was acknowledged.
type produced struct {
	records, bytes, requests, batches atomic.Int64
	// Where there is a limit: requests that may still begin.
	limited bool
	left    atomic.Int64
	stop    atomic.Bool
}

// newProducer makes one that writes to these partitions, which are led at the address.
func newProducer(address string, o options, partitions []int32, seed int64) (*producer, error) {
	c, err := dial(address)
	if err != nil {
		return nil, err
	}
	given, err := producerID(c)
	if err != nil {
		return nil, err
	}
	p := &producer{connection: c, id: given.ProducerID, epoch: given.ProducerEpoch, sequences: make([]int32, o.Partitions)}
	return p, p.makeFrames(o, partitions, seed)
}

// producerID asks for an id, again and again while the server says that it cannot give one yet.
func producerID(c *connection) (*kmsg.InitProducerIDResponse, error) {
	request := kmsg.NewPtrInitProducerIDRequest()
	c.choose(request, 4)
	for deadline := time.Now().Add(answerPatience); ; time.Sleep(20 * time.Millisecond) {
		answer, err := c.ask(request)
		if err != nil {
			return nil, err
		}
		given := answer.(*kmsg.InitProducerIDResponse)
		err = check("InitProducerId", given.ErrorCode)
		if err == nil || !kerr.IsRetriable(kerr.ErrorForCode(given.ErrorCode)) || time.Now().After(deadline) {
			return given, err
		}
	}
}

// makeFrames encodes requests that go through all of these partitions: in each as many as fit, one batch for a
// partition.
func (p *producer) makeFrames(o options, partitions []int32, seed int64) error {
	made, err := makeBatch(o.RecordBytes, o.BatchBytes, o.Codec, seed)
	if err != nil {
		return err
	}
	p.each = made.records
	// Another place to begin for each producer: they do not all write to the same partition at once.
	count := len(partitions)
	first := int(seed) * count / max(1, o.Clients)
	fit := max(1, o.RequestBytes/len(made.bytes))
	for from := 0; from < count; from += fit {
		var indexes []int32
		for place := from; place < min(from+fit, count); place++ {
			indexes = append(indexes, partitions[(first+place)%count])
		}
		p.frames = append(p.frames, p.makeFrame(o, made, indexes))
	}
	return nil
}

func (p *producer) makeFrame(o options, made batch, indexes []int32) frame {
	request := kmsg.NewPtrProduceRequest()
	request.Acks = -1
	request.TimeoutMillis = produceTimeoutMillis
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = o.Topic
	for _, index := range indexes {
		one := kmsg.NewProduceRequestTopicPartition()
		one.Partition, one.Records = index, made.bytes
		topic.Partitions = append(topic.Partitions, one)
	}
	request.Topics = append(request.Topics, topic)
	p.choose(request, 12)
	f := frame{bytes: formatter.AppendRequest(nil, request, 0), partitions: indexes}
	for from := 0; len(f.batches) < len(indexes); {
		at := from + bytes.Index(f.bytes[from:], made.bytes)
		f.batches = append(f.batches, at)
		from = at + len(made.bytes)
	}
	f.lengths = make([]int, len(indexes))
	for index := range f.lengths {
		f.lengths[index] = len(made.bytes)
	}
	f.records = int64(made.records) * int64(len(indexes))
	f.valueBytes = f.records * int64(o.RecordBytes)
	return f
}

// send writes the frame with each partition's next sequence. The kernel has its bytes when this returns.
func (p *producer) send(f *frame) error {
	for place, at := range f.batches {
		index := f.partitions[place]
		number(f.bytes[at:at+f.lengths[place]], p.id, p.epoch, p.sequences[index])
		p.sequences[index] = int32((int64(p.sequences[index]) + int64(p.each)) & 0x7fffffff)
	}
	_, err := p.Write(f.bytes)
	return err
}

// acknowledged reads the answer to a Produce.
func (p *producer) acknowledged() error {
	body, err := p.receive()
	if err != nil {
		return err
	}
	request := kmsg.NewPtrProduceRequest()
	p.choose(request, 12)
	answer, err := decode(request, body)
	if err != nil {
		return err
	}
	for _, topic := range answer.(*kmsg.ProduceResponse).Topics {
		for _, one := range topic.Partitions {
			if err := check(fmt.Sprintf("Produce to %s-%d", topic.Topic, one.Partition), one.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// run keeps requests in flight until it is told to stop, and returns when all are acknowledged.
func (p *producer) run(inFlight int, pause time.Duration, counted *produced) error {
	sent := make(chan *frame, inFlight-1) // one more is with the reader
	received := make(chan error, 1)
	go func() {
		for f := range sent {
			if err := p.acknowledged(); err != nil {
				counted.stop.Store(true)
				received <- err
				for range sent { // the sender must not wait for us
				}
				return
			}
			counted.requests.Add(1)
			counted.batches.Add(int64(len(f.batches)))
			counted.records.Add(f.records)
			counted.bytes.Add(f.valueBytes)
		}
		received <- nil
	}()
	err := p.sendUntilStopped(sent, pause, counted)
	close(sent)
	if failed := <-received; failed != nil {
		return failed
	}
	return err
}

func (p *producer) sendUntilStopped(sent chan<- *frame, pause time.Duration, counted *produced) error {
	next := time.Now()
	for turn := 0; !counted.stop.Load(); turn++ {
		if counted.limited && counted.left.Add(-1) < 0 {
			return nil
		}
		if pause > 0 {
			time.Sleep(time.Until(next))
			next = next.Add(pause)
		}
		f := &p.frames[turn%len(p.frames)]
		sent <- f
		if err := p.send(f); err != nil {
			return err
		}
	}
	return nil
}

// running is a set of producers at work.
type running struct {
	counted produced
	once    sync.Once
	failed  chan error
	done    sync.WaitGroup
}

// startProducers begins to produce: limited to a number of records in all, to a rate, or to nothing.
func startProducers(o options) (*running, error) {
	led, err := leaders(o.Bootstrap, o.Topic)
	if err != nil {
		return nil, err
	}
	// Each client has a connection to each broker.
	connections := o.Clients * len(led)
	r := &running{failed: make(chan error, connections)}
	r.counted.limited = o.Records > 0
	for index := range o.Clients {
		for address, partitions := range led {
			p, err := newProducer(address, o, partitions, int64(index))
			if err != nil {
				return nil, err
			}
			r.start(p, o, connections)
		}
	}
	return r, nil
}

func (r *running) start(p *producer, o options, connections int) {
	records := p.frames[0].records
	r.once.Do(func() { r.counted.left.Store((o.Records + records - 1) / records) })
	var pause time.Duration
	if o.Rate > 0 {
		pause = seconds(float64(records) * float64(connections) / o.Rate)
	}
	r.done.Go(func() {
		defer p.Close()
		if err := p.run(o.InFlight, pause, &r.counted); err != nil {
			r.failed <- err
		}
	})
}

// finish stops the producers, waits for their acknowledgements, and says what went wrong.
func (r *running) finish() error {
	r.counted.stop.Store(true)
	return r.wait()
}

func (r *running) wait() error {
	r.done.Wait()
	select {
	case err := <-r.failed:
		return err
	default:
		return nil
	}
}

func (p *produced) into(r *result, sign int64) {
	r.Records += sign * p.records.Load()
	r.Bytes += sign * p.bytes.Load()
	r.Requests += sign * p.requests.Load()
	r.Batches += sign * p.batches.Load()
}

// produce is the role: idempotent producers, acks=all, full batches.
func produce(o options) (result, error) {
	var found result
	began, err := now(o.Pids)
	if err != nil {
		return found, err
	}
	r, err := startProducers(o)
	if err != nil {
		return found, err
	}
	if o.Records > 0 {
		if err := r.wait(); err != nil {
			return found, err
		}
		ended, err := now(o.Pids)
		found.between(began, ended)
		r.counted.into(&found, 1)
		found.AllRecords = found.Records
		return found, err
	}
	from, to, err := o.measured(r.failed,
		func() { r.counted.into(&found, -1) }, func() { r.counted.into(&found, 1) })
	if err != nil {
		return found, err
	}
	found.between(from, to)
	err = r.finish()
	found.AllRecords = r.counted.records.Load()
	return found, err
}

// oneRecord is a Produce of one record, for those who wait for each.
func oneRecord(p *producer, o options, partition int32) (*frame, error) {
	made, err := makeBatch(o.RecordBytes, 0, "none", 1)
	if err != nil {
		return nil, err
	}
	p.each = made.records
	f := p.makeFrame(o, made, []int32{partition})
	return &f, nil
}
