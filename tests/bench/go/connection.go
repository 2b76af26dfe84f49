package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	answerPatience = 60 * time.Second
	readerBytes    = 256 << 10
)

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))

// connection is a bare one: what is sent can be encoded beforehand, and answers come in the order of the requests.
type connection struct {
	net.Conn
	reader   *bufio.Reader
	versions map[int16]int16
	buffer   []byte
}

// dial connects and asks for the versions that the server has.
func dial(address string) (*connection, error) {
	socket, err := net.DialTimeout("tcp", address, answerPatience)
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: socket, reader: bufio.NewReaderSize(socket, readerBytes), versions: map[int16]int16{}}
	answer, err := c.ask(kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		c.Close()
		return nil, err
	}
	for _, one := range answer.(*kmsg.ApiVersionsResponse).ApiKeys {
		c.versions[one.ApiKey] = one.MaxVersion
	}
	return c, nil
}

// choose sets the newest version that both have, at most this one.
func (c *connection) choose(request kmsg.Request, most int16) {
	request.SetVersion(min(most, request.MaxVersion(), c.versions[request.Key()]))
}

// ask sends one request and waits for its answer.
func (c *connection) ask(request kmsg.Request) (kmsg.Response, error) {
	if _, err := c.Write(formatter.AppendRequest(nil, request, 0)); err != nil {
		return nil, err
	}
	body, err := c.receive()
	if err != nil {
		return nil, err
	}
	return decode(request, body)
}

// receive reads the next answer, without its size; it is valid until the next call.
func (c *connection) receive() ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(answerPatience)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.reader, size[:]); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(size[:]))
	if cap(c.buffer) < length {
		c.buffer = make([]byte, length)
	}
	c.buffer = c.buffer[:length]
	_, err := io.ReadFull(c.reader, c.buffer)
	return c.buffer, err
}

// decode makes a value of an answer to this request; what is in it may lie in the answer's bytes.
func decode(request kmsg.Request, answer []byte) (kmsg.Response, error) {
	body := answer[4:]
	if request.IsFlexible() && request.Key() != kmsg.ApiVersions.Int16() {
		body = body[1:]
	}
	response := request.ResponseKind()
	return response, response.ReadFrom(body)
}

// leader gives the address of the only broker that there is.
func leader(bootstrap string) (string, error) {
	c, err := dial(bootstrap)
	if err != nil {
		return "", err
	}
	defer c.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	c.choose(request, 8)
	answer, err := c.ask(request)
	if err != nil {
		return "", err
	}
	brokers := answer.(*kmsg.MetadataResponse).Brokers
	if len(brokers) != 1 {
		return "", fmt.Errorf("%d brokers, of which one is measured", len(brokers))
	}
	return net.JoinHostPort(brokers[0].Host, fmt.Sprint(brokers[0].Port)), nil
}

// leaders gives the partitions of a topic by the addresses of the brokers that lead them.
func leaders(bootstrap string, name string) (map[string][]int32, error) {
	c, err := dial(bootstrap)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	request.Topics = []kmsg.MetadataRequestTopic{topic}
	c.choose(request, 8)
	answer, err := c.ask(request)
	if err != nil {
		return nil, err
	}
	addresses := map[int32]string{}
	for _, one := range answer.(*kmsg.MetadataResponse).Brokers {
		addresses[one.NodeID] = net.JoinHostPort(one.Host, fmt.Sprint(one.Port))
	}
	found := answer.(*kmsg.MetadataResponse).Topics[0]
	if err := check("the topic "+name, found.ErrorCode); err != nil {
		return nil, err
	}
	led := map[string][]int32{}
	for _, one := range found.Partitions {
		if err := check(fmt.Sprintf("the leader of %s-%d", name, one.Partition), one.ErrorCode); err != nil {
			return nil, err
		}
		led[addresses[one.Leader]] = append(led[addresses[one.Leader]], one.Partition)
	}
	for _, partitions := range led {
		slices.Sort(partitions)
	}
	return led, nil
}

// all gives the partitions of a topic that has so many.
func all(count int) []int32 {
	partitions := make([]int32, count)
	for index := range partitions {
		partitions[index] = int32(index)
	}
	return partitions
}

// check makes an error of an error code.
func check(what string, code int16) error {
	if err := kerr.ErrorForCode(code); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// offsets asks for each partition's first offset, or for its end.
func offsets(c *connection, topic string, partitions []int32, timestamp int64) (map[int32]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for _, index := range partitions {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = index, timestamp
		asked.Partitions = append(asked.Partitions, one)
	}
	request.Topics = append(request.Topics, asked)
	c.choose(request, 6)
	answer, err := c.ask(request)
	if err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	for _, one := range answer.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		if err := check("ListOffsets", one.ErrorCode); err != nil {
			return nil, err
		}
		found[one.Partition] = one.Offset
	}
	return found, nil
}
