package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sink is a server that acknowledges and drops: as little as a server can do with a Produce, for a ceiling. It counts the
// records of each partition by their batches' headers, so that ListOffsets tells what came.
type sink struct {
	host   string
	port   int32
	mutex  sync.Mutex
	topics map[string][]int64 // the end of each partition
	next   int64              // id of a producer
}

// Newest versions that it answers.
var sinkVersions = map[int16]int16{
	kmsg.Produce.Int16(): 12, kmsg.ListOffsets.Int16(): 6, kmsg.Metadata.Int16(): 12, kmsg.ApiVersions.Int16(): 3,
	kmsg.CreateTopics.Int16(): 5, kmsg.InitProducerID.Int16(): 4,
	// There is nothing to fetch; without it librdkafka would write the batches of old.
	kmsg.Fetch.Int16(): 11,
}

// Oldest ones, where it is not 0.
var sinkOldest = map[int16]int16{kmsg.Produce.Int16(): 3}

func serveSink(out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().(*net.TCPAddr)
	s := &sink{host: "127.0.0.1", port: int32(address.Port), topics: map[string][]int64{}}
	fmt.Fprintf(out, "Kafka is ready on 127.0.0.1:%d\n", address.Port)
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go s.serve(client)
	}
}

func (s *sink) serve(client net.Conn) {
	defer client.Close()
	reader := bufio.NewReaderSize(client, readerBytes)
	var size [4]byte
	var body []byte
	for {
		if _, err := io.ReadFull(reader, size[:]); err != nil {
			return
		}
		length := int(binary.BigEndian.Uint32(size[:]))
		if cap(body) < length {
			body = make([]byte, length)
		}
		body = body[:length]
		if _, err := io.ReadFull(reader, body); err != nil {
			return
		}
		answer, err := s.answer(body)
		if err != nil {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

func (s *sink) answer(body []byte) ([]byte, error) {
	key, version := int16(binary.BigEndian.Uint16(body)), int16(binary.BigEndian.Uint16(body[2:]))
	request := kmsg.RequestForKey(key)
	most, known := sinkVersions[key]
	if !known {
		return nil, fmt.Errorf("no API %d here", key)
	}
	if key == kmsg.ApiVersions.Int16() && version > most {
		version = 0 // what Kafka answers to one that is too new
	}
	request.SetVersion(version)
	at := 10
	if name := int16(binary.BigEndian.Uint16(body[8:])); name > 0 {
		at += int(name)
	}
	if request.IsFlexible() {
		at++ // no tags
	}
	if key != kmsg.ApiVersions.Int16() {
		if err := request.ReadFrom(body[at:]); err != nil {
			return nil, err
		}
	}
	response := request.ResponseKind()
	s.fill(request, response)
	framed := append(make([]byte, 4, 256), body[4:8]...)
	if request.IsFlexible() && key != kmsg.ApiVersions.Int16() {
		framed = append(framed, 0)
	}
	framed = response.AppendTo(framed)
	binary.BigEndian.PutUint32(framed, uint32(len(framed)-4))
	return framed, nil
}

func (s *sink) fill(request kmsg.Request, response kmsg.Response) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch asked := request.(type) {
	case *kmsg.ApiVersionsRequest:
		for key, most := range sinkVersions {
			one := kmsg.NewApiVersionsResponseApiKey()
			one.ApiKey, one.MinVersion, one.MaxVersion = key, sinkOldest[key], most
			answer := response.(*kmsg.ApiVersionsResponse)
			answer.ApiKeys = append(answer.ApiKeys, one)
		}
	case *kmsg.InitProducerIDRequest:
		s.next++
		response.(*kmsg.InitProducerIDResponse).ProducerID = s.next
	case *kmsg.CreateTopicsRequest:
		for _, topic := range asked.Topics {
			s.topics[topic.Topic] = make([]int64, max(1, topic.NumPartitions))
			one := kmsg.NewCreateTopicsResponseTopic()
			one.Topic, one.NumPartitions, one.ReplicationFactor = topic.Topic, topic.NumPartitions, 1
			answer := response.(*kmsg.CreateTopicsResponse)
			answer.Topics = append(answer.Topics, one)
		}
	case *kmsg.MetadataRequest:
		s.metadata(asked, response.(*kmsg.MetadataResponse))
	case *kmsg.ListOffsetsRequest:
		s.listOffsets(asked, response.(*kmsg.ListOffsetsResponse))
	case *kmsg.ProduceRequest:
		s.produce(asked, response.(*kmsg.ProduceResponse))
	}
}

func (s *sink) metadata(asked *kmsg.MetadataRequest, answer *kmsg.MetadataResponse) {
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port = 1, s.host, s.port
	answer.Brokers = append(answer.Brokers, broker)
	answer.ControllerID = 1
	name := "sink"
	answer.ClusterID = &name
	var names []string
	for _, one := range asked.Topics {
		if one.Topic != nil {
			names = append(names, *one.Topic)
		}
	}
	if asked.Topics == nil {
		for name := range s.topics {
			names = append(names, name)
		}
	}
	for _, name := range names {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = kmsg.StringPtr(name)
		if s.topics[name] == nil {
			topic.ErrorCode = 3 // UNKNOWN_TOPIC_OR_PARTITION
		}
		for index := range s.topics[name] {
			one := kmsg.NewMetadataResponseTopicPartition()
			one.Partition, one.Leader, one.Replicas, one.ISR = int32(index), 1, []int32{1}, []int32{1}
			topic.Partitions = append(topic.Partitions, one)
		}
		answer.Topics = append(answer.Topics, topic)
	}
}

func (s *sink) listOffsets(asked *kmsg.ListOffsetsRequest, answer *kmsg.ListOffsetsResponse) {
	for _, topic := range asked.Topics {
		found := kmsg.NewListOffsetsResponseTopic()
		found.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			one := kmsg.NewListOffsetsResponseTopicPartition()
			one.Partition = partition.Partition
			if ends := s.topics[topic.Topic]; int(partition.Partition) >= len(ends) {
				one.ErrorCode = 3
			} else if one.Offset = 0; partition.Timestamp == -1 {
				one.Offset = ends[partition.Partition]
			}
			found.Partitions = append(found.Partitions, one)
		}
		answer.Topics = append(answer.Topics, found)
	}
}

func (s *sink) produce(asked *kmsg.ProduceRequest, answer *kmsg.ProduceResponse) {
	for _, topic := range asked.Topics {
		found := kmsg.NewProduceResponseTopic()
		found.Topic = topic.Topic
		ends := s.topics[topic.Topic]
		for _, partition := range topic.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition = partition.Partition
			if int(partition.Partition) >= len(ends) || len(partition.Records) < batchHeaderBytes {
				one.ErrorCode = 3
			} else {
				one.BaseOffset = ends[partition.Partition]
				ends[partition.Partition] += int64(binary.BigEndian.Uint32(partition.Records[countAt:]))
			}
			found.Partitions = append(found.Partitions, one)
		}
		answer.Topics = append(answer.Topics, found)
	}
}
