// An idempotent producer; for its arguments and lines see tests/faults/senders/__init__.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const longestLine = 1 << 20

func main() {
	if err := run(strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(bootstrap []string, topic, timeoutMillis string) error {
	timeout, err := strconv.Atoi(timeoutMillis)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(2*time.Millisecond), kgo.RecordDeliveryTimeout(time.Duration(timeout)*time.Millisecond),
		kgo.ProduceRequestTimeout(10*time.Second), kgo.DialTimeout(2*time.Second), kgo.MetadataMaxAge(5*time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	var lock sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), "\t", 3)
		partition, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		record := &kgo.Record{Partition: int32(partition), Value: []byte(fields[2])}
		client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				fmt.Printf("%s\terror\t%s\n", fields[0], strings.ReplaceAll(err.Error(), "\n", " "))
			} else {
				fmt.Printf("%s\t%d\n", fields[0], record.Offset)
			}
		})
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return client.Flush(context.Background())
}
